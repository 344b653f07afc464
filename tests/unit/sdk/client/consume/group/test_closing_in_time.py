"""A consumer's close takes no longer than it was given, whoever does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog.client.client import Client
from oncelog.client.consume.consumer import Consumer
from oncelog.types import TopicPartition
from tests.unit.sdk.client.consume.scripted_group import ScriptedGroup
from tests.unit.sdk.client.fake_cluster import COORDINATOR, TOPIC, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append

COMMITTING: Any = {**EARLIEST, "group_id": "g", "enable_auto_commit": True}
Work = Callable[[ScriptedGroup, Client], Awaitable[None]]


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    return made


def on(cluster: FakeCluster) -> Callable[[Work], None]:
    """Runs a test's work with a group that assigns the first partition, and a client that closes within 4 s."""

    def run(work: Work) -> None:
        async def whole(_: FakeCluster) -> None:
            async with cluster.client(close_timeout_ms=4_000) as client:
                await work(ScriptedGroup(cluster, 0), client)

        cluster.run(whole)

    return run


async def closing_s(consumer: Consumer, timeout_ms: int | None = None) -> float:
    """How long its close takes."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await consumer.close(timeout_ms)
    return loop.time() - began


def test_a_commit_without_an_answer_is_given_up(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    @on(cluster)
    async def _(group: ScriptedGroup, client: Client) -> None:
        consumer = client.consumer(**COMMITTING)
        await consumer.assign([P0])
        await consumer.getmany()
        cluster.down.add(COORDINATOR)
        assert 3.9 < await closing_s(consumer) < 4.1
        assert "the next reader begins at the one before" in caplog.text


def test_a_commit_that_an_earlier_read_began_is_given_up_too(cluster: FakeCluster) -> None:
    @on(cluster)
    async def _(group: ScriptedGroup, client: Client) -> None:
        consumer = client.consumer(**COMMITTING, auto_commit_interval_ms=1)
        await consumer.assign([P0])
        await consumer.getmany(max_records=1)
        cluster.down.add(COORDINATOR)
        await asyncio.sleep(1)
        await consumer.getmany(max_records=1)
        assert 3.9 < await closing_s(consumer) < 4.1
        await asyncio.sleep(1)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "oncelog-commit"]


def test_a_member_whose_commit_is_given_up_still_tells_its_callback(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    @on(cluster)
    async def _(group: ScriptedGroup, client: Client) -> None:
        revoked: list[list[TopicPartition]] = []
        consumer = client.consumer(**COMMITTING)
        consumer.subscribe(TOPIC, on_revoked=revoked.append)
        await consumer.getmany()
        cluster.down.add(COORDINATOR)
        assert await closing_s(consumer, 2_000) < 2.1
        assert revoked == [[P0]]


@pytest.mark.parametrize("timeout_ms", [None, 2_000, 0])
def test_a_callback_that_does_not_return_is_given_up_and_the_member_leaves(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, timeout_ms: int | None
) -> None:
    @on(cluster)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async def stay(given: list[TopicPartition]) -> None:
            await asyncio.sleep(3_600)

        consumer = client.consumer(group_id="g", **EARLIEST)
        consumer.subscribe(TOPIC, on_revoked=stay)
        await consumer.getmany()
        assert await closing_s(consumer, timeout_ms) < (4_000 if timeout_ms is None else timeout_ms) / 1000 + 0.1
        assert group.leaves()
        assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_change_that_is_not_carried_out_is_given_up(cluster: FakeCluster) -> None:
    @on(cluster)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async def stay(given: list[TopicPartition]) -> None:
            await asyncio.sleep(3_600)

        consumer = client.consumer(group_id="g", **EARLIEST)
        consumer.subscribe(TOPIC, on_revoked=stay)
        await consumer.getmany()
        await group.assign()
        await cluster.pause()
        reading = asyncio.ensure_future(consumer.getmany())
        await asyncio.sleep(1)
        assert await closing_s(consumer) < 4.1
        assert group.leaves()
        assert await reading == []
