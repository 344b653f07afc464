"""Everything that somebody remembers about one partition: three brokers, and what etcd holds.

Rules of this file: only values, all hashable, since a search compares millions of them.  Brokers are numbered 0 to 2 and
printed A to C.  Incarnations are counted for each broker by itself: they are only ever compared with those of the same
broker.  There are no revisions: a compare-and-swap succeeds when the writer has seen the value that is replaced.

What is left out, because it changes nothing here: log starts, batches (a record is a batch), and messages.  A push and
its acknowledgement are one step, since what happens between them is a step before or after both; what an
acknowledgement allows (the high watermark moves) is a step of its own, so it may come late.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

BROKERS = (0, 1, 2)
NAMES = "ABC"
NOBODY = (0, 0, 0)

Refs: TypeAlias = tuple[int, ...]
"""A set of broker incarnations: for each broker the incarnation that is named, 0 when none is."""


class Entry(NamedTuple):
    """One record: the leader epoch in which it was appended, and a value that no other record has."""

    epoch: int
    value: int


Log: TypeAlias = tuple[Entry, ...]


class Session(NamedTuple):
    """What a leader knows of a follower whose last epochs agree with its own: that incarnation holds all below `end`."""

    incarnation: int
    end: int


class Leadership(NamedTuple):
    """What a leader believes: the partition's value as it last heard of it, its followers, and its own high watermark.

    `proposed` is an ISR that it has written; the answer, which may be lost, has not come yet.
    """

    incarnation: int
    epoch: int
    start: int
    isr: Refs
    eligible: Refs
    min_insync: int
    sessions: tuple[Session | None, ...] = (None, None, None)
    proposed: Refs | None = None
    high_watermark: int = 0


class Seal(NamedTuple):
    """A leader's word on its own disk: in this epoch it commits nothing more, and its log is synced up to `end`."""

    incarnation: int
    epoch: int
    end: int


class Note(NamedTuple):
    """The log held everything that the leader of this epoch began with, at `at_offset`."""

    epoch: int
    at_offset: int


Process = Literal["up", "frozen", "down", "gone"]
"""A frozen process says nothing, and goes on later; one that is gone never comes back, nor does its disk."""


class Broker(NamedTuple):
    """One broker.  `synced` is how much of its log a power cut spares.

    `intact_since` and `born` are the incarnations of `broker.json`: since when nothing was lost, and since when this
    data directory is in use.  `seal` is on the disk, so it outlives the process; of a leader in the seal's epoch it also says
    that nothing is committed now.  `lost` is remembered by nobody: the records which faults took from it and which it has
    not got back, with their offsets.
    """

    log: Log
    synced: int
    known_epoch: int
    leads: Leadership | None = None
    process: Process = "up"
    incarnation: int = 1
    intact_since: int = 1
    born: int = 1
    seal: Seal | None = None
    lost: frozenset[tuple[int, Entry]] = frozenset()
    note: Note | None = None

    @property
    def last_epoch(self) -> int:
        return self.log[-1].epoch if self.log else -1

    @property
    def reached_epoch(self) -> int:
        """Of the last record, or of a later leader with whose log this one agreed."""
        return max(self.last_epoch, -1 if self.note is None else self.note.epoch)


class Value(NamedTuple):
    """The partition's key in etcd."""

    leader: int
    leader_incarnation: int
    epoch: int
    isr: Refs
    eligible: Refs = NOBODY


class Acked(NamedTuple):
    """A record that was below a high watermark, and so acknowledged or read, under a minimum of in-sync replicas.

    It is forgotten once so many replicas have lost it that nothing is promised any more.
    """

    offset: int
    entry: Entry
    min_insync: int


class Budget(NamedTuple):
    """What the adversary may still do: at most `faults` in a run, and of each kind at most so many."""

    faults: int = 0
    kills: int = 0
    power_cuts: int = 0
    volumes: int = 0
    goners: int = 0
    freezes: int = 0
    expiries: int = 0
    cuts: int = 0
    minimums: int = 0
    restores: int = 0
    rollbacks: int = 0
    fulls: int = 0
    losses: int = 0


@cache
def spent(budget: Budget, kind: str) -> Budget | None:
    """The budget after one more fault of that kind, or None when there is none left."""
    left: int = getattr(budget, kind)
    if not left or not budget.faults:
        return None
    return budget._replace(**{"faults": budget.faults - 1, kind: left - 1}) if budget.faults > 1 else Budget()


