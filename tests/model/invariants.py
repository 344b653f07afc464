"""What must hold, and the name of each kind of violation.

- **lost**: a client was told COMMITTED, and data of that commit is aborted, or at rest is not there.
- **aborted but visible**: a reader sees data whose client did not commit it, or was told ABORTED.
- **torn**: a reader sees a part of one transaction, and another part is aborted.
- **visible twice**: a reader sees the rows of a micro-batch from two attempts at it.
- **false outcome**: two outcomes for one transaction, an answer that is not the outcome in the shard's log, a number that
  two sessions take for theirs, or VISIBLE told of what a reader does not see.
- **hanging**: at rest a transaction is open on a partition, or a client has no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.model.clients import Client, SparkJob
from tests.model.coordinator import outcome_of
from tests.model.explorer import Broken
from tests.model.leader import View, replay
from tests.model.rules import Rules
from tests.model.state import Batch, State

LOST = "lost"
ABORTED_BUT_VISIBLE = "aborted but visible"
TORN = "torn"
VISIBLE_TWICE = "visible twice"
FALSE_OUTCOME = "false outcome"
HANGING = "hanging"


def broken(state: State, rules: Rules) -> list[Broken]:
    """Every promise that is broken in this state."""
    views = [replay(partition.log, rules.name_transactions) for partition in state.partitions]
    found: list[Broken] = []
    committed = frozenset().union(*(view.committed for view in views))
    aborted = frozenset().union(*(view.aborted for view in views))
    for client in state.clients:
        found += _of_client(client, committed, aborted)
    found += _seen_without_a_client(state.clients, committed)
    found += _false_decisions(state)
    found += _false_answers(state, rules)
    found += _given_twice(state.clients)
    found += _falsely_visible(state, views)
    return found


def broken_at_rest(state: State, rules: Rules) -> list[Broken]:
    """What must hold besides when nothing more will happen by itself."""
    views = [replay(partition.log, rules.name_transactions) for partition in state.partitions]
    found = [Broken(HANGING, f"P{index} holds {min(view.open)} open") for index, view in enumerate(views) if view.open]
    for client in state.clients:
        if not client.finished or (not isinstance(client, SparkJob) and client.status == "failed"):
            found.append(Broken(HANGING, f"a client never gets on: {client}"))
        if isinstance(client, SparkJob) and client.stage == "committed":
            found += _missing(client, views)
    return found


def _of_client(client: Client, committed: frozenset[Batch], aborted: frozenset[Batch]) -> Iterator[Broken]:
    for batch in aborted:
        if client.must_show(batch):
            yield Broken(LOST, f"told COMMITTED, but {batch} is aborted")
    seen = {client.whole(batch) for batch in committed} - {None}
    for batch in aborted:
        if client.whole(batch) in seen:
            yield Broken(TORN, f"{batch} is aborted, another part is committed")
    if isinstance(client, SparkJob) and len(seen) > 1:
        yield Broken(VISIBLE_TWICE, f"attempts {sorted(map(str, seen))} are both visible")


def _seen_without_a_client(clients: Iterable[Client], committed: frozenset[Batch]) -> Iterator[Broken]:
    for batch in committed:
        if not any(client.may_show(batch) for client in clients):
            yield Broken(ABORTED_BUT_VISIBLE, f"{batch} is visible, and its client did not commit it")


def _false_decisions(state: State) -> Iterator[Broken]:
    decisions = state.shard.decisions
    for n in sorted({n for n, _ in decisions}):
        if {(n, "COMMITTED"), (n, "ABORTED")} <= decisions:
            yield Broken(FALSE_OUTCOME, f"transaction {n} was decided twice, as COMMITTED and as ABORTED")
    for client in state.clients:
        if not isinstance(client, SparkJob):
            for n, told in client.told:
                if told == "FORGOTTEN" or (n, told) not in decisions:
                    yield Broken(FALSE_OUTCOME, f"session {client.session} was told {told} of transaction {n}")


def _false_answers(state: State, rules: Rules) -> Iterator[Broken]:
    """Whoever asked any living coordinator for any number would hear nothing false."""
    for coordinator in state.coordinators:
        for n in range(1, coordinator.record.number + 1):
            kind = outcome_of(coordinator.record, n, rules).kind
            if kind in ("COMMITTED", "ABORTED") and (n, kind) not in state.shard.decisions:
                yield Broken(FALSE_OUTCOME, f"coordinator {coordinator.epoch} answers {kind} of transaction {n}")


def _given_twice(clients: Iterable[Client]) -> Iterator[Broken]:
    """Two sessions have one number: each may ask for its outcome, and one of them hears of the other's transaction."""
    owners: dict[int, int] = {}
    for client in clients:
        if not isinstance(client, SparkJob):
            for n in {client.n, *(told for told, _ in client.told)} - {0}:
                if owners.setdefault(n, client.session) != client.session:
                    yield Broken(
                        FALSE_OUTCOME, f"transaction {n} was given to session {owners[n]} and {client.session}"
                    )


def _falsely_visible(state: State, views: list[View]) -> Iterator[Broken]:
    for known in state.shard.record.kept:
        if known.outcome == "COMMITTED" and any(known.n in view.open for view in views):
            yield Broken(FALSE_OUTCOME, f"VISIBLE is told of transaction {known.n}, which is open on a partition")


def _missing(job: SparkJob, views: list[View]) -> Iterator[Broken]:
    """A micro-batch that Spark was told is in: one attempt of each chosen task is visible."""
    seen = {batch.writer for view in views for batch in view.committed}
    for name in job.chosen:
        if not any(f"{name}{attempt}" in seen for attempt in range(1, job.attempts + 1)):
            yield Broken(LOST, f"the micro-batch is committed, but no row of task {name} is visible")
