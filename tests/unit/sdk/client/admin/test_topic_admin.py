"""What is asked of a topic by its id is told of that topic, or refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.admin.admin import Admin
from oncelog.client.routing.offset_lookup import EARLIEST, LATEST
from oncelog.types import PartitionId
from tests.unit.sdk.client.consume.test_following import append
from tests.unit.sdk.client.fake_cluster import LATENCY_S, TOPIC, TOPIC_ID, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    append(cluster, 0, b"old", b"old too", b"the third")
    return cluster


def test_offsets_are_those_of_the_topic_that_was_described_though_memory_has_an_older_one(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert (await client.admin.offsets_of_topic(TOPIC, TOPIC_ID, {0: LATEST}))[0].offset == 3
            new_id = cluster.create_again()
            append(cluster, 0, b"new")
            described = (await client.admin.describe_topic(TOPIC)).topic_id
            assert described == new_id
            found = await client.admin.offsets_of_topic(TOPIC, described, {0: LATEST, 1: EARLIEST})
            assert {partition: at.offset for partition, at in found.items()} == {0: 1, 1: 0}
            assert await client.admin.end_of_epoch(TOPIC, 0, 0, described) == 1

    cluster.run(work)


def test_a_topic_that_is_there_no_more_is_not_answered_for_by_its_successor(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            cluster.create_again()
            append(cluster, 0, b"new")
            with pytest.raises(errors.UnknownTopicError, match="deleted and created again"):
                await client.admin.offsets_of_topic(TOPIC, TOPIC_ID, {0: LATEST})
            with pytest.raises(errors.UnknownTopicError, match="deleted and created again"):
                await client.admin.end_of_epoch(TOPIC, 0, 0, TOPIC_ID)
            assert await client.admin.end_of_epoch(TOPIC, 0, 0) == 1

    cluster.run(work)


def test_many_topics_are_described_in_one_call_and_those_that_do_not_exist_are_left_out(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            before = cluster.count("GetMetadata")
            found = await client.admin.describe_topics(["nowhere", TOPIC, TOPIC])
            assert [(name, topic.topic_id) for name, topic in found.items()] == [(TOPIC, TOPIC_ID)]
            assert await client.admin.describe_topics([]) == {}
            assert cluster.count("GetMetadata") == before + 1

    cluster.run(work)


def test_several_questions_about_offsets_are_asked_at_the_same_time(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            both = [PartitionId(TOPIC_ID, number) for number in range(2)]
            asked = [dict.fromkeys(both, LATEST), dict.fromkeys(both, EARLIEST)]
            await client.admin.offsets_of_topics({TOPIC: TOPIC_ID}, *asked)
            begun = cluster.loop.time()
            last, first = await client.admin.offsets_of_topics({TOPIC: TOPIC_ID}, *asked)
            assert cluster.loop.time() - begun == pytest.approx(LATENCY_S), "four calls to two leaders"
            assert [[found[key].offset for key in both] for found in (last, first)] == [[3, 0], [0, 0]]
            cluster.create_again()
            with pytest.raises(errors.UnknownTopicError):
                await client.admin.offsets_of_topics({TOPIC: TOPIC_ID}, *asked)

    cluster.run(work)


WRONG: list[Callable[[Admin], Awaitable[Any]]] = [
    lambda admin: admin.create_topic("new", partitions="3"),  # type: ignore[arg-type]
    lambda admin: admin.create_topic("new", partitions=1 << 31),
    lambda admin: admin.create_topic("new", replication_factor=1.5),  # type: ignore[arg-type]
    lambda admin: admin.create_topic("new", timeout_ms=1 << 31),
    lambda admin: admin.create_topic("new", config={"retention_ms": 60_000}),  # type: ignore[dict-item]
    lambda admin: admin.create_topic("new", config={"retention_ms": None}),  # type: ignore[dict-item]
    lambda admin: admin.alter_topic(TOPIC, config={7: "60000"}),  # type: ignore[dict-item]
    lambda admin: admin.alter_topic(TOPIC, config={"retention_ms": "\udcff"}),
    lambda admin: admin.alter_topic(TOPIC, unset=["\udcff"]),
    lambda admin: admin.add_partitions(TOPIC, "4"),  # type: ignore[arg-type]
    lambda admin: admin.add_partitions(TOPIC, 1 << 31),
    lambda admin: admin.delete_records(TOPIC, 1 << 31, 0),
    lambda admin: admin.delete_records(TOPIC, 0, 1 << 63),
    lambda admin: admin.delete_records(TOPIC, 0, True),
]


@pytest.mark.parametrize("call", WRONG)
def test_what_no_request_can_hold_is_refused_by_name(
    cluster: FakeCluster, call: Callable[[Admin], Awaitable[Any]]
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.ConfigError):
                await call(client.admin)

    cluster.run(work)
