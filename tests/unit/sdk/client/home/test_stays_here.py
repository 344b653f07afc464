"""Pickling a client says what to do instead, and plain values can be pickled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from oncelog import errors, sync
from oncelog.client.client import Client
from oncelog.client.defaults import SystemClock
from oncelog.client.produce.transactions.participant import ParticipantResult
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster

WHAT_TO_DO = "cannot be pickled or copied: .* Make the client where it is used, inside of the function that Spark"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_a_client_makes_stays_in_its_process(cluster: FakeCluster, duplicate: Callable[[Any], Any]) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = client.producer()
            made = [
                client, client.admin, producer, client.consumer(TOPIC), client.producer(transactional_id="t").transaction(),
                await producer.send(TOPIC, b"a"), await producer.send_many(TOPIC, [b"a"]),
                await client.join_transaction(SharedBatch("t", "run", "app", 1)),
            ]  # fmt: skip
            for item in made:
                with pytest.raises(TypeError, match=f"a {type(item).__name__} {WHAT_TO_DO}"):
                    duplicate(item)

    cluster.run(work)


def test_nor_does_the_facade_without_await_travel(cluster: FakeCluster) -> None:
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client:
        producer = client.producer()
        for item in (client, client.admin, producer, client.consumer(TOPIC), producer.send(TOPIC, b"a")):
            with pytest.raises(TypeError, match=f"a {type(item).__name__} {WHAT_TO_DO}"):
                pickle.dumps(item)


def test_a_function_that_holds_a_client_says_so_too() -> None:
    """As Spark and multiprocessing send it: by its parts."""
    with pytest.raises(TypeError, match=WHAT_TO_DO):
        pickle.dumps({"settings": [Client("a:1")]})


def test_plain_values_travel(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            metadata = await producer.send_and_wait(TOPIC, b"a", partition=0, headers={"h": "v"})
            async with client.consumer(group_id="g", auto_offset_reset="earliest") as consumer:
                await consumer.assign_topics(TOPIC)
                records = await consumer.getmany()
            result = ParticipantResult(1, 2, 3, (("0a" * 16, 0, 3),), b"secret")
            for value in (
                metadata,
                records[0],
                records,
                result,
                consumer.config,
                errors.UnknownTopicError("no", topic="a"),
            ):
                assert pickle.loads(pickle.dumps(value)) == value or isinstance(value, errors.OncelogError)
            again = pickle.loads(pickle.dumps(records))
            assert (again.offsets, again.group) == (records.offsets, records.group)

    cluster.run(work)
