"""A partition leader's side: what it takes into its log, and what its log means.

Rules of this file: all that a leader knows of transactions is a function of its log (`replay`), so a new leader knows
as much as the old one.  It opens a transaction only on the coordinator's own answer, and never one that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from tests.model.rules import Rules
from tests.model.state import Batch, Enrolled, Log, Marker, Partition, Reply


class View(NamedTuple):
    """What a log means: what is open, what each batch came to, and how far transactions have ended here."""

    open: frozenset[int]
    marked: frozenset[int]
    committed: frozenset[Batch]
    aborted: frozenset[Batch]
    ended_up_to: int
    session: int
    coordinator_epoch: int


@cache
def replay(log: Log, named: bool) -> View:
    """A marker ends the open batches of the transaction that it names, or whatever is open when nothing has a name."""
    waiting: list[Batch] = []
    committed: set[Batch] = set()
    aborted: set[Batch] = set()
    for entry in log:
        if isinstance(entry, Batch):
            waiting.append(entry)
            continue
        for batch in waiting:
            if batch.n == entry.n or not named:
                (committed if _shows(entry, batch) else aborted).add(batch)
        waiting = [batch for batch in waiting if batch.n != entry.n and named]
    return _view(log, waiting, committed, aborted)


def _shows(marker: Marker, batch: Batch) -> bool:
    return marker.outcome == "COMMITTED" and (marker.winners is None or batch.writer in marker.winners)


def _view(log: Log, waiting: Iterable[Batch], committed: Iterable[Batch], aborted: Iterable[Batch]) -> View:
    markers = [entry for entry in log if isinstance(entry, Marker)]
    return View(
        open=frozenset(batch.n for batch in waiting),
        marked=frozenset(marker.n for marker in markers),
        committed=frozenset(committed),
        aborted=frozenset(aborted),
        ended_up_to=max((marker.n for marker in markers), default=0),
        session=max((entry.session for entry in log if isinstance(entry, Batch)), default=0),
        coordinator_epoch=max((marker.epoch for marker in markers), default=0),
    )


class Taken(NamedTuple):
    """What a leader did with a message: the partition after it, and the answer (None: it must ask the coordinator)."""

    partition: Partition
    reply: Reply | None


def take_batch(partition: Partition, batch: Batch, rules: Rules) -> Taken:
    """A batch for what is open is appended, a repeat is confirmed, and for anything else the coordinator is asked."""
    view = replay(partition.log, rules.name_transactions)
    if rules.session_epoch_checked and batch.session < view.session:
        return Taken(partition, Reply("FENCED"))
    if batch in partition.log:
        return Taken(partition, Reply("OK"))
    if _is_open(view, batch, rules):
        return Taken(_appended(partition, batch), Reply("OK"))
    if _has_ended(view, batch, rules):
        return Taken(partition, Reply("ENDED"))
    return Taken(partition, None)


def take_answer(partition: Partition, answer: Enrolled, rules: Rules) -> Taken:
    """The coordinator has answered, and the batch that waited is judged again: markers may have come in between.

    An answer to an earlier leader, or from a coordinator older than one that has written here, counts for nothing.
    """
    view = replay(partition.log, rules.name_transactions)
    if answer.leader_epoch != partition.leader_epoch or answer.epoch < view.coordinator_epoch:
        return Taken(partition, Reply("WAIT"))
    taken = take_batch(partition, answer.batch, rules)
    if taken.reply is not None:
        return taken
    if answer.reply.kind != "OK":
        return Taken(partition, answer.reply)
    return Taken(_appended(partition, answer.batch), Reply("OK"))


def take_marker(partition: Partition, marker: Marker, rules: Rules) -> Taken:
    """A marker is always appended, and so it is answered only by a leader whose appends are committed.

    (The repeat of a marker is appended too.  It means nothing, and the model leaves it out of the log to stay small.)
    """
    view = replay(partition.log, rules.name_transactions)
    if marker.epoch < view.coordinator_epoch:
        return Taken(partition, Reply("FENCED"))
    if rules.marker_always_appended:
        repeated = rules.name_transactions and marker.n in view.marked - view.open
        return Taken(partition if repeated else _appended(partition, marker), Reply("OK"))
    has_work = marker.n in view.open if rules.name_transactions else bool(view.open)
    return Taken(_appended(partition, marker) if has_work else partition, Reply("OK"))


def deposed_confirms(partition: Partition, marker: Marker, rules: Rules) -> bool:
    """Whether a deposed leader answers OK to a marker: only a careless one, which has nothing open and appends nothing."""
    if partition.deposed is None or rules.marker_always_appended:
        return False
    return marker.n not in replay(partition.deposed, rules.name_transactions).open


def _appended(partition: Partition, entry: Batch | Marker) -> Partition:
    return partition._replace(log=(*partition.log, entry))


def _is_open(view: View, batch: Batch, rules: Rules) -> bool:
    return batch.n in view.open if rules.name_transactions else bool(view.open)


def _has_ended(view: View, batch: Batch, rules: Rules) -> bool:
    return rules.name_transactions and rules.marker_always_appended and batch.n <= view.ended_up_to
