"""What type checkers are told of keys and values (test_options.py) is what happens, and costs nothing when it does."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import typing
from typing import Any

import pytest

import oncelog
from oncelog import sync
from oncelog.core.batch.batch import encode_batch
from oncelog.types import PartitionId
from oncelog.value_types import K, V
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster

P0 = PartitionId(TOPIC_ID, 0)
RECORD = oncelog.ConsumerRecord("orders", 0, 7, 5, b"k", {"number": 7}, ())


def test_a_deserializer_is_called_for_nulls_and_its_result_is_the_value() -> None:
    """So it takes `bytes | None`, and `record.value` is of the type that it returns, without a None of ours."""
    cluster = FakeCluster()
    batch = encode_batch([None, b"k"], [b"1", None], timestamps_ms=[5, 5], topic_id=TOPIC_ID, partition=0)
    cluster.logs[P0].append(batch)

    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
        async with cluster.client() as client:
            read = client.consumer(TOPIC, key_deserializer=repr, value_deserializer=repr, **options)
            assert [(r.key, r.value) for r in await read.getmany()] == [("None", "b'1'"), ("b'k'", "None")]
            plain = client.consumer(TOPIC, **options)
            assert [(r.key, r.value) for r in await plain.getmany()] == [(None, b"1"), (b"k", None)]

    cluster.run(work)


def test_a_serializer_is_called_for_what_is_left_out_and_may_return_a_null() -> None:
    cluster = FakeCluster()

    def dump(item: object) -> bytes | None:
        return None if item == "null" else json.dumps(item).encode()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = client.producer(key_serializer=dump, value_serializer=dump)
            await producer.send(TOPIC, {"number": 7}, partition=0)
            await (await producer.send(TOPIC, key="null", partition=0))

    cluster.run(work)
    assert [(row.key, row.value) for _, row in cluster.logs[P0].records] == [
        (b"null", b'{"number": 7}'),
        (None, b"null"),
    ]


@pytest.mark.parametrize(
    "given", [b"7", bytearray(b"7"), memoryview(b"7"), "7", None], ids=lambda value: type(value).__name__
)
def test_without_a_serializer_everything_of_the_type_is_taken(given: Any) -> None:
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, given, partition=0)

    cluster.run(work)
    assert cluster.values(0) == [None if given is None else b"7"]


def test_a_record_stays_a_bare_tuple() -> None:
    """One is made for every record: a `__dict__` would double its size."""
    assert isinstance(RECORD, tuple)
    assert RECORD == ("orders", 0, 7, 5, b"k", {"number": 7}, ())
    assert not hasattr(RECORD, "__dict__")
    assert sys.getsizeof(RECORD) == sys.getsizeof(tuple(RECORD))
    copy = pickle.loads(pickle.dumps(RECORD))
    assert (copy, type(copy)) == (RECORD, oncelog.ConsumerRecord)


@pytest.mark.parametrize(
    "kind",
    [
        *(oncelog.Consumer, oncelog.ConsumerRecord, oncelog.Records, oncelog.Message),
        *(oncelog.Producer, oncelog.Transaction, oncelog.Participant),
        *(sync.Consumer, sync.Producer, sync.Transaction, sync.Participant),
    ],
    ids=lambda kind: f"{kind.__module__}.{kind.__name__}",
)
def test_types_may_stand_in_annotations_that_are_evaluated(kind: Any) -> None:
    assert kind[bytes, dict[str, int]].__origin__ is kind


@pytest.mark.parametrize(
    "kind",
    [
        *(oncelog.Consumer, oncelog.ConsumerRecord, oncelog.Message),
        *(oncelog.Producer, oncelog.Transaction, oncelog.Participant),
        *(sync.Consumer, sync.Producer, sync.Transaction, sync.Participant),
    ],
    ids=lambda kind: f"{kind.__module__}.{kind.__name__}",
)
def test_what_an_evaluated_annotation_leaves_out_has_its_default(kind: Any) -> None:
    """Type checkers took it, and Python 3.11 and 3.12 said "Too few arguments"."""
    assert typing.get_args(kind[bytes]) == (bytes, Any)
    assert kind[bytes].__origin__ is kind
    with pytest.raises(TypeError, match="Too many arguments"):
        kind[bytes, bytes, bytes]


def test_brackets_of_a_subclass_are_its_own() -> None:
    class Mine(oncelog.Consumer[K, V]):
        pass

    class Orders(oncelog.Consumer[bytes, dict[str, int]]):
        pass

    assert (Mine[int].__origin__, typing.get_args(Mine[int])) == (Mine, (int, Any))
    with pytest.raises(TypeError, match="not a generic class"):
        Orders[bytes]


def test_types_need_no_package_at_run_time() -> None:
    asked = "import sys, oncelog.value_types, oncelog.option_types; print('typing_extensions' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
