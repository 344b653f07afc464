"""Payloads that no consumer could read are refused (inputs 7, 8, 57, 58, 60)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oncelog.core.batch.batch import MAX_UNCOMPRESSED_BYTES, decode_batch, encode_batch
from oncelog.core.batch.header import CODECS, HEADER_BYTES, read_header
from oncelog.errors import InvalidRecordError, OncelogError
from oncelog_partition_leader.core.log.payload_check import check_payload
from oncelog_runtime.metadata.cluster_keys import SHARD_WRITER_BASE
from tests.sealing import resealed
from tests.unit.partition_leader.log_helpers import NOW_MS, TOPIC_ID

MOST_BYTES = 1 << 20


def good(codec: str = "none", headers: bool = False, count: int = 3) -> bytes:
    return encode_batch(
        [b"key"] * count,
        [b"value"] * count,
        timestamps_ms=[NOW_MS + i for i in range(count)],
        headers=[(("name", b"v"),)] * count if headers else None,
        codec=CODECS[codec],
        topic_id=TOPIC_ID,
        partition=3,
    )


def check(data: bytes, most_bytes: int = MOST_BYTES) -> None:
    check_payload(read_header(data), data, most_bytes)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("headers", [False, True])
def test_what_the_sdk_writes_passes(codec: str, headers: bool) -> None:
    check(good(codec, headers))


PAYLOADS: dict[str, Callable[[bytes], bytes]] = {
    "noise": lambda payload: Random(1).randbytes(len(payload)),
    "zeros": lambda payload: bytes(len(payload)),
    "cut short": lambda payload: payload[:-8],
    "something behind": lambda payload: payload + bytes(8),
    "a schema message": lambda _: pa.schema([("x", pa.int64())]).serialize().to_pybytes(),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_that_nobody_can_decode_is_refused(name: str) -> None:
    payload = PAYLOADS[name](good()[HEADER_BYTES:])
    with pytest.raises(InvalidRecordError):
        check(resealed(payload, good()))


def test_an_lz4_block_that_unpacks_to_fewer_bytes_than_it_states_is_refused() -> None:
    message, codec = good(count=100)[HEADER_BYTES:], pa.Codec("lz4_raw")
    whole, short = (
        resealed(
            codec.compress(part, asbytes=True),
            good(count=100),
            codec=CODECS["lz4"],
            uncompressed_length=len(message),
        )
        for part in (message, message[:-600])
    )
    check(whole)  # what the short one lacks is in memory now
    with pytest.raises(InvalidRecordError, match="fewer bytes"):
        check(short)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_another_number_of_rows_than_the_header_says_is_refused(count: int) -> None:
    with pytest.raises(InvalidRecordError, match="number of rows"):
        check(resealed(good()[HEADER_BYTES:], good(), record_count=count))


def test_a_time_outside_of_what_the_header_says_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="timestamp"):
        check(resealed(good()[HEADER_BYTES:], good(), max_timestamp_ms=NOW_MS))


def test_a_header_without_a_name_is_refused() -> None:
    data = good(headers=True)
    at = data.rindex(b"namenamename")
    nameless = data[HEADER_BYTES:].replace(b"namenamename", bytes(12))
    check(resealed(nameless, data))  # names of zero bytes are names
    assert at > HEADER_BYTES
    schema = pa.schema([*_columns(), ("headers", _headers_type())])
    row = {"timestamp_delta": 0, "key": None, "value": None, "headers": [{"key": None, "value": b"v"}]}
    with pytest.raises(InvalidRecordError, match="header"):
        check(resealed(_message([row], schema), good(headers=True, count=1)))


def test_a_payload_that_unpacks_to_more_than_it_says_is_refused() -> None:
    packed = good("zstd")
    header = read_header(packed)
    for length in (header.uncompressed_length - 8, header.uncompressed_length + 8):
        with pytest.raises(InvalidRecordError):
            check(resealed(packed[HEADER_BYTES:], packed, uncompressed_length=length))
    with pytest.raises(InvalidRecordError, match="more than allowed"):
        check(packed, most_bytes=header.uncompressed_length - 1)


def test_whatever_passes_can_be_read_and_whatever_cannot_be_read_is_refused_by_name() -> None:
    """Every byte of a payload, turned three ways."""
    for original in (good(count=2), good(headers=True, count=2)):
        payload = original[HEADER_BYTES:]
        for position in range(len(payload)):
            for bit in (0, 4, 7):
                turned = bytearray(payload)
                turned[position] ^= 1 << bit
                data = resealed(bytes(turned), original)
                try:
                    check(data)
                except InvalidRecordError:
                    continue
                assert len(decode_batch(data)) == 2


def test_the_clusters_own_writers_are_believed() -> None:
    data = resealed(b"what a shard writes", good(), producer_id=SHARD_WRITER_BASE, producer_epoch=1, base_sequence=0)
    check(data, MAX_UNCOMPRESSED_BYTES)
    with pytest.raises(OncelogError):
        check(resealed(b"what a shard writes", good()))


def _columns() -> list[tuple[str, pa.DataType]]:
    return [("timestamp_delta", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]


def _headers_type() -> pa.DataType:
    return pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _message(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    return bytes(pa.RecordBatch.from_pylist(rows, schema=schema).serialize())


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    with_keys = encode_batch([b"k", b"k"], [b"v", None], timestamps_ms=[0, 0], topic_id="0" * 32, partition=0)
    without = encode_batch([b"k", None], [b"v", b"v"], timestamps_ms=[0, 0], topic_id="0" * 32, partition=0)
    check_payload(read_header(with_keys), with_keys, 1 << 20, is_compacted=True)
    check_payload(read_header(without), without, 1 << 20)
    with pytest.raises(InvalidRecordError, match="every record needs a key") as caught:
        check_payload(read_header(without), without, 1 << 20, is_compacted=True)
    assert caught.value.context["records_without_key"] == "1"
