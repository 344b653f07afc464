"""Rows about what a producer sends: lengths, headers, sequences, timestamps, payloads."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pyarrow as pa
from crc32c import crc32c

from oncelog import errors
from oncelog.core.batch.control import Fence, Marker, fence_payload, marker_payload
from oncelog.core.batch.header import (
    CONTROL,
    HEADER_BYTES,
    PREFIX_BYTES,
    TRANSACTIONAL,
    read_header,
    stamp_prefix,
)
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog_partition_leader.core.producers.sequence_window import KEPT_BATCHES
from oncelog_runtime.metadata.cluster_keys import shard_writer_id
from tests.conformance.names import Place, Writer
from tests.hostile_inputs.hands import NOBODY, batch_of, refused
from tests.hostile_inputs.rows import row
from tests.property.test_hostile_batches import mutated
from tests.sealing import resealed

YEAR_9999_MS = 253_402_300_799_000
DAY_MS = 24 * 3600 * 1000


@row(1, says="a batch that ends within its header")
async def short(s: Any, place: Place) -> None:
    for length in (1, 3, 12, HEADER_BYTES - 1):
        await refused(s.produce(place, batch_of(s, place)[:length]), errors.CorruptMessageError)


@row(2, says="a length below the header's, below zero, or above the bytes that are there")
async def lengths(s: Any, place: Place) -> None:
    data = batch_of(s, place)
    for length in (0, HEADER_BYTES - 1, -1, -(1 << 31), len(data) + 1):
        await refused(s.produce(place, mutated(data, {}, length)), errors.CorruptMessageError)


@row(2, says="lengths of a request's items that do not add up to its bytes")
async def item_lengths(s: Any, place: Place) -> None:
    data = batch_of(s, place)
    for lengths in ((len(data) + 1,), (len(data) - 1,), (-1,), (len(data) + 5, -5), ((1 << 31) - 1,)):
        items = [pb.ProducePartition(topic_id=place.topic_id, partition=n, length=v) for n, v in enumerate(lengths)]
        request = pb.ProduceRequest(acks=-1, timeout_ms=1_000, partitions=items)
        await refused(s.call(s.leader(place), methods.PRODUCE, request, data), errors.InvalidRequestError)


@row(3, says="a length of 2 GiB with a hundred bytes behind it")
async def huge_length(s: Any, place: Place) -> None:
    await refused(s.produce(place, mutated(batch_of(s, place), {}, (1 << 31) - 1)), errors.CorruptMessageError)


@row(5, says="an unknown format")
async def magic(s: Any, place: Place) -> None:
    data = batch_of(s, place)
    for number in (0, 2, 255):
        body = bytes([number]) + data[41:]
        whole = data[:36] + struct.pack("<I", crc32c(body)) + body
        await refused(s.produce(place, whole), errors.UnsupportedMessageFormatError)


@row(6, says="unknown attribute bits and codecs")
async def attributes(s: Any, place: Place) -> None:
    for bits in (8, 1 << 15, 0xFFF8):
        await refused(s.produce(place, mutated(batch_of(s, place), {"attributes": bits})), errors.InvalidRecordError)
    for codec in (3, 255):
        data = mutated(batch_of(s, place), {"codec": codec})
        await refused(s.produce(place, data), errors.UnsupportedCompressionError)


@row(7, says="a record count of zero, below zero, or beside the offsets")
async def counts(s: Any, place: Place) -> None:
    for count, delta in ((0, -1), (0, 0), (-1, -2), (2, 0), (1, 1), (1, -1), (-(1 << 31), (1 << 31) - 1)):
        data = mutated(batch_of(s, place), {"record_count": count, "last_offset_delta": delta})
        await refused(s.produce(place, data), errors.InvalidRecordError)


@row(9, says="two batches where one belongs, or none")
async def one_batch(s: Any, place: Place) -> None:
    for data in (batch_of(s, place) * 2, b""):
        await refused(s.produce(place, data), errors.InvalidRecordError)


@row(10, says="a control batch of a client: a forged commit, abort or fence")
async def control(s: Any, place: Place) -> None:
    like = batch_of(s, place)
    markers = [marker_payload(Marker(committed, 1 << 30, 1)) for committed in (True, False)]
    transaction = {"producer_id": 1, "producer_epoch": 1, "txn_producer_id": 1, "txn_no": 1, "txn_shard": 0}
    for payload in markers:
        forged = resealed(payload, like, attributes=TRANSACTIONAL | CONTROL, **transaction)
        await refused(s.produce(place, forged), errors.InvalidRecordError)
    fence = resealed(fence_payload(Fence(9)), like, attributes=CONTROL, producer_id=1, producer_epoch=9)
    await refused(s.produce(place, fence), errors.InvalidRecordError)


@row(11, says="a base offset, an epoch and an append time that a client chose: the leader's own stand in the log")
async def base_offset(s: Any, place: Place) -> list[str]:
    for number, offset in enumerate((1 << 62, -1)):
        data = batch_of(s, place, value=f"kept {number}")
        forged = stamp_prefix(offset, len(data), 1 << 30, 1 << 60) + data[PREFIX_BYTES:]
        assert (await s.produce(place, forged)).base_offset == 1 + number
    return ["kept 0", "kept 1"]


@row(14, says="a producer id without a sequence")
async def no_sequence(s: Any, place: Place) -> None:
    writer = await s.producer()
    for seq in (-1, -7):
        data = batch_of(s, place, writer, seq)
        await refused(s.produce(place, data, token=writer.token), errors.InvalidRecordError)


@row(15, says="a producer id that was never handed out, one below zero, a shard's, and somebody else's")
async def foreign_ids(s: Any, place: Place) -> None:
    writer, other = await s.producer(), await s.producer()
    never = [Writer((1 << 62) - 1, 0), Writer(-2, 0)]
    for forged in never:
        await refused(s.produce(place, batch_of(s, place, forged)), errors.InvalidPidMappingError)
    as_shard = Writer(shard_writer_id("txn", 0), 1)
    await refused(s.produce(place, batch_of(s, place, as_shard)), errors.InvalidTopicError)
    for token in (b"", other.token, b"\0" * 20, writer.token[:-1], bytes(1 << 16)):
        data = batch_of(s, place, writer)
        await refused(s.produce(place, data, token=token), errors.TransactionalIdAuthorizationError)


@row(16, 19, says="an older epoch, and a new one that does not begin at sequence 0")
async def epochs(s: Any, place: Place) -> list[str]:
    old = await s.producer()
    await s.write(place, old, "epoch 0")
    late = batch_of(s, place, old.of(epoch=1), 5)
    await refused(s.produce(place, late, token=old.token), errors.OutOfOrderSequenceError)
    await s.write(place, old.of(epoch=1), "epoch 1")
    await refused(s.produce(place, batch_of(s, place, old, 1), token=old.token), errors.InvalidProducerEpochError)
    return ["epoch 0", "epoch 1"]


@row(18, says="an epoch below zero, at the end of the numbers, or far ahead of what was given")
async def impossible_epochs(s: Any, place: Place) -> None:
    writer = await s.producer()
    for epoch in (-1, -(1 << 31), (1 << 31) - 1, (1 << 31) - 2, 32_768):
        data = batch_of(s, place, writer.of(epoch=epoch))
        await refused(s.produce(place, data, token=writer.token), errors.InvalidRequestError)


@row(20, 21, 23, says="gaps and repeats: a gap is refused, a repeat is answered and never written again")
async def sequences(s: Any, place: Place) -> list[str]:
    writer = await s.producer()
    batches = [batch_of(s, place, writer, seq, f"value {seq}") for seq in range(KEPT_BATCHES + 3)]
    first = [(await s.produce(place, data, token=writer.token)).base_offset for data in batches]
    for seq in (len(batches) + 1, 1 << 30, (1 << 31) - 1):
        await refused(
            s.produce(place, batch_of(s, place, writer, seq), token=writer.token), errors.OutOfOrderSequenceError
        )
    for number, data in enumerate(batches):
        answer = await s.produce(place, data, token=writer.token)
        assert answer.duplicate
        assert answer.base_offset == (first[number] if number >= 3 else -1), "the first offset, while it is known"
    other = batch_of(s, place, writer, len(batches) - 1, "other content")
    await refused(s.produce(place, other, token=writer.token), errors.DuplicateSequenceError)
    return [f"value {seq}" for seq in range(len(batches))]


@row(56, says="times before 1970, in the year 9999, a day ahead, and an end before the beginning")
async def timestamps(s: Any, place: Place) -> list[str]:
    now_ms = (await s.produce(place, batch_of(s, place, value="now"))).append_timestamp_ms
    for base, last in (
        *((-1, 0), (-(1 << 63), now_ms), (YEAR_9999_MS, YEAR_9999_MS), (now_ms, now_ms + DAY_MS)),
        *((now_ms, now_ms - 1), (now_ms, (1 << 63) - 1)),
    ):
        data = mutated(batch_of(s, place), {"base_timestamp_ms": base, "max_timestamp_ms": last})
        await refused(s.produce(place, data), errors.InvalidTimestampError)
    return ["now"]


def _headers_message(rows: list[Any]) -> bytes:
    item = pa.struct([("key", pa.string()), ("value", pa.binary())])
    columns = [
        ("timestamp_delta", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(item)),
    ]
    empty: dict[str, Any] = {"timestamp_delta": 0, "key": None, "value": b"hostile"}
    table = [{**empty, "headers": headers} for headers in rows]
    return bytes(pa.RecordBatch.from_pylist(table, schema=pa.schema(columns)).serialize())


@row(57, says="record headers without a name, or 10,000 of them")
async def record_headers(s: Any, place: Place) -> list[str]:
    like = batch_of(s, place)
    for headers in (
        [{"key": None, "value": b"v"}],
        [{"key": "", "value": b"v"}],
        [None],
        [{"key": "k", "value": None}] * 10_000,
    ):
        data = resealed(_headers_message([headers]), like, schema_id=1)
        await refused(s.produce(place, data), errors.InvalidRecordError)
    twice = resealed(_headers_message([[{"key": "k", "value": b"1"}] * 2]), like, schema_id=1)
    await s.produce(place, twice)  # a name may stand twice, as in Kafka
    return ["hostile"]


def _broken_payloads(payload: bytes) -> list[bytes]:
    """What the title says, as far as each can be built."""
    random = Random(1)
    buffers = payload.index(b"hostile")
    metadata = int.from_bytes(payload[4:8], "little")
    broken = [
        payload[:-8],
        payload[: len(payload) // 2],
        payload + bytes(8),
        payload[:4] + struct.pack("<i", -1) + payload[8:],
        payload[:4] + struct.pack("<i", 1 << 30) + payload[8:],
        random.randbytes(len(payload)),
        bytes(len(payload)),
        pa.schema([("x", pa.int64())]).serialize().to_pybytes(),
        _other_schema(pa.struct([("deep", pa.int64())])),
        _other_schema(pa.dictionary(pa.int8(), pa.string())),
        payload[:buffers] + bytes(len(payload) - buffers),
    ]
    turned = 0
    while turned < 40:  # flatbuffers whose offsets and lengths point elsewhere
        at = 8 + random.randrange(metadata)
        broken.append(payload[:at] + struct.pack("<i", random.choice((-1, 1 << 30, -(1 << 31)))) + payload[at + 4 :])
        turned += 1
    at = payload.rindex(struct.pack("<ii", 0, len(b"hostile")))
    ends = ((7, 0), (0, 1 << 30), (-1, 7), (0, -7))
    return broken + [payload[:at] + struct.pack("<ii", *offsets) + payload[at + 8 :] for offsets in ends]


def _other_schema(kind: Any) -> bytes:
    value: Any = {"deep": 1} if pa.types.is_struct(kind) else "x"
    return bytes(pa.RecordBatch.from_arrays([pa.array([value], kind)], ["value"]).serialize())


@row(58, says="an Arrow message that is cut, turned, deep, or another one")
async def arrow(s: Any, place: Place) -> list[str]:
    like = batch_of(s, place)
    payload = like[HEADER_BYTES:]
    written: list[str] = []
    refusals = 0
    for broken in _broken_payloads(payload):
        try:
            await s.produce(place, resealed(broken, like))
        except errors.InvalidRecordError:
            refusals += 1
        else:  # a turned byte that nobody reads: what is taken can be read
            written.append(_value_of(resealed(broken, like)))
    assert refusals >= 15, "nearly all of them"
    return written


def _value_of(data: bytes) -> str:
    from oncelog.core.batch.batch import decode_batch

    (record,) = decode_batch(data)
    return (record.value or b"").decode()


@row(60, says="more or fewer rows than the header counts")
async def row_counts(s: Any, place: Place) -> None:
    two = s.batch(place, NOBODY, "a", "b", seq=-1)
    for count in (1, 3):
        data = mutated(two, {"record_count": count, "last_offset_delta": count - 1})
        await refused(s.produce(place, data), errors.InvalidRecordError)


@row(58, says="a payload that unpacks to more than it says, and one that says more than it unpacks to")
async def bombs(s: Any, place: Place) -> None:
    from oncelog.core.batch.batch import encode_batch
    from oncelog.core.batch.header import CODEC_LZ4, CODEC_ZSTD

    for codec in (CODEC_LZ4, CODEC_ZSTD):
        where = {"timestamps_ms": [s.now_ms], "topic_id": place.topic_id, "partition": place.partition}
        data = encode_batch([None], [bytes(1 << 20)], codec=codec, **where)
        length = read_header(data).uncompressed_length
        for claim in (length // 2, length - 8, length + 8, 60 << 20, (1 << 31) - 1, -1):
            forged = mutated(data, {"uncompressed_length": claim})
            await refused(s.produce(place, forged), errors.InvalidRecordError, errors.MessageTooLargeError)
