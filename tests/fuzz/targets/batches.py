"""Batches: headers, payloads of Arrow, compressed payloads, control records, chunks of a leader."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from crc32c import crc32c

from oncelog.core.batch.batch import decode_arrow, decode_batch, encode_batch, iter_batches
from oncelog.core.batch.control import Fence, Marker, control_of, fence_payload, marker_payload, read_control
from oncelog.core.batch.header import (
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_ZSTD,
    HEADER_BYTES,
    PREFIX_BYTES,
    check_body,
    read_header,
    stamp_prefix,
)
from oncelog.errors import CorruptMessageError, OncelogError, UnsupportedMessageFormatError
from oncelog_partition_leader.core.log.batch_check import BatchLimits, read_client_batch
from oncelog_partition_leader.core.log.payload_check import check_payload
from oncelog_partition_leader.log.batch_stamping import check_chunk
from tests.fuzz.target import Target, add
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, TOPIC_ID, batch, fence, marker

MIB = 1 << 20
VECTORS = Path(__file__).parents[2] / "vectors"
LIMITS = BatchLimits(now_ms=NOW_MS, max_message_bytes=MIB, max_uncompressed_bytes=4 * MIB)


def made(codec: int = CODEC_NONE, count: int = 3, headers: bool = False, **more: Any) -> bytes:
    """A sound batch of the partition of these tests."""
    return encode_batch(
        [b"key", None, b""][:count] * (1 + count // 4),
        [b"value", b"", None][:count] * (1 + count // 4),
        timestamps_ms=([NOW_MS, NOW_MS + 1, NOW_MS][:count]) * (1 + count // 4),
        headers=[(("name", b"v"), ("name", None))] * min(count, 3) * (1 + count // 4) if headers else None,
        codec=codec,
        topic_id=TOPIC_ID,
        partition=3,
        **more,
    )


def sealed(data: bytes, random: Random | None = None) -> bytes:
    """With checksums, a length and a format that are right again."""
    if len(data) < HEADER_BYTES:
        return data
    changed = bytearray(data)
    changed[40] = 1
    if random is None or random.random() < 0.9:
        struct.pack_into("<I", changed, 108, TAG)
    if random is not None and random.random() < 0.5:
        changed[41] = random.choice((0, 0, 1, 2))
        if changed[41] == 0:
            struct.pack_into("<i", changed, 104, len(changed) - HEADER_BYTES)
    struct.pack_into("<I", changed, PREFIX_BYTES, crc32c(bytes(changed[40:])))
    (offset, _, epoch, at) = struct.unpack_from("<qiiq", changed)
    return stamp_prefix(offset, len(changed), epoch, at) + bytes(changed[PREFIX_BYTES:])


# ---------------------------------------------------------------- headers


def batch_header(data: bytes) -> object:
    found = list(islice(((header, bytes(view)) for header, view in iter_batches(data)), 1_000))
    for header, view in found:
        assert len(view) == header.batch_length >= HEADER_BYTES
        check_body(view, header)
    return found


def client_batch(data: bytes) -> object:
    header = read_client_batch(data, LIMITS, TOPIC_ID, 3)
    assert header.batch_length == len(data)
    assert 1 <= header.record_count <= header.uncompressed_length <= LIMITS.max_uncompressed_bytes
    return header


def samples() -> Iterator[bytes]:
    for path in sorted(VECTORS.glob("*.bin")):
        if path.stat().st_size < 4_000:
            yield path.read_bytes()
    yield batch(1, 5, 10, epoch=3, txn=(7, 2), payload=bytes(160))
    yield batch(1, 0, payload=bytes(64)) + marker((7, 1)) + fence(1, 2)


add(Target("batch_header", batch_header, (CorruptMessageError, UnsupportedMessageFormatError), samples, mend=sealed))
add(Target("client_batch", client_batch, (OncelogError,), samples, mend=sealed))


# ---------------------------------------------------------------- payloads


def payload(data: bytes) -> object:
    """As a leader takes it, then as a consumer reads it."""
    header = read_client_batch(data, LIMITS, TOPIC_ID, 3)
    check_payload(header, data, LIMITS.max_uncompressed_bytes)
    records = decode_batch(data)
    assert len(records) == header.record_count
    table = decode_arrow(data)
    assert table.num_rows == header.record_count
    assert all(record.timestamp_ms <= header.max_timestamp_ms for record in records)
    for record in records:
        assert record.key is None or isinstance(record.key, bytes)
    return records


def plain_payloads() -> Iterator[bytes]:
    yield made()
    yield made(count=1)
    yield made(headers=True)
    yield made(count=3, headers=True)
    times = [NOW_MS + i for i in range(80)]  # many that ascend: they are checked without pyarrow
    yield encode_batch([b"key", None] * 40, [b"value"] * 80, timestamps_ms=times, topic_id=TOPIC_ID, partition=3)


def packed_payloads() -> Iterator[bytes]:
    for codec in (CODEC_LZ4, CODEC_ZSTD):
        for size in (200, 100_000):
            yield encode_batch(
                [None], [bytes(size)], timestamps_ms=[NOW_MS], codec=codec, topic_id=TOPIC_ID, partition=3
            )


def keep_header(data: bytes, random: Random) -> bytes:
    """What is mutated is the payload; the header says of it what a client would."""
    sound = bytearray(sealed(data))
    if len(sound) > HEADER_BYTES:
        like = made(headers=random.random() < 0.3)
        if random.random() < 0.8:
            sound[41:108] = like[41:108]
        struct.pack_into("<i", sound, 104, len(sound) - HEADER_BYTES)
        sound[41] = 0
        if random.random() < 0.5:
            count = random.choice((1, 3, 3, 6))
            struct.pack_into("<ii", sound, 48, count, count - 1)
    return _checksums(sound)


def keep_packed(data: bytes, random: Random) -> bytes:
    """Compressed payloads: the header's length stays, or becomes a bold claim."""
    sound = bytearray(sealed(data))
    if len(sound) > HEADER_BYTES:
        sound[41] = random.choice((1, 2))
        sound[44:48] = bytes(4)
        struct.pack_into("<ii", sound, 48, 1, 0)
        if random.random() < 0.4:
            struct.pack_into("<i", sound, 104, random.choice((1, 100, 416, 100_200, 4 * MIB, 4 * MIB - 8, 1 << 30)))
    return _checksums(sound)


