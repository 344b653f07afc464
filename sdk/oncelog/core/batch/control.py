"""Control batches: the only place that knows what stands in a marker and in a fence.

A control batch holds one control record. Its payload, little-endian, never compressed:

    offset  size  field               meaning
    0       1     version             1
    1       1     kind                1 COMMIT, 2 ABORT, 3 FENCE
    2       2     flags               1 has winners, 2 lost
    4       4     coordinator_epoch   of the transaction shard; FENCE: -1
    8       4     session_epoch       of the transactional id; FENCE: the producer's new epoch
    12      4     winner_count        0 without the flag "has winners"
    16      8     expected_records    winners' records that must be on this partition; -1 = not counted
    24      8*n   winners             producer ids, strictly ascending

A marker's header has attributes TRANSACTIONAL|CONTROL and names the transaction (txn_producer_id, txn_no, txn_shard);
producer_id is the txn_producer_id, producer_epoch the session epoch. A fence's header has CONTROL alone; producer_id is
whom it fences, producer_epoch the new epoch. Both have record_count 1, codec 0 and base_sequence -1.

Rule 1: a marker carries its own winners and count, so a reader that has the log alone knows what it ended (holes 5, 19).
Rule 2: `lost` is decided once, by the leader that appends the marker, and all others read it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.core.batch.header import (
    CODEC_NONE,
    CONTROL,
    HEADER_BYTES,
    SCHEMA_PLAIN,
    TRANSACTIONAL,
    BatchIdentity,
    Content,
    seal,
)
from oncelog.errors import CorruptMessageError, InvalidRecordError
from oncelog.types import Buffer

COMMIT: Final = 1
ABORT: Final = 2
FENCE: Final = 3
NOT_COUNTED: Final = -1

_VERSION: Final = 1
_HAS_WINNERS: Final = 1
_LOST: Final = 2
_FIXED: Final = struct.Struct("<BBHiiiq")
_WINNERS_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a transaction on one partition.

    `winners` None: every producer of the name commits (or aborts); else only these commit. `lost`: it committed, but
    this partition holds fewer records than it must.
    """

    committed: bool
    coordinator_epoch: int
    session_epoch: int
    winners: tuple[int, ...] | None = None
    expected_records: int = NOT_COUNTED
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """From here on this producer writes with at least `producer_epoch` (GetProducerState; hole 22)."""

    producer_epoch: int


Control = Marker | Fence


def marker_payload(marker: Marker) -> bytes:
    """The payload of a marker. Raises `InvalidRecordError` unless winners are strictly ascending and few enough."""
    winners = marker.winners or ()
    if len(winners) > _WINNERS_MAX or any(a >= b for a, b in zip(winners, winners[1:], strict=False)):
        raise InvalidRecordError("winners are strictly ascending producer ids", winners=len(winners))
    flags = (_HAS_WINNERS if marker.winners is not None else 0) | (_LOST if marker.lost else 0)
    fixed = _FIXED.pack(
        _VERSION,
        COMMIT if marker.committed else ABORT,
        flags,
        marker.coordinator_epoch,
        marker.session_epoch,
        len(winners),
        marker.expected_records,
    )
    return fixed + struct.pack(f"<{len(winners)}q", *winners)


def fence_payload(fence: Fence) -> bytes:
    """The payload of a fence."""
    return _FIXED.pack(_VERSION, FENCE, 0, -1, fence.producer_epoch, 0, NOT_COUNTED)


def read_control(payload: Buffer) -> Control:
    """The control record of a payload. Raises `CorruptMessageError`; allocates nothing by a length from the data."""
    if len(payload) < _FIXED.size:
        raise CorruptMessageError("a control record is too short", bytes_present=len(payload))
    version, kind, flags, coordinator_epoch, session_epoch, count, expected = _FIXED.unpack_from(payload)
    if version != _VERSION or kind not in (COMMIT, ABORT, FENCE) or flags & ~(_HAS_WINNERS | _LOST):
        raise CorruptMessageError("an unknown control record", version=version, kind=kind, flags=flags)
    if not 0 <= count <= _WINNERS_MAX or len(payload) != _FIXED.size + 8 * count:
        raise CorruptMessageError("a control record's winner count does not fit", winner_count=count)
    if kind == FENCE:
        return Fence(producer_epoch=session_epoch)
    winners = struct.unpack_from(f"<{count}q", payload, _FIXED.size)
    _check_winners(winners, bool(flags & _HAS_WINNERS))
    return Marker(
        committed=kind == COMMIT,
        coordinator_epoch=coordinator_epoch,
        session_epoch=session_epoch,
        winners=winners if flags & _HAS_WINNERS else None,
        expected_records=expected,
        lost=bool(flags & _LOST),
    )


def _check_winners(winners: Sequence[int], has_winners: bool) -> None:
    if winners and not has_winners:
        raise CorruptMessageError("winners without their flag")
    if any(a >= b for a, b in zip(winners, winners[1:], strict=False)):
        raise CorruptMessageError("winners are not strictly ascending")


def control_of(batch: Buffer) -> Control:
    """The control record of a whole control batch."""
    return read_control(memoryview(batch)[HEADER_BYTES:])


def seal_marker(
    marker: Marker, *, txn_producer_id: int, txn_no: int, txn_shard: int, timestamp_ms: int, tag: int
) -> bytes:
    """The batch of a marker, as a producer would seal it; the leader stamps the prefix when it appends it."""
    identity = BatchIdentity(
        tag,
        producer_id=txn_producer_id,
        producer_epoch=marker.session_epoch,
        txn_producer_id=txn_producer_id,
        txn_no=txn_no,
        txn_shard=txn_shard,
    )
    return _seal(marker_payload(marker), TRANSACTIONAL | CONTROL, timestamp_ms, identity)


def seal_fence(*, producer_id: int, producer_epoch: int, timestamp_ms: int, tag: int) -> bytes:
    """The batch of a fence: `producer_epoch` is the new, higher one."""
    identity = BatchIdentity(tag, producer_id, producer_epoch)
    return _seal(fence_payload(Fence(producer_epoch)), CONTROL, timestamp_ms, identity)


def _seal(payload: bytes, attributes: int, timestamp_ms: int, identity: BatchIdentity) -> bytes:
    content = Content(
        codec=CODEC_NONE,
        attributes=attributes,
        schema_id=SCHEMA_PLAIN,
        record_count=1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        uncompressed_length=len(payload),
    )
    return seal(payload, content, identity)
