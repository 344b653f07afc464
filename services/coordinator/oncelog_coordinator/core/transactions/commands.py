"""The commands and answers of a transaction shard: plain values; times are in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Command, Effect
from oncelog_coordinator.core.transactions.records import Target
from oncelog_coordinator.core.transactions.states import TxnState
from oncelog_coordinator.core.transactions.transaction_state import Counts


class TxnName(NamedTuple):
    """The name of a transaction and the session of the caller. When `transactional_id` is empty, the producer id
    identifies it.
    """

    transactional_id: str
    txn_producer_id: int
    txn_no: int
    producer_epoch: int


# ---------------------------------------------------------------- clients


@dataclass(frozen=True, slots=True)
class InitProducerId(Command["SessionReply"]):
    """Starts a session. `fresh_producer_id` is used when the id is unknown; `expected_*` 0/0 = unconditionally."""

    transactional_id: str
    timeout_ms: int
    nonce: str
    fresh_producer_id: int
    expected_producer_id: int = 0
    expected_producer_epoch: int = 0


@dataclass(frozen=True, slots=True)
class SessionReply:
    """Answers InitProducerId."""

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
    """Answers End with the outcome of n, which an earlier request may have decided; `visible`: every marker is committed."""

    committed: bool
    visible: bool
    txn_no: int = 0


@dataclass(frozen=True, slots=True)
class GetOutcome(Command["OutcomeReply"]):
    """Asks for the outcome of n."""

    transactional_id: str
    txn_no: int


@dataclass(frozen=True, slots=True)
class OutcomeReply:
    """Answers GetOutcome. `committed` None: not decided yet, or (`begun` False) no transaction has this number yet."""

    committed: bool | None
    visible: bool
    begun: bool = True


# ---------------------------------------------------------------- participants


class BatchName(NamedTuple):
    """Names what a Spark run writes: application, batch, and the attempt of the planner."""

    app_id: str
    batch_id: int
    write_attempt: str


@dataclass(frozen=True, slots=True)
class Join(Command["JoinReply"]):
    """A task attempt becomes a participant. `fresh_producer_id` is for a transactional id that is unknown."""

    transactional_id: str
    owner_run: str
    batch: BatchName
    own_producer_id: int
    lease_ms: int = 0
    max_duration_ms: int = 0
    fresh_producer_id: int = 0


@dataclass(frozen=True, slots=True)
class JoinReply:
    """Answers Join. `already_committed`: the batch is committed, so the task writes nothing; then only `committed_rows`
    is set.
    """

    already_committed: bool = False
    committed_rows: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    txn_producer_id: int = 0
    txn_no: int = 0


@dataclass(frozen=True, slots=True)
class Renew(Command[None]):
    """Renews the lease of the open transaction."""

    is_vital: ClassVar[bool] = True
    name: TxnName
    owner_run: str


@dataclass(frozen=True, slots=True)
class Winner:
    """A participant whose data is committed."""

    producer_id: int
    rows: int
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Commit(Command["CommitReply"]):
    """Commits n for all its participants in one decision.

    `txn_no` 0 without winners: a batch that no task joined (no rows), whose token must be stored all the same;
    `fresh_producer_id` is for an id that is unknown. `token_expires`: this batch is never written again.
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
    """Answers Commit. `visible`: every marker is committed; otherwise `waits_for` names the transactions with missing
    markers.
    """

    already_committed: bool
    committed_rows: int
    txn_no: int
    visible: bool
    waits_for: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Abort(Command[bool]):
    """Aborts n if it is open and owned by the run; otherwise a no-op. The reply is True when this call aborted it."""

    transactional_id: str
    owner_run: str
    txn_no: int
    app_id: str
    batch_id: int


# ---------------------------------------------------------------- healing, time, operators


@dataclass(frozen=True, slots=True)
class Resolve(Command["ResolveReply"]):
    """Asks for the outcome of (producer id, n), for the leader of a partition; an empty topic id means a group shard asks."""

    txn_producer_id: int
    txn_no: int
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class ResolveReply:
    """Answers Resolve. `committed` None: still open. `winners` None: the outcome holds for every producer of the name."""

    committed: bool | None
    session_epoch: int
    winners: tuple[int, ...] | None = None
    expected_records: int = -1


@dataclass(frozen=True, slots=True)
class MarkersCommitted(Command[None]):
    """Reports that the marker of n is below the high watermark of these partitions, so readers see it."""

    transactional_id: str
    txn_no: int
    partitions: tuple[PartitionId, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkersDone(Command[None]):
    """Reports that the marker of n is on the disks of all in-sync replicas of these partitions and groups, or that they
    are proven to be deleted: it need not be sent again.
    """

    transactional_id: str
    txn_no: int
    partitions: tuple[PartitionId, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tick(Command[None]):
    """Decides what is due by the clock."""


@dataclass(frozen=True, slots=True)
class ForceAbort(Command[int]):
    """An operator's request to abort n if it is open; n = 0: any open transaction. The reply is its number, 0 = none
    was open.
    """

    transactional_id: str
    txn_no: int = 0


@dataclass(frozen=True, slots=True)
class ListIds(Command["tuple[TransactionView, ...]"]):
    """Lists all ids whose state is among `states`; empty = all."""

    states: tuple[TxnState, ...] = ()


@dataclass(frozen=True, slots=True)
class Describe(Command["TransactionView"]):
    """Describes one id."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class TransactionView:
    """An id as shown to operators."""

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
    """Effect: send the markers of n to its partitions and groups, again and again until each has one."""

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
    """Effect: every marker of n is committed, so callers that wait for VISIBLE can be answered."""

    transactional_id: str
    txn_no: int