def _checksums(data: bytearray) -> bytes:
    if len(data) < HEADER_BYTES:
        return bytes(data)
    struct.pack_into("<I", data, PREFIX_BYTES, crc32c(bytes(data[40:])))
    return stamp_prefix(0, len(data), -1, -1) + bytes(data[PREFIX_BYTES:])


add(Target("payload", payload, (OncelogError,), plain_payloads, mend=keep_header, limit_mib=96))
add(Target("payload_packed", payload, (OncelogError,), packed_payloads, mend=keep_packed, limit_mib=96))


# ---------------------------------------------------------------- control records


def control(data: bytes) -> object:
    found = read_control(data)
    written = fence_payload(found) if isinstance(found, Fence) else marker_payload(found)
    assert read_control(written) == found
    return found


def controls() -> Iterator[bytes]:
    yield marker_payload(Marker(True, 3, 1, (5, 6, 1 << 40), 12, True))
    yield marker_payload(Marker(False, 3, 1))
    yield fence_payload(Fence(7))


add(Target("control", control, (CorruptMessageError,), controls))


# ---------------------------------------------------------------- what a leader sends


def chunk(data: bytes) -> object:
    """Whole batches on their way to a follower."""
    headers, controls = check_chunk(data, TAG, 0, -1, 5)
    assert len(headers) == len(controls)
    offset = 0
    for header in headers:
        assert header.base_offset == offset
        offset = header.next_offset
    return headers


def chunks() -> Iterator[bytes]:
    def at(offset: int, data: bytes) -> bytes:
        return stamp_prefix(offset, len(data), 1, NOW_MS) + data[PREFIX_BYTES:]

    first, second = made(), batch(7, 0, txn=(7, 1), payload=bytes(64))
    yield at(0, first)
    yield at(0, first) + at(3, second) + at(4, marker((7, 1))) + at(5, fence(1, 2))


def mend_chunk(data: bytes, random: Random) -> bytes:
    """Batch for batch, as far as the lengths allow."""
    out, position = b"", 0
    while position + HEADER_BYTES <= len(data) and len(out) < 20_000:
        length = struct.unpack_from("<i", data, position + 8)[0]
        if not HEADER_BYTES <= length <= len(data) - position:
            length = len(data) - position
        whole = sealed(data[position : position + length])
        offset, epoch = struct.unpack_from("<q4xi", whole)
        out += stamp_prefix(offset, len(whole), epoch, NOW_MS) + whole[PREFIX_BYTES:]
        position += length
    return out + data[position:]


add(
    Target(
        "chunk",
        chunk,
        (OncelogError,),
        chunks,
        mend=mend_chunk,
    )
)


def control_batch(data: bytes) -> object:
    header = read_header(data)
    check_body(data, header)
    return control_of(data) if header.is_control else None


add(Target("control_batch", control_batch, (CorruptMessageError, UnsupportedMessageFormatError), samples, mend=sealed))