class State(NamedTuple):
    """The whole system.

    `registered` may name processes that are dead: their leases have not run out.  `controller` is a broker, -1 when the
    key is gone.  `heard` says of each registered incarnation whether it lived at any time in this controller's term,
    and so may have answered it.  `cut` is a broker that the others cannot reach, though all of them reach etcd.
    `overthrown` is remembered by nobody: a leader in good health was deposed.
    `backup` is what etcd may go back to.  `restored` names the incarnations of that time, until somebody is elected: what
    etcd holds is not believed.
    """

    brokers: tuple[Broker, ...]
    value: Value
    registered: Refs
    controller: int
    heard: tuple[bool, ...]
    min_insync: int
    controller_min: int
    acked: frozenset[Acked]
    appends_left: int
    budget: Budget
    cut: int = -1
    overthrown: bool = False
    backup: Value = Value(0, 1, 1, (1, 1, 1))
    restored: Refs = NOBODY

    def with_broker(self, index: int, broker: Broker) -> State:
        return self._replace(brokers=put(self.brokers, index, broker))

    def answers(self, index: int, asked_by: int) -> bool:
        """Whether a broker answers another one now."""
        broker = self.brokers[index]
        if broker.process != "up" or self.registered[index] != broker.incarnation:
            return False
        return index == asked_by or self.cut not in (index, asked_by)

    def holds(self, acked: Acked, index: int) -> bool:
        """Whether a broker's log has the record in its place."""
        log = self.brokers[index].log
        return acked.offset < len(log) and log[acked.offset] == acked.entry

    def losers(self, offset: int, entry: Entry) -> int:
        """How many replicas have lost a record by faults, and have not got it back."""
        return sum((offset, entry) in broker.lost for broker in self.brokers)

    def __str__(self) -> str:
        value = self.value
        leader = name(value.leader, value.leader_incarnation)
        etcd = f"etcd: leader {leader}, epoch {value.epoch}, ISR {show(value.isr)}, eligible {show(value.eligible)}"
        who_is_there = (
            f"registered {show(self.registered)}; controller {who(self.controller)}; min ISR {self.min_insync}"
        )
        brokers = [_show_broker(index, broker) for index, broker in enumerate(self.brokers)]
        acked = ", ".join(f"{a.entry.value} at {a.offset}" for a in sorted(self.acked)) or "nothing"
        if self.restored != NOBODY:
            etcd += " (restored, not believed)"
        return "\n".join([etcd, who_is_there, *brokers, f"promised: {acked}"])


def put(items: tuple, index: int, item: object) -> tuple:  # type: ignore[type-arg]
    """The same tuple with another item in one place."""
    return (*items[:index], item, *items[index + 1 :])


def count(refs: Refs) -> int:
    """How many brokers are named."""
    return 3 - refs.count(0)


def parts(items: list[int]) -> Iterator[tuple[int, ...]]:
    """Every part that is not empty."""
    for size in range(len(items), 0, -1):
        yield from combinations(items, size)


def who(index: int) -> str:
    return NAMES[index] if index >= 0 else "nobody"


def name(index: int, incarnation: int) -> str:
    """A broker's incarnation, as A1."""
    return f"{NAMES[index]}{incarnation}"


def show(refs: Refs) -> str:
    return "{" + " ".join(name(index, ref) for index, ref in enumerate(refs) if ref) + "}"


def _show_broker(index: int, broker: Broker) -> str:
    log = " ".join(f"{entry.value}(epoch {entry.epoch})" for entry in broker.log) or "empty"
    text = f"{name(index, broker.incarnation)} {broker.process}, intact since {broker.intact_since}, log: {log}"
    if broker.seal is not None:
        text += (
            f"; sealed as {NAMES[index]}{broker.seal.incarnation} in epoch {broker.seal.epoch} up to {broker.seal.end}"
        )
    if broker.note is not None:
        text += f"; noted epoch {broker.note.epoch} at {broker.note.at_offset}"
    if broker.leads is not None:
        leads = broker.leads
        text += f"; leads in epoch {leads.epoch}, believes ISR {show(leads.isr)}, high watermark {leads.high_watermark}"
    return text
