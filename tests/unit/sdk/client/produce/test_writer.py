"""What users give becomes rows of a partition, or is refused at the call that gave it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from oncelog import errors, sync
from oncelog.client.defaults import SystemClock
from oncelog.client.produce.writer import Message
from oncelog.core.batch.hashing import partition_for_key
from oncelog.types import PartitionId
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_mistakes_are_refused_at_the_call(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(max_request_size=1 << 20) as producer:
            for arguments, error in [
                ({"value": 7}, errors.InvalidRecordError),
                ({"value": b"", "partition": 2}, errors.UnknownTopicError),
                ({"value": b"", "timestamp_ms": -1}, errors.InvalidTimestampError),
                ({"value": b"", "headers": [("", b"")]}, errors.InvalidRecordError),
                ({"value": bytes(1 << 20)}, errors.MessageTooLargeError),
            ]:
                with pytest.raises(error):
                    await producer.send(TOPIC, **arguments)  # type: ignore[arg-type]
            with pytest.raises(errors.UnknownTopicError, match="oncelog topic create nowhere"):
                await producer.send("nowhere", b"")
            with pytest.raises(errors.IllegalStateError):
                producer.transaction()

    cluster.run(work)
    assert cluster.count("Produce") == 0


def test_arrow_data_is_routed_like_single_records(cluster: FakeCluster) -> None:
    keys = [b"%d" % i for i in range(500)]
    rows = pa.record_batch({"key": pa.array(keys), "value": pa.array(keys)})

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(compression_type="lz4", batch_size=4_000) as producer:
            ranges = await (await producer.send_batch(TOPIC, rows))
            assert sum(item.records for item in ranges) == 500
            assert await (await producer.send_batch(TOPIC, rows.slice(0, 0))) == []
            with pytest.raises(errors.InvalidRecordError):
                await producer.send_batch(TOPIC, rows.select(["key"]))

    cluster.run(work)
    for partition in range(2):
        expected = [key for key in keys if partition_for_key(key, 2) == partition]
        assert cluster.values(partition) == expected


@pytest.mark.parametrize("columns", [{"value": [b"v"]}, {"value": [b"v"], "key": [b"k"]}, {"value": [None]}])
def test_many_small_rows_of_arrow_data_make_no_batch_that_is_too_large(cluster: FakeCluster, columns: Any) -> None:
    rows = pa.record_batch({name: pa.array(column * 5_000, pa.binary()) for name, column in columns.items()})

    async def work(_: FakeCluster) -> None:
        options: Any = {"batch_size": 20_000, "max_request_size": 20_000, "compression_type": "none"}
        async with cluster.client() as client, client.producer(**options) as producer:
            ranges = await (await producer.send_batch(TOPIC, rows, 0))
            assert sum(item.records for item in ranges) == 5_000

    cluster.run(work)


def test_murmur2_decides_for_single_records_and_for_arrow_data_alike(cluster: FakeCluster) -> None:
    """Kafka's Java client says -973932308, -790332482 and 479470107; without the sign bit the last one alone is odd."""
    keys = ["21", "foobar", "abc"]
    rows = pa.record_batch({"key": pa.array(keys), "value": pa.array(keys)})

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(partitioner="murmur2") as producer:
            await (await producer.send_batch(TOPIC, rows))
            sent = [await producer.send_and_wait(TOPIC, key, key=key) for key in keys]
            assert [metadata.partition for metadata in sent] == [0, 0, 1]
            await producer.send_and_wait(TOPIC, "keyless")

    cluster.run(work)
    assert [value for value in cluster.values(0) if value != b"keyless"] == [b"21", b"foobar"] * 2
    assert [value for value in cluster.values(1) if value != b"keyless"] == [b"abc"] * 2


def test_serializers_and_many_rows(cluster: FakeCluster) -> None:
    from oncelog.client.produce.writer import Message

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = await client.producer(value_serializer=lambda n: b"<%d>" % n, partitioner=lambda k, n: 1).start()
            sent = await producer.send_many(TOPIC, [1, ("k", 2), Message(3, partition=0)])
            assert sent.rows == 3
            await sent

    cluster.run(work)
    assert (cluster.values(0), cluster.values(1)) == ([b"<3>"], [b"<1>", b"<2>"])


class Whole:
    """As numpy's integers: no `int`, and one all the same."""

    def __index__(self) -> int:
        return 1


def lone_surrogate() -> str:
    return "caf\ud83d"


