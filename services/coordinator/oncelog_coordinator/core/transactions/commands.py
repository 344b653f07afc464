"""What a transaction shard can be asked, and what it answers. Plain values; times in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Command, Effect
from oncelog_coordinator.core.transactions.records import Target
from oncelog_coordinator.core.transactions.states import TxnState
from oncelog_coordinator.core.transactions.transaction_state import Counts


class TxnName(NamedTuple):
    """The name of a transaction and the session that speaks. `transactional_id` may be empty: then by producer id."""

    transactional_id: str
    txn_producer_id: int
    txn_no: int
    producer_epoch: int


# ---------------------------------------------------------------- clients


@dataclass(frozen=True, slots=True)
class InitProducerId(Command["SessionReply"]):
    """A new session. `fresh_producer_id` is used when the id is unknown; `expected_*` 0/0 = unconditionally."""

    transactional_id: str
    timeout_ms: int
    nonce: str
    fresh_producer_id: int
    expected_producer_id: int = 0
    expected_producer_epoch: int = 0


@dataclass(frozen=True, slots=True)
class SessionReply:
    """Answer of InitProducerId."""

    producer_id: int
    producer_epoch: int
    next_txn_no: int


@dataclass(frozen=True, slots=True)
class Enrol(Command[None]):
    """Records partitions and groups of transaction n, and opens n when it is the next."""

    name: TxnName
    partitions: tuple[PartitionId, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class End(Command["EndReply"]):
    """Commits or aborts n."""

    name: TxnName
    commit: bool
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndReply:
    """The outcome of n, maybe decided earlier; `visible`: every marker is in."""

    committed: bool
    visible: bool
    txn_no: int = 0


@dataclass(frozen=True, slots=True)
class GetOutcome(Command["OutcomeReply"]):
    """The outcome of n."""

    transactional_id: str
    txn_no: int


@dataclass(frozen=True, slots=True)
class OutcomeReply:
    """`committed` None: not decided yet, or (`begun` False) no transaction has this number yet."""

    committed: bool | None
    visible: bool
    begun: bool = True


# ---------------------------------------------------------------- participants


class BatchName(NamedTuple):
    """What a Spark run writes: application, batch, and which attempt of the planner."""

    app_id: str
    batch_id: int
    write_attempt: str


@dataclass(frozen=True, slots=True)
class Join(Command["JoinReply"]):
    """A task attempt becomes a participant. `fresh_producer_id` is for a transactional id that is not known yet."""

    transactional_id: str
    owner_run: str
    batch: BatchName
    own_producer_id: int
    lease_ms: int = 0
    max_duration_ms: int = 0
    fresh_producer_id: int = 0


@dataclass(frozen=True, slots=True)
class JoinReply:
    """`already_committed`: write nothing, everything else is 0."""

    already_committed: bool = False
    committed_rows: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    txn_producer_id: int = 0
    txn_no: int = 0


@dataclass(frozen=True, slots=True)
class Renew(Command[None]):
    """Keeps the open transaction alive."""

    name: TxnName
    owner_run: str


@dataclass(frozen=True, slots=True)
class Winner:
    """A participant whose data commits."""

    producer_id: int
    rows: int
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Commit(Command["CommitReply"]):
    """One decision for all participants of n.

    `txn_no` 0 without winners: a batch that nobody joined (no rows, no tasks), whose token must be stored all the same;
    `fresh_producer_id` is for an id that is not known yet. `token_expires`: nobody ever writes this batch again.
    """

    transactional_id: str
    owner_run: str
    txn_no: int
    batch: BatchName
    winners: tuple[Winner, ...] = ()
    fresh_producer_id: int = 0
    token_expires: bool = False


@dataclass(frozen=True, slots=True)
class CommitReply:
    """`visible`: every marker is in; else `waits_for` names the transactions whose markers are not."""

    already_committed: bool
    committed_rows: int
    txn_no: int
    visible: bool
    waits_for: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Abort(Command[bool]):
    """Aborts n if it is open and the run's; a no-op otherwise. The reply is True when it was aborted by this call."""

    transactional_id: str
    owner_run: str
    txn_no: int
    app_id: str
    batch_id: int


# ---------------------------------------------------------------- healing, time, operators


@dataclass(frozen=True, slots=True)
class Resolve(Command["ResolveReply"]):
    """What became of (producer id, n), as asked by the leader of a partition; topic id empty: by a group shard."""

    txn_producer_id: int
    txn_no: int
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class ResolveReply:
    """`committed` None: ongoing. `winners` None: every producer of the name."""

    committed: bool | None
    session_epoch: int
    winners: tuple[int, ...] | None = None
    expected_records: int = -1


@dataclass(frozen=True, slots=True)
class MarkersCommitted(Command[None]):
    """These partitions have the marker of n below their high watermark: readers see it."""

    transactional_id: str
    txn_no: int
    partitions: tuple[PartitionId, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkersDone(Command[None]):
    """These partitions and groups have the marker of n on the disks of their in-sync replicas, or are proven to be deleted:
    nobody needs to send it again.
    """

    transactional_id: str
    txn_no: int
    partitions: tuple[PartitionId, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tick(Command[None]):
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class ForceAbort(Command[int]):
    """Aborts n, if it is open, by an operator's word; n = 0: whatever is open. The reply is its number, 0 = it was not."""

    transactional_id: str
    txn_no: int = 0


@dataclass(frozen=True, slots=True)
class ListIds(Command["tuple[TransactionView, ...]"]):
    """All ids whose state is among `states`; empty = all. The reply is a tuple of `TransactionView`."""

    states: tuple[TxnState, ...] = ()


@dataclass(frozen=True, slots=True)
class Describe(Command["TransactionView"]):
    """One id. The reply is a `TransactionView`."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class TransactionView:
    """What operators see of an id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    txn_no: int
    state: TxnState
    started_ms: int
    timeout_ms: int
    partitions: tuple[PartitionId, ...]
    groups: tuple[str, ...]
    owner_run: str
    tokens: tuple[tuple[str, int], ...]
    may_be_open: int = 0


TransactionCommand = (
    InitProducerId
    | Enrol
    | End
    | GetOutcome
    | Join
    | Renew
    | Commit
    | Abort
    | Resolve
    | MarkersCommitted
    | MarkersDone
    | Tick
    | ForceAbort
    | ListIds
    | Describe
)


# ---------------------------------------------------------------- effects and notices


@dataclass(frozen=True, slots=True)
class SendMarkers(Effect):
    """Phase two of n: markers to partitions and groups, repeated until each has one."""

    transactional_id: str
    txn_producer_id: int
    txn_no: int
    session_epoch: int
    committed: bool
    winners: tuple[int, ...] | None
    targets: tuple[Target, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BecameVisible(Effect):
    """Every marker of n is in: whoever waits for VISIBLE can be told."""

    transactional_id: str
    txn_no: int
