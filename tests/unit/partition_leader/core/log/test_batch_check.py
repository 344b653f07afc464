"""Bad batches get their named errors (inputs 1-18, 50, 56)."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.batch.batch import encode_batch
from oncelog.core.batch.header import CODECS, stamp_prefix
from oncelog.errors import (
    CorruptMessageError,
    InvalidPidMappingError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTimestampError,
    MessageTooLargeError,
    MisdirectedBatchError,
    OncelogError,
    RecordListTooLargeError,
    UnsupportedCompressionError,
    UnsupportedMessageFormatError,
)
from oncelog_partition_leader.core.log.batch_check import BatchLimits, check_question, read_client_batch
from oncelog_runtime.metadata.cluster_keys import SHARD_WRITER_BASE, shard_writer_id
from tests.unit.partition_leader import log_helpers
from tests.unit.partition_leader.log_helpers import NOW_MS, TOPIC_ID, fence, marker

LIMITS = BatchLimits(now_ms=NOW_MS, max_message_bytes=1000, max_uncompressed_bytes=2000, timestamp_before_max_ms=5000)
HOUR_MS = 3600 * 1000
PAYLOAD = b"sixteen bytes..."
"""As short as the payload of one record can be."""
batch = partial(log_helpers.batch, payload=PAYLOAD)
plain = partial(log_helpers.plain, PAYLOAD)


def _read(data: bytes, limits: BatchLimits = LIMITS, topic_id: str = TOPIC_ID, partition: int = 3) -> Any:
    return read_client_batch(data, limits, topic_id, partition)


@pytest.mark.parametrize(
    "data",
    [
        batch(),
        plain(),
        batch(1, 5, 10, epoch=3, txn=(7, 2), payload=bytes(160)),
        batch(codec=1, uncompressed_length=2000),
        batch(codec=1, uncompressed_length=2000, count=125),
        batch(schema_id=1),
        batch(epoch=2**31 - 2),
    ],
)
def test_good_batches_pass(data: bytes) -> None:
    assert _read(data).batch_length == len(data)
    assert _read(memoryview(data)).batch_length == len(data)


def test_what_the_leader_writes_is_ignored() -> None:
    for offset in (1 << 62, -1):
        assert _read(stamp_prefix(offset, 136, -5, -9) + batch()[36:]).base_offset == offset


def _with_length(length: int) -> bytes:
    return stamp_prefix(0, length, -1, -1) + batch()[36:]


@pytest.mark.parametrize(
    ("number", "data", "error"),
    [
        (1, batch()[:119], CorruptMessageError),
        (1, batch()[:3], CorruptMessageError),
        (2, _with_length(119), CorruptMessageError),
        (2, _with_length(-1), CorruptMessageError),
        (2, _with_length(137), CorruptMessageError),
        (3, _with_length(2**31 - 1), CorruptMessageError),
        (4, _with_length(135), InvalidRecordError),
        (5, batch()[:40] + b"\x02" + batch()[41:], UnsupportedMessageFormatError),
        (6, batch(attributes=8), InvalidRecordError),
        (6, batch(codec=3), UnsupportedCompressionError),
        (7, batch(count=0), InvalidRecordError),
        (7, batch(count=-1), InvalidRecordError),
        (8, batch(count=2**31 - 1), InvalidRecordError),
        (8, batch(count=2), InvalidRecordError),
        (8, batch(count=126, codec=1, uncompressed_length=2000), InvalidRecordError),
        (8, batch(count=2**31 - 1, codec=2, uncompressed_length=2000, schema_id=1), InvalidRecordError),
        (9, batch() + batch(), InvalidRecordError),
        (9, b"", InvalidRecordError),
        (10, marker((1, 1)), InvalidRecordError),
        (10, fence(1, 1), InvalidRecordError),
        (14, batch(1, -1), InvalidRecordError),
        (14, batch(1, -7), InvalidRecordError),
        (15, batch(-2, 0), InvalidPidMappingError),
        (18, batch(1, 0, epoch=-1), InvalidRequestError),
        (18, batch(1, 0, epoch=2**31 - 1), InvalidRequestError),
        (18, batch(-1, 0, epoch=-1), InvalidRecordError),
        (18, batch(-1, -1, epoch=0), InvalidRecordError),
        (26, batch(-1, -1, epoch=-1, txn=(1, 1)), InvalidPidMappingError),
        (26, batch(1, 0, txn=(-1, 1)), InvalidPidMappingError),
        (26, batch(1, 0, txn=(1, 0)), InvalidRecordError),
        (26, batch(1, 0, txn=(1, 1), shard=0xFFFF), InvalidRecordError),
        (26, batch(1, 0, txn_no=1), InvalidRecordError),
        (26, batch(1, 0, txn_producer_id=1), InvalidRecordError),
        (26, batch(1, 0, txn_shard=1), InvalidRecordError),
        (56, batch(timestamp_ms=-1), InvalidTimestampError),
        (56, batch(timestamp_ms=NOW_MS + HOUR_MS + 1), InvalidTimestampError),
        (56, batch(timestamp_ms=253_402_300_799_000), InvalidTimestampError),
        (56, batch(timestamp_ms=NOW_MS - 5001), InvalidTimestampError),
        (56, batch(base_timestamp_ms=NOW_MS + 1), InvalidTimestampError),
        (0, batch(schema_id=2), InvalidRecordError),
        (0, batch(schema_id=-1), InvalidRecordError),
        (0, batch(payload=b""), InvalidRecordError),
        (0, batch(uncompressed_length=9), InvalidRecordError),
        (0, batch(codec=2, uncompressed_length=2001), MessageTooLargeError),
        (0, batch(codec=2, uncompressed_length=-1), InvalidRecordError),
        (0, batch(payload=b"x" * 7, codec=1, uncompressed_length=7 * 255 + 1), InvalidRecordError),
        (0, batch(payload=b"x" * 881), MessageTooLargeError),
        (50, batch(tag=1), MisdirectedBatchError),
    ],
)
def test_bad_batches_are_refused_by_name(number: int, data: bytes, error: type[OncelogError]) -> None:
    with pytest.raises(error) as refusal:
        _read(data)
    assert type(refusal.value) is error
    assert not refusal.value.retriable


def test_a_shard_writes_its_log_whatever_its_clock_says() -> None:
    """Else a coordinator whose clock leapt loses every life of its shards."""
    for timestamp_ms in (NOW_MS + 24 * HOUR_MS, NOW_MS - 24 * HOUR_MS):
        with pytest.raises(InvalidTimestampError):
            _read(batch(7, 0, timestamp_ms=timestamp_ms))
        assert (
            _read(batch(shard_writer_id("txn", 1), 0, timestamp_ms=timestamp_ms)).producer_id == SHARD_WRITER_BASE + 1
        )


def test_another_topic_or_partition_refuses() -> None:
    for topic_id, partition in ((TOPIC_ID, 4), ("f" * 32, 3)):
        with pytest.raises(MisdirectedBatchError):
            _read(batch(), topic_id=topic_id, partition=partition)


def test_a_count_beside_its_offsets_is_refused() -> None:
    from crc32c import crc32c

    data = bytearray(batch(count=4, payload=bytes(80)))
    struct.pack_into("<i", data, 52, 4)
    struct.pack_into("<I", data, 36, crc32c(bytes(data[40:])))
    with pytest.raises(InvalidRecordError):
        _read(bytes(data))


def test_a_batch_longer_than_a_segment_is_refused() -> None:
    with pytest.raises(RecordListTooLargeError):
        _read(batch(), BatchLimits(now_ms=NOW_MS, segment_bytes=127))


def test_typed_schemas_pass_once_they_are_registered() -> None:
    limits = BatchLimits(now_ms=NOW_MS, typed_schema_ids=frozenset({9}))
    assert _read(batch(schema_id=9), limits).schema_id == 9
    assert _read(batch(schema_id=9, count=8 * len(PAYLOAD)), limits).record_count == 8 * len(PAYLOAD)
    with pytest.raises(InvalidRecordError):
        _read(batch(schema_id=9, count=8 * len(PAYLOAD) + 1), limits)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("count", [1, 2, 1000, 200_000])
def test_no_real_batch_is_below_the_bounds(count: int, codec: int) -> None:
    """The smallest records there are, which also compress best: no keys, no values, one time."""
    data = encode_batch(
        [None] * count,
        [None] * count,
        timestamps_ms=[NOW_MS] * count,
        codec=codec,
        topic_id=TOPIC_ID,
        partition=3,
    )
    assert _read(data, BatchLimits(now_ms=NOW_MS)).record_count == count


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ((1, 2**31 - 1, 0, 0), InvalidRequestError),
        ((1, -1, 0, 0), InvalidRequestError),
        ((1, 0, -1, 0), InvalidRequestError),
        ((1, 0, 0, -1), InvalidRequestError),
        ((-1, 0, 0, 0), InvalidPidMappingError),
    ],
)
def test_a_question_about_a_batch_that_cannot_be_is_refused(
    question: tuple[int, int, int, int], error: type[OncelogError]
) -> None:
    with pytest.raises(error):
        check_question(*question)
    check_question(1, 2**31 - 2, 2**31 - 1, 0)


@given(st.integers(0, 127), st.integers(0, 7))
def test_every_flipped_bit_of_the_body_is_found(position: int, bit: int) -> None:
    data = bytearray(batch(1, 2, 3, epoch=1, txn=(4, 5)))
    data[position] ^= 1 << bit
    with pytest.raises(OncelogError):
        _read(bytes(data))


@given(st.binary(max_size=400))
def test_garbage_never_passes(data: bytes) -> None:
    with pytest.raises(OncelogError):
        _read(data)
