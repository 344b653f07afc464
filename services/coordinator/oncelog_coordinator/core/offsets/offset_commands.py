"""What a group shard can be asked about offsets, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from oncelog.errors import OncelogError
from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Command, Effect
from oncelog_coordinator.core.offsets.offset_records import CommittedOffset, OffsetValue, PendingOffsets
from oncelog_coordinator.core.transactions.commands import Tick, TxnName


class Member(NamedTuple):
    """Who commits. A simple group has no members: empty id and epoch -1."""

    group_id: str
    member_id: str = ""
    member_epoch: int = -1


@dataclass(frozen=True, slots=True)
class CommitOffsets(Command["tuple[OffsetError, ...]"]):
    """Offsets outside a transaction. The reply is a tuple of `OffsetError`, empty when all went well."""

    member: Member
    sequence: int
    offsets: tuple[OffsetValue, ...]
    all_or_nothing: bool = False
    """The first offset that is refused refuses all of them."""


@dataclass(frozen=True, slots=True)
class OffsetError:
    """Why one partition of a commit was refused; the others succeeded."""

    value: OffsetValue
    error: OncelogError


@dataclass(frozen=True, slots=True)
class FetchOffsets(Command["tuple[OffsetValue, ...]"]):
    """Committed offsets of these partitions; None = all. The reply is a tuple of `OffsetValue`."""

    group_id: str
    partitions: tuple[PartitionId, ...] | None = None
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class SendOffsets(Command[None]):
    """Offsets that commit with a transaction, in which the group is enrolled durably already."""

    name: TxnName
    txn_shard: int
    member: Member
    sequence: int
    offsets: tuple[OffsetValue, ...]


@dataclass(frozen=True, slots=True)
class GroupMarker(Command[None]):
    """The outcome of a transaction, for one group."""

    group_id: str
    txn_producer_id: int
    txn_no: int
    committed: bool
    txn_shard: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class DeleteOffsets(Command[int]):
    """Forgets committed offsets; `partitions` None = all. The reply is how many there were."""

    group_id: str
    partitions: tuple[PartitionId, ...] | None = None


@dataclass(frozen=True, slots=True)
class ListGroups(Command["tuple[GroupView, ...]"]):
    """All groups with an offset, committed or pending. The reply is a tuple of `GroupView`."""


@dataclass(frozen=True, slots=True)
class DescribeGroup(Command["GroupView"]):
    """One group. The reply is a `GroupView`; of a group that nobody used, an empty one."""

    group_id: str


@dataclass(frozen=True, slots=True)
class GroupView:
    """What operators see of a group; by partition, and by transaction."""

    group_id: str
    offsets: tuple[CommittedOffset, ...]
    pending: tuple[PendingOffsets, ...]


GroupCommand = (
    CommitOffsets | FetchOffsets | SendOffsets | GroupMarker | Tick | DeleteOffsets | ListGroups | DescribeGroup
)


@dataclass(frozen=True, slots=True)
class AskOutcome(Effect):
    """Effect: offsets of this transaction wait for long; ask its shard what became of it."""

    group_id: str
    txn_producer_id: int
    txn_no: int
    txn_shard: int
    known_epoch: int
