"""The log records of channels: of each partition a head, blocks of settled and of retried offsets, and acknowledgements of open
transactions.

Rule 1: the newest record of a key holds the whole state under it. Blocks and acknowledgements name the number of seeks that
        they belong to, and a block that lies before `settled_before` says nothing: so which of them count follows from the
        head, whichever is read first (`ChannelPartition`).
Rule 2: the keys have the form of `EndedTransactions` with a producer id that is too large for any producer, and each is of a
        transaction shard of its own. A coordinator of an older version reads such a record as that, the only witness of its
        shard, and leaves it alone: it can own the shard, and this version goes on with the channels afterwards (decision
        0061). All that the record says stands in the field `up_to`, so an older owner that repeats it loses nothing of it.
Rule 3: settled and retried offsets of the same block are two records. So what a marker writes is bounded by what its
        transaction has acknowledged, whatever is remembered besides.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from oncelog.core.malformed import MALFORMED, JsonObject
from oncelog.core.names import channel_group_id
from oncelog.errors import CorruptMessageError
from oncelog_coordinator.core.channels.offset_ranges import BLOCK, OffsetRange
from oncelog_coordinator.core.transactions.records import Tombstone, dump, parse

_NO_PRODUCER: Final = 9_999_999_999_999_999_999
"""Larger than any producer id (63 bits), with as many digits as a key of `EndedTransactions` may have."""
_PREFIX: Final = f"ended:{_NO_PRODUCER}:"
_GROUP: Final = channel_group_id("")
HEAD: Final = ""
SETTLED: Final = "s"
RETRIED: Final = "r"
PENDING: Final = "p"
_RETRY: Final = struct.Struct(">HIq")
UNKNOWN: Final = -1
"""`settled_before` of a partition about which no leader has written anything."""
BLOCK_BYTES: Final = 700
"""Upper bound for a `SettledBlock` or a head with its key."""


class ChannelPartitionId(NamedTuple):
    """A channel on one partition of its topic."""

    channel_id: str
    partition: int

    @property
    def group_id(self) -> str:
        """The group under which transactions know the channel."""
        return channel_group_id(self.channel_id)


class ChannelKey(NamedTuple):
    """A key in its parts. `numbers`: the block, or producer id and number of a transaction."""

    id: ChannelPartitionId
    kind: str = HEAD
    numbers: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The key as it stands in the log."""
        more = (self.kind, *map(str, self.numbers)) if self.kind else ()
        return _PREFIX + ":".join((self.id.group_id, str(self.id.partition), *more))


_NUMBERS: Final = {HEAD: 0, SETTLED: 1, RETRIED: 1, PENDING: 2}
"""How many numbers a key of each kind has."""


def parse_channel_key(key: str) -> ChannelKey | None:
    """Reads a key. Returns None for the key of another record; raises `CorruptMessageError`."""
    if not is_channel_key(key):
        return None
    channel_id, partition, *more = key.removeprefix(_PREFIX + _GROUP).split(":")
    kind, numbers = (more[0], tuple(map(int, more[1:]))) if more else (HEAD, ())
    found = ChannelKey(ChannelPartitionId(channel_id, int(partition)), kind, numbers)
    if _NUMBERS.get(kind) != len(numbers) or found.text != key:
        raise CorruptMessageError("a record of a channel has a key that this version does not know", key=key)
    return found


def is_channel_key(key: str) -> bool:
    """True for the key of a channel's record."""
    return key.startswith(_PREFIX + _GROUP)


def _encode(key: str, fields: Mapping[str, object]) -> bytes:
    name = key.removeprefix(_PREFIX)
    return dump({"group": name, "pid": _NO_PRODUCER, "up_to": dict(fields), "shard": name, "epoch": -1})


@dataclass(frozen=True, slots=True)
class ChannelHead:
    """How far a channel is on a partition, and who may write it.

    `leader_epoch`: of the newest leader that has asked. `write_no`: of the last write that counts. `settled_before`: every
    offset before it is settled; `UNKNOWN` = nothing was written yet. `seeks`: how often the channel was sought here.
    `written_epoch`: of the newest leader that has written, or sent acknowledgements; `UNKNOWN` = a version wrote last that does
    not note it.
    """

    id: ChannelPartitionId
    topic_id: str
    leader_epoch: int
    write_no: int = 0
    settled_before: int = UNKNOWN
    seeks: int = 0
    written_epoch: int = UNKNOWN

    @property
    def key(self) -> str:
        """One key per channel and partition."""
        return ChannelKey(self.id).text

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return _encode(
            self.key,
            {
                "topic": self.topic_id,
                "leader_epoch": self.leader_epoch,
                "write_no": self.write_no,
                "settled_before": self.settled_before,
                "seeks": self.seeks,
                "written_epoch": self.written_epoch,
            },
        )