MISTAKES: dict[str, tuple[dict[str, Any], type[errors.OncelogError], str]] = {
    "a time in fractions": (
        {"timestamp_ms": 1_700_000_000_123.5},
        errors.InvalidRecordError,
        "timestamp_ms is not a whole",
    ),
    "a time as text": ({"timestamp_ms": "5"}, errors.InvalidRecordError, "timestamp_ms is not a whole"),
    "a time in nanoseconds": (
        {"timestamp_ms": time.time_ns()},
        errors.InvalidTimestampError,
        "not microseconds or nanosec",
    ),
    "a time before 1970": ({"timestamp_ms": -1}, errors.InvalidTimestampError, "before 1970"),
    "a partition in fractions": ({"partition": 0.5}, errors.InvalidRecordError, "partition is not a whole"),
    "a partition as text": ({"partition": "0"}, errors.InvalidRecordError, "partition is not a whole"),
    "a truth as a partition": ({"partition": True}, errors.InvalidRecordError, "partition is not a whole"),
    "a number in a header": ({"headers": {"retries": 0}}, errors.InvalidRecordError, "of type int; .*header=retries"),
    "a truth in a header": ({"headers": {"is_new": False}}, errors.InvalidRecordError, "of type bool"),
    "a list in a header": ({"headers": {"h": [1, 2]}}, errors.InvalidRecordError, "of type list"),
    "a header's name in bytes": ({"headers": {b"h": b"x"}}, errors.InvalidRecordError, "no text"),
    "a header's name that is no Unicode": (
        {"headers": {lone_surrogate(): b""}},
        errors.InvalidRecordError,
        "half a char",
    ),
    "a header's value that is no Unicode": (
        {"headers": {"h": lone_surrogate()}},
        errors.InvalidRecordError,
        "half a char",
    ),
    "names alone": ({"headers": ["a"]}, errors.InvalidRecordError, "pairs of a name and a value"),
    "names of two letters": ({"headers": ["ab"]}, errors.InvalidRecordError, "pairs of a name and a value"),
    "one pair": ({"headers": ("name", b"value")}, errors.InvalidRecordError, "pairs of a name and a value"),
    "a number as headers": ({"headers": 5}, errors.InvalidRecordError, "pairs of a name and a value"),
    "text that is no Unicode": (
        {"value": lone_surrogate()},
        errors.InvalidRecordError,
        "the value has half a character",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_raised_by_the_call_that_makes_it(cluster: FakeCluster, name: str) -> None:
    mistake, error, words = MISTAKES[name]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(linger_ms=50) as producer:
            before = await producer.send(TOPIC, b"before", partition=0)
            record: dict[str, Any] = {"value": b"wrong", "partition": 0, **mistake}
            for call in (producer.send, producer.send_and_wait):
                with pytest.raises(error, match=words):
                    await call(TOPIC, **record)  # type: ignore[operator]
            with pytest.raises(error, match=words):
                await producer.send_many(TOPIC, [Message(**record)])
            assert (await before).offset == 0
            assert (await producer.send_and_wait(TOPIC, b"after", partition=0)).offset == 1

    cluster.run(work)
    assert cluster.values(0) == [b"before", b"after"]


def arrow(**columns: Any) -> Any:
    return pa.record_batch({"value": pa.array([b"wrong"]), **columns})


ARROW_MISTAKES: dict[str, tuple[Any, Any, type[errors.OncelogError], str]] = {
    **{
        f"the partition {wrong!r}": (arrow(), wrong, errors.InvalidRecordError, "partition is not a whole")
        for wrong in (1.0, 1.5, "0", True)
    },
    "a time before 1970": (arrow(timestamp=pa.array([-1])), 0, errors.InvalidTimestampError, "before 1970"),
    "a time in nanoseconds": (
        arrow(timestamp=pa.array([time.time_ns()])),
        0,
        errors.InvalidTimestampError,
        "not microseconds or nanosec",
    ),
    "a time that is none": (arrow(timestamp=pa.array(["x"])), 0, errors.InvalidRecordError, "timestamp column"),
    "numbers as headers": (arrow(headers=pa.array([1])), 0, errors.InvalidRecordError, "headers column is not list"),
    "text as headers": (arrow(headers=pa.array(["a"])), None, errors.InvalidRecordError, "headers column is not list"),
}


@pytest.mark.parametrize("name", ARROW_MISTAKES)
def test_a_mistake_in_arrow_data_is_raised_by_the_call_and_harms_no_transaction(
    cluster: FakeCluster, name: str
) -> None:
    """The delivery told of it, when the transaction had failed; a wrong partition ended the whole producer."""
    rows, partition, error, words = ARROW_MISTAKES[name]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t", linger_ms=50) as producer:
            async with producer.transaction() as txn:
                before = await txn.send(TOPIC, b"before", partition=0)
                with pytest.raises(error, match=words):
                    await txn.send_batch(TOPIC, rows, partition)
                await asyncio.sleep(1)
                assert before.offset == 0
            assert txn.outcome == "committed"

    cluster.run(work)
    assert cluster.values(0) + cluster.values(1) == [b"before"]


def test_what_can_be_taken_is_taken(cluster: FakeCluster) -> None:
    text = bytearray(b"1")

    def pairs() -> Iterator[tuple[str, bytes]]:
        yield "a", b"1"
        yield "a", b"2"

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(linger_ms=50) as producer:
            options: dict[str, Any] = {"partition": Whole(), "timestamp_ms": Whole()}
            await producer.send(TOPIC, b"v", headers={"b": text, "m": memoryview(b"2"), "n": None, "ü": "ü"}, **options)
            await producer.send(TOPIC, b"w", headers=pairs(), **options)  # type: ignore[arg-type]
            await producer.send(TOPIC, b"x", headers=[["l", b"3"]], **options)  # type: ignore[list-item]
            text[:] = b"2"

    cluster.run(work)
    records = [record for _, record in cluster.logs[PartitionId(TOPIC_ID, 1)].records]
    assert [record.timestamp_ms for record in records] == [1, 1, 1]
    assert [record.headers for record in records] == [
        (("b", b"1"), ("m", b"2"), ("n", None), ("ü", "ü".encode())),
        (("a", b"1"), ("a", b"2")),
        (("l", b"3"),),
    ]


@pytest.mark.parametrize("returned", [0.5, "1", None], ids=repr)
def test_a_partitioner_that_returns_no_number_fails_its_caller(cluster: FakeCluster, returned: Any) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(partitioner=lambda key, count: returned) as producer:
            with pytest.raises(errors.InvalidRecordError, match="what the partitioner returned is not a whole number"):
                await producer.send(TOPIC, b"v")

    cluster.run(work)
    assert cluster.values(0) + cluster.values(1) == []


class Point(NamedTuple):
    x: int
    y: int


def test_a_named_tuple_is_a_value_and_a_plain_one_a_key_and_a_value(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {"value_serializer": repr, "partitioner": lambda key, count: 0}
        async with cluster.client() as client, client.producer(**options) as producer:
            await producer.send_many(TOPIC, [Point(1, 2), ("k", 3), (1, 2, 3)])

    cluster.run(work)
    written = [(record.key, record.value) for _, record in cluster.logs[PartitionId(TOPIC_ID, 0)].records]
    assert written == [(None, b"Point(x=1, y=2)"), (b"k", b"3"), (None, b"(1, 2, 3)")]


ONE_RECORD = pytest.mark.parametrize("rows", ["text", b"bytes", bytearray(b"b"), {"k": "v"}, Message(b"v")], ids=repr)


@ONE_RECORD
def test_one_record_is_not_many(cluster: FakeCluster, rows: Any) -> None:
    """Its letters, or its keys, were sent as records."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            with pytest.raises(TypeError, match="is one record: use send, or put it into a list"):
                await producer.send_many(TOPIC, rows)

    cluster.run(work)
    assert cluster.calls == [] or cluster.count("Produce") == 0


@ONE_RECORD
def test_one_record_is_not_many_without_an_event_loop_either(cluster: FakeCluster, rows: Any) -> None:
    options: dict[str, Any] = {"transport": cluster, "clock": SystemClock(), "random": Random(1)}
    with sync.Client(BROKERS, **options) as client, client.producer() as producer:
        with pytest.raises(TypeError, match="is one record: use send, or put it into a list"):
            producer.send_many(TOPIC, rows)
        assert producer.send_and_wait(TOPIC, b"v", partition=0, headers={"h": "1"}).offset == 0


@pytest.mark.parametrize(
    ("size", "pause_s"), [(100, 0), (3_000, 0), (3_000, 0.1)], ids=["rows that do not fit", "rows that fill", "slowly"]
)
def test_records_without_a_key_turn_to_the_next_partition_when_a_batch_is_full(
    cluster: FakeCluster, size: int, pause_s: float
) -> None:
    """They stayed on the first, for no row fitted exactly: a new batch was begun there, and was not full."""

    async def work(_: FakeCluster) -> None:
        many: dict[str, Any] = {"transactional_id": "t", "batch_size": 2_000}
        async with cluster.client() as client, client.producer(**many) as producer, producer.transaction() as txn:
            for _ in range(200):
                await txn.send(TOPIC, bytes(size))
                await asyncio.sleep(pause_s)

    cluster.run(work)
    assert [80 < len(cluster.values(number)) < 120 for number in range(2)] == [True, True]


def test_a_transaction_of_a_few_records_without_a_key_stays_on_one_partition(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with (
            cluster.client() as client,
            client.producer(transactional_id="t") as producer,
            producer.transaction() as txn,
        ):
            for _ in range(20):
                await txn.send(TOPIC, b"v")
                await cluster.pause()

    cluster.run(work)
    assert sorted(len(cluster.values(number)) for number in range(2)) == [0, 20]
