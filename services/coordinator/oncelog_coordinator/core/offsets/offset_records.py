"""The log records of a group shard: committed offsets, pending transactional offsets, ended transactions.

Rule 1: as in `records.py`, the newest record of a key holds the whole state under it.
Rule 2: `order` is a counter of the shard that grows with every commit, plain or transactional.  It stands for the
        record's place in the log, which a core does not know yet when it decides; the higher order wins, whatever the
        order in which transactions end (KAFKA-5247).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NotRequired, TypeAlias, TypedDict

from oncelog.core.malformed import MALFORMED
from oncelog.errors import CorruptMessageError
from oncelog.types import PartitionId
from oncelog_coordinator.core.sizes import text_bytes
from oncelog_coordinator.core.transactions.records import EpochRecord, Tombstone, dump, parse


class OffsetValue(NamedTuple):
    """An offset that a consumer commits for one partition. `leader_epoch` -1 = unknown."""

    topic_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""

    @property
    def id(self) -> PartitionId:
        """The topic id and partition of the offset."""
        return PartitionId(self.topic_id, self.partition)


class Writer(NamedTuple):
    """The member that made the last plain commit, and its sequence; sequences grow per member epoch."""

    member_id: str = ""
    member_epoch: int = -1
    sequence: int = 0


NO_WRITER: Final = Writer()
_DIGITS_MAX: Final = 19
_OFFSET_BYTES: Final = 250
"""Upper bound for the key, the numbers and the JSON names of a committed offset, without its texts."""


def offset_key(group_id: str, partition: PartitionId) -> str:
    """Returns the key of a `CommittedOffset`. The group comes last, so that no group id can look like another key."""
    return f"offset:{partition.topic_id}:{partition.partition}:{group_id}"


def parse_offset_key(key: str) -> tuple[str, PartitionId] | None:
    """Returns (group, partition) of a `CommittedOffset`'s key; None for a key of another kind or one that is malformed."""
    kind, *names = key.split(":", 3)
    if kind != "offset" or len(names) != 3 or not names[1].isdecimal():  # an older version took any text as a topic id
        return None
    topic_id, partition, group_id = names
    return group_id, PartitionId(topic_id, int(partition))


ValueForm: TypeAlias = tuple[str, str, int, int, int, str]
"""The fields of an `OffsetValue`."""


def _value_of(form: ValueForm, *, epoch_known: bool) -> OffsetValue:
    """Builds a value. Versions that do not write `epoch_known` took any epoch, also one that a caller had left out."""
    value = OffsetValue(*form)
    return value if epoch_known else value._replace(leader_epoch=-1)


class CommittedForm(TypedDict):
    """The JSON of a `CommittedOffset`; `writer` has the fields of `Writer`."""

    group: str
    value: ValueForm
    order: int
    writer: tuple[str, int, int]
    committed_ms: int
    epoch_known: NotRequired[bool]


class PendingForm(TypedDict):
    """The JSON of `PendingOffsets`."""

    group: str
    pid: int
    n: int
    epoch: int
    shard: int
    sequence: int
    since_ms: int
    offsets: list[tuple[ValueForm, int]]
    epoch_known: NotRequired[bool]


