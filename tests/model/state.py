"""Everything that somebody remembers: shard log, coordinators, partitions, clients, and the messages on their way.

Rules of this file: only values.  All are named tuples of hashable values, since a search compares millions of them; two
kinds that may stand in one place (entries of a log, messages of the network) differ in the types of their fields, so
they never compare equal.  Collections whose order means nothing are sorted or frozen, so that equal states are equal.

What is left out, because it changes nothing here: one transactional id stands for all, since transactions of different
ids meet nowhere but in the offsets of a partition; an append to a partition is seen when it is committed, for an
uncommitted one that is lost with its leader is a request that never arrived; a follower is not seen at all.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from tests.model.clients import Client

Outcome = Literal["COMMITTED", "ABORTED"]
Winners: TypeAlias = "tuple[str, ...] | None"
"""The writers whose data a commit shows, sorted; None is everybody, which only a careless build says."""


# --- a partition's log ----------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """One batch of one writer, and the request that carries it: a writer sends one per transaction and partition."""

    writer: str
    session: int
    n: int
    partition: int

    def __str__(self) -> str:
        return f"{self.writer}'s batch in transaction {self.n} for P{self.partition} (session {self.session})"


class Marker(NamedTuple):
    """The end of transaction n on a partition, in the epoch of the coordinator that sent it."""

    n: int
    outcome: Outcome
    winners: Winners
    epoch: int

    def __str__(self) -> str:
        winners = "everybody" if self.winners is None else ", ".join(self.winners) or "nobody"
        return f"marker {self.outcome}({self.n}) for {winners}, coordinator epoch {self.epoch}"


Entry: TypeAlias = Batch | Marker
Log: TypeAlias = tuple[Entry, ...]


class Partition(NamedTuple):
    """A partition: its committed log, its leader's epoch, and what a deposed but living leader has of the log."""

    log: Log = ()
    leader_epoch: int = 1
    deposed: Log | None = None


# --- the coordinator ------------------------------------------------------------------------------------------------


class Decided(NamedTuple):
    """A transaction with an outcome, and the partitions which need its marker."""

    n: int
    outcome: Outcome
    winners: Winners
    partitions: frozenset[int]

    def __str__(self) -> str:
        at = ", ".join(f"P{index}" for index in sorted(self.partitions)) or "all markers in"
        return f"{self.outcome}({self.n}): {at}"


class Record(NamedTuple):
    """The state of one transactional id, which every record of the shard log holds whole.

    `expected` are partitions that count as enrolled in the next number before anybody has opened it.  What is answered
    on their strength is in memory only; `may_be_open` is the doubt of a later life, which does not know what was answered.
    """

    session: int = 1
    number: int = 0
    ongoing: bool = False
    attempt: int = 0
    enrolled: frozenset[int] = frozenset()
    decided: tuple[Decided, ...] = ()
    kept: tuple[Decided, ...] = ()
    ended_attempt: int = 0
    token: bool = False
    expected: frozenset[int] = frozenset()
    may_be_open: bool = False

    def __str__(self) -> str:
        now = f"{self.number} ongoing" if self.ongoing else f"{self.number} ended"
        past = [str(known) for known in (*self.decided, *self.kept)]
        token = ["token stored"] if self.token else []
        return "; ".join([f"session {self.session}, {now}", *past, *token])


class Coordinator(NamedTuple):
    """A living owner, or former owner, of the shard: `record` is its memory, `acked` the (n, partition) it has markers of.

    One task owns the core, so while an append is on its way (`busy`) nothing else is decided.
    """

    epoch: int
    record: Record
    acked: frozenset[tuple[int, int]] = frozenset()
    busy: bool = False

    def __str__(self) -> str:
        return f"{self.epoch}: {self.record}{' (waits for the log)' if self.busy else ''}"


class Shard(NamedTuple):
    """The shard's replicated log.  It is compacted and each record is whole, so the newest one is all there is.

    `fence` is the highest epoch that the log has seen.  `decisions` is not remembered by anybody: it is every outcome
    that was ever committed to the log, which the invariants compare with what people are told.
    """

    fence: int = 1
    record: Record = Record()
    decisions: frozenset[tuple[int, Outcome]] = frozenset()


# --- messages -------------------------------------------------------------------------------------------------------


class Reply(NamedTuple):
    """An answer.  OK, or an outcome, or why not: ENDED asks the client to abort, FENCED to stop, WAIT to ask again."""

    kind: Literal["OK", "ENDED", "FENCED", "WAIT", "ONGOING", "FORGOTTEN"] | Outcome
    n: int = 0
    winners: Winners = ()


class Init(NamedTuple):
    """A new session takes the transactional id; the session stands for the nonce, so a repeat gets the same answer."""

    session: int

    def __str__(self) -> str:
        return f"INIT of session {self.session}"