@dataclass(frozen=True, slots=True)
class SettledBlock:
    """Which offsets of a block are settled; those before the head's `settled_before` are not looked at."""

    id: ChannelPartitionId
    block: int
    seeks: int
    bits: int

    @property
    def key(self) -> str:
        """One key per block."""
        return ChannelKey(self.id, SETTLED, (self.block,)).text

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return _encode(self.key, {"seeks": self.seeks, "bits": _text(block_bytes(self.bits))})


class Retry(NamedTuple):
    """A record that was delivered and is not settled. `not_before_ms` of its next delivery; 0 = at once."""

    offset: int
    deliveries: int
    not_before_ms: int = 0


@dataclass(frozen=True, slots=True)
class RetriedBlock:
    """The retried records of a block, packed: there may be many. Those that are settled by now are not looked at."""

    id: ChannelPartitionId
    block: int
    seeks: int
    packed: bytes

    @staticmethod
    def of(where: ChannelPartitionId, block: int, seeks: int, retries: Iterable[Retry]) -> RetriedBlock:
        """Makes the record; every offset lies in the block."""
        first = block * BLOCK
        packed = (_RETRY.pack(item.offset - first, item.deliveries, item.not_before_ms) for item in sorted(retries))
        return RetriedBlock(where, block, seeks, b"".join(packed))

    def __len__(self) -> int:
        return len(self.packed) // _RETRY.size

    def retries(self) -> tuple[Retry, ...]:
        """Returns the records by offset."""
        first = self.block * BLOCK
        return tuple(Retry(first + place, *rest) for place, *rest in _RETRY.iter_unpack(self.packed))

    @property
    def key(self) -> str:
        """One key per block."""
        return ChannelKey(self.id, RETRIED, (self.block,)).text

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return _encode(self.key, {"seeks": self.seeks, "retried": _text(self.packed)})


@dataclass(frozen=True, slots=True)
class PendingAcks:
    """The acknowledgements of one open transaction on a partition. The marker removes the record."""

    id: ChannelPartitionId
    txn_producer_id: int
    txn_no: int
    producer_epoch: int
    txn_shard: int
    seeks: int
    since_ms: int
    ranges: tuple[OffsetRange, ...]

    @property
    def group_id(self) -> str:
        """The group under which the transaction knows the channel."""
        return self.id.group_id

    @property
    def key(self) -> str:
        """One key per transaction, channel and partition."""
        return ChannelKey(self.id, PENDING, (self.txn_producer_id, self.txn_no)).text

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return _encode(
            self.key,
            {
                "producer_epoch": self.producer_epoch,
                "txn_shard": self.txn_shard,
                "seeks": self.seeks,
                "since_ms": self.since_ms,
                "ranges": [list(item) for item in self.ranges],
            },
        )


ChannelLogRecord = ChannelHead | SettledBlock | RetriedBlock | PendingAcks | Tombstone


def block_bytes(bits: int) -> bytes:
    """Returns a bit map, the lowest bit of a byte first, without zero bytes at its end."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def decode_channel_record(key: str, value: bytes | None) -> ChannelLogRecord:
    """Decodes a record. Raises `CorruptMessageError` for one that this version cannot read."""
    if value is None:
        return Tombstone(key)
    try:
        parsed, fields = parse_channel_key(key), parse(value)["up_to"]
        assert parsed is not None, "the caller has asked whose key it is"
        return _decoded(*parsed, fields)
    except MALFORMED as error:
        raise CorruptMessageError("a record of a channel cannot be read", key=key) from error


def _decoded(where: ChannelPartitionId, kind: str, numbers: tuple[int, ...], fields: JsonObject) -> ChannelLogRecord:
    seeks = int(fields["seeks"])
    if kind == HEAD:
        rest = fields["write_no"], fields["settled_before"], seeks, fields.get("written_epoch", UNKNOWN)
        return ChannelHead(where, fields["topic"], fields["leader_epoch"], *rest)
    if kind == SETTLED:
        return SettledBlock(where, numbers[0], seeks, int.from_bytes(b64decode(fields["bits"]), "little"))
    if kind == RETRIED:
        return RetriedBlock(where, numbers[0], seeks, b64decode(fields["retried"]))
    return PendingAcks(
        id=where,
        txn_producer_id=numbers[0],
        txn_no=numbers[1],
        producer_epoch=fields["producer_epoch"],
        txn_shard=fields["txn_shard"],
        seeks=seeks,
        since_ms=fields["since_ms"],
        ranges=tuple(OffsetRange(*item) for item in fields["ranges"]),
    )