class EndedForm(TypedDict):
    """The JSON of `EndedTransactions`. What an older version does not write may be missing."""

    group: str
    pid: int
    up_to: int
    shard: int
    epoch: int
    at_ms: NotRequired[int]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The committed offset of one group on one partition."""

    group_id: str
    value: OffsetValue
    order: int
    writer: Writer = NO_WRITER
    committed_ms: int = 0

    @property
    def key(self) -> str:
        """One key per group and partition."""
        return offset_key(self.group_id, self.value.id)

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return dump(
            {
                "group": self.group_id,
                "value": list(self.value),
                "order": self.order,
                "writer": list(self.writer),
                "committed_ms": self.committed_ms,
                "epoch_known": True,
            }
        )

    @staticmethod
    def decode(value: CommittedForm) -> CommittedOffset:
        """Builds the record from what `parse` returned."""
        return CommittedOffset(
            value["group"],
            _value_of(value["value"], epoch_known=value.get("epoch_known", False)),
            value["order"],
            Writer(*value["writer"]),
            value["committed_ms"],
        )


@dataclass(frozen=True, slots=True)
class PendingOffset:
    """One offset that is committed together with its transaction."""

    value: OffsetValue
    order: int


def pending_key(group_id: str, txn_producer_id: int, txn_no: int) -> str:
    """Returns the key of a `PendingOffsets`."""
    return f"pending:{txn_producer_id}:{txn_no}:{group_id}"


@dataclass(frozen=True, slots=True)
class PendingOffsets:
    """All offsets of one group in one open transaction. The record is replaced as a whole, and removed by the marker."""

    group_id: str
    txn_producer_id: int
    txn_no: int
    producer_epoch: int
    txn_shard: int
    sequence: int
    since_ms: int
    offsets: tuple[PendingOffset, ...]

    @property
    def key(self) -> str:
        """One key per transaction and group."""
        return pending_key(self.group_id, self.txn_producer_id, self.txn_no)

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return dump(
            {
                "group": self.group_id,
                "pid": self.txn_producer_id,
                "n": self.txn_no,
                "epoch": self.producer_epoch,
                "shard": self.txn_shard,
                "sequence": self.sequence,
                "since_ms": self.since_ms,
                "offsets": [[list(item.value), item.order] for item in self.offsets],
                "epoch_known": True,
            }
        )

    @staticmethod
    def decode(value: PendingForm) -> PendingOffsets:
        """Builds the record from what `parse` returned."""
        epoch_known = value.get("epoch_known", False)
        return PendingOffsets(
            group_id=value["group"],
            txn_producer_id=value["pid"],
            txn_no=value["n"],
            producer_epoch=value["epoch"],
            txn_shard=value["shard"],
            sequence=value["sequence"],
            since_ms=value["since_ms"],
            offsets=tuple(
                PendingOffset(_value_of(item, epoch_known=epoch_known), order) for item, order in value["offsets"]
            ),
        )


def ended_key(group_id: str, txn_producer_id: int) -> str:
    """Returns the key of an `EndedTransactions`."""
    return f"ended:{txn_producer_id}:{group_id}"


def parse_ended_key(key: str) -> tuple[str, int] | None:
    """Returns (group, producer id) of an `EndedTransactions`' key; None for a key of another kind."""
    kind, *names = key.split(":", 2)
    if kind != "ended" or len(names) != 2:
        return None
    producer_id, group_id = names
    if not (producer_id.isdecimal() and producer_id.isascii()) or len(producer_id) > _DIGITS_MAX:
        return None
    return group_id, int(producer_id)


@dataclass(frozen=True, slots=True)
class EndedTransactions:
    """Written by a marker: transactions of this producer id up to `ended_up_to` accept no more offsets.

    `coordinator_epoch` is the highest epoch of the transaction shard that was seen; a lower one is fenced. `ended_ms`: when
    the last marker came; 0 = an older version has written the record. `ended_transactions` says when it goes.
    """

    group_id: str
    txn_producer_id: int
    ended_up_to: int
    txn_shard: int
    coordinator_epoch: int
    ended_ms: int = 0

    @property
    def key(self) -> str:
        """One key per producer id and group."""
        return ended_key(self.group_id, self.txn_producer_id)

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return dump(
            {
                "group": self.group_id,
                "pid": self.txn_producer_id,
                "up_to": self.ended_up_to,
                "shard": self.txn_shard,
                "epoch": self.coordinator_epoch,
                "at_ms": self.ended_ms,
            }
        )

    @staticmethod
    def decode(value: EndedForm) -> EndedTransactions:
        """Builds the record from what `parse` returned."""
        return EndedTransactions(
            value["group"], value["pid"], value["up_to"], value["shard"], value["epoch"], value.get("at_ms", 0)
        )


GroupLogRecord = EpochRecord | CommittedOffset | PendingOffsets | EndedTransactions | Tombstone

_DECODERS: dict[str, Callable[[Any], GroupLogRecord]] = {
    "epoch": EpochRecord.decode,
    "offset": CommittedOffset.decode,
    "pending": PendingOffsets.decode,
    "ended": EndedTransactions.decode,
}


def decode_group_record(key: str, value: bytes | None) -> GroupLogRecord:
    """Decodes a record of a group shard's log. Raises `CorruptMessageError` for a record that this version cannot read."""
    kind = key.partition(":")[0]
    if kind not in _DECODERS:
        raise CorruptMessageError("a record of the shard's log has an unknown kind", kind=kind)
    if value is None:
        return Tombstone(key)
    try:
        record: GroupLogRecord = _DECODERS[kind](parse(value))
    except MALFORMED as error:
        raise CorruptMessageError("a record of the shard's log cannot be read", key=key) from error
    if record.key != key:
        raise CorruptMessageError("a record of the shard's log has another key than its value says", key=key)
    return record


def offset_bytes(group_id: str, value: OffsetValue) -> int:
    """Returns an upper bound for the bytes of one committed offset with its key; the group id is in both."""
    texts = (value.topic_id, value.topic, value.metadata)
    return 2 * text_bytes(group_id) + sum(map(text_bytes, texts)) + _OFFSET_BYTES