class Join(NamedTuple):
    """A task of one attempt at the micro-batch joins the open transaction as a participant."""

    session: int
    attempt: int
    writer: str

    def __str__(self) -> str:
        return f"JOIN of task {self.writer}"


class End(NamedTuple):
    """EndTransaction, or CommitTransaction with its winners, each with the transaction which its data is in."""

    session: int
    n: int
    outcome: Outcome
    winners: tuple[tuple[str, int], ...]
    attempt: int = 0

    def __str__(self) -> str:
        winners = ", ".join(f"{writer} in {n}" for writer, n in self.winners) or "nobody"
        return f"END({self.n}, {self.outcome}) with {winners} (session {self.session})"


class Enrol(NamedTuple):
    """A leader with a batch for a transaction that is not open there asks whether it may open it."""

    batch: Batch
    leader_epoch: int

    def __str__(self) -> str:
        return f"the leader's question about {self.batch}"


class Enrolled(NamedTuple):
    """The coordinator's answer; the batch has waited for it at the leader."""

    batch: Batch
    leader_epoch: int
    epoch: int
    reply: Reply


class Ask(NamedTuple):
    """A leader which holds n open asks for its outcome.  Never on its way: a definite answer does not depend on time."""

    n: int
    partition: int

    def __str__(self) -> str:
        return f"whether {self.n} has ended"


class Send(NamedTuple):
    """A late copy of a marker."""

    partition: int
    marker: Marker


Command: TypeAlias = Init | Join | End | Enrol | Ask


class Append(NamedTuple):
    """A record on its way to the shard log, with the command that waits for it (None: the coordinator's own decision)."""

    epoch: int
    record: Record
    command: Command | None
    reply: Reply


Message: TypeAlias = Batch | Init | Join | End | Enrol | Enrolled | Send | Append


@cache
def _order(message: Message) -> str:
    return repr(message)


@cache
def in_order(messages: frozenset[Message]) -> tuple[Message, ...]:
    """In an order that is the same in every run."""
    return tuple(sorted(messages, key=_order))


class Budget(NamedTuple):
    """What the adversary may still do: at most `faults` in a run, and of each kind at most so many."""

    faults: int = 0
    repeats: int = 0
    losses: int = 0
    slow_markers: int = 0
    time_outs: int = 0
    failovers: int = 0
    elections: int = 0
    give_ups: int = 0
    crashes: int = 0


@cache
def _spent(budget: Budget, kind: str) -> Budget | None:
    """The budget after one more fault of that kind, or None when there is none left."""
    left: int = getattr(budget, kind)
    if not left or not budget.faults:
        return None
    return budget._replace(**{"faults": budget.faults - 1, kind: left - 1}) if budget.faults > 1 else Budget()


class State(NamedTuple):
    """The whole system.  Coordinators are in the order of their epochs, so the owner is the last.

    `sent` is every message that has been delivered, as long as the adversary may still bring one of them again.
    """

    shard: Shard
    coordinators: tuple[Coordinator, ...]
    partitions: tuple[Partition, ...]
    clients: tuple[Client, ...]
    network: frozenset[Message]
    sent: frozenset[Message]
    budget: Budget

    def add(self, message: Message) -> State:
        """With one more message on its way; a second copy of the same changes nothing."""
        return self._replace(network=self.network | {message})

    def remove(self, message: Message) -> State:
        return self._replace(network=self.network - {message})

    def delivered(self, message: Message) -> State:
        """With a message that may be brought again."""
        if not self.budget.repeats or message in self.sent:
            return self
        return self._replace(sent=self.sent | {message})

    def spend(self, kind: str) -> State | None:
        """After one more fault, or None when the adversary has none left of that kind."""
        budget = _spent(self.budget, kind)
        if budget is None:
            return None
        return self._replace(budget=budget, sent=self.sent if budget.repeats else frozenset())

    def with_partition(self, index: int, partition: Partition) -> State:
        if self.partitions[index] is partition:
            return self
        return self._replace(partitions=(*self.partitions[:index], partition, *self.partitions[index + 1 :]))

    def with_coordinator(self, coordinator: Coordinator) -> State:
        """With the new memory of a living coordinator."""
        return self._replace(
            coordinators=tuple(coordinator if old.epoch == coordinator.epoch else old for old in self.coordinators)
        )

    def coordinator(self, epoch: int) -> Coordinator | None:
        """The coordinator of that epoch, if it lives."""
        return next((found for found in self.coordinators if found.epoch == epoch), None)

    def __str__(self) -> str:
        lines = [f"shard log     {self.shard.record} (fence {self.shard.fence})"]
        lines += [f"coordinator {coordinator}" for coordinator in self.coordinators]
        for index, partition in enumerate(self.partitions):
            lines += [f"P{index}, leader epoch {partition.leader_epoch}", *(f"    {entry}" for entry in partition.log)]
        return "\n".join([*lines, *(str(client) for client in self.clients)])
