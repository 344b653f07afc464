"""The commands and answers about committed offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from oncelog.errors import OncelogError
from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Command, Effect
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from oncelog_coordinator.core.transactions.commands import TxnName


class Member(NamedTuple):
    """The group member that commits. A simple group has no members: empty id and epoch -1."""

    group_id: str
    member_id: str = ""
    member_epoch: int = -1


@dataclass(frozen=True, slots=True)
class CommitOffsets(Command["tuple[OffsetError, ...]"]):
    """Commits offsets outside a transaction. The reply holds the offsets that were refused; it is empty on success."""

    member: Member
    sequence: int
    offsets: tuple[OffsetValue, ...]
    all_or_nothing: bool = False
    """If true, one refused offset refuses the whole commit."""


@dataclass(frozen=True, slots=True)
class OffsetError:
    """The error of one refused partition of a commit; the others succeeded."""

    value: OffsetValue
    error: OncelogError


@dataclass(frozen=True, slots=True)
class FetchOffsets(Command["tuple[OffsetValue, ...]"]):
    """Reads committed offsets of these partitions; None = all."""

    group_id: str
    partitions: tuple[PartitionId, ...] | None = None
    require_stable: bool = False


class Enrolled(NamedTuple):
    """How a group was enrolled in a transaction: by which epoch of the transaction shard (None: it had offsets in it already),
    and how many ended transactions its own shard had forgotten before that (`EndedLedger.forgotten`).
    """

    coordinator_epoch: int | None = None
    forgotten: int = 0


ENROLLED_BEFORE: Final = Enrolled()


@dataclass(frozen=True, slots=True)
class SendOffsets(Command[None]):
    """Offsets that commit with a transaction, in which the group has been durably enrolled before."""

    name: TxnName
    txn_shard: int
    member: Member
    sequence: int
    offsets: tuple[OffsetValue, ...]
    enrolled: Enrolled = ENROLLED_BEFORE


@dataclass(frozen=True, slots=True)
class GroupMarker(Command[None]):
    """Carries the outcome of a transaction to one group."""

    is_vital: ClassVar[bool] = True
    group_id: str
    txn_producer_id: int
    txn_no: int
    committed: bool
    txn_shard: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class DeleteOffsets(Command[int]):
    """Removes committed offsets; `partitions` None = all. The reply is the number removed."""

    group_id: str
    partitions: tuple[PartitionId, ...] | None = None


@dataclass(frozen=True, slots=True)
class AskOutcome(Effect):
    """Effect: offsets have been pending in this transaction for too long; ask its shard for the outcome."""

    group_id: str
    txn_producer_id: int
    txn_no: int
    txn_shard: int
    known_epoch: int
