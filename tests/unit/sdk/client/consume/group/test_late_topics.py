"""An assigned partition whose topic no broker shows yet is read as soon as one does, without a change of the assignment."""

from __future__ import annotations

import asyncio
import logging

import pytest

from oncelog.client.client import Client
from tests.unit.sdk.client.consume.group.test_group_reading import Told, all_of, in_group, member
from tests.unit.sdk.client.consume.scripted_group import ScriptedGroup
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import P0, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    made.topic_exists = False
    return made


def test_a_waiting_read_gets_records_when_the_topic_shows(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told) as consumer:
            waiting = asyncio.ensure_future(consumer.getmany())
            await asyncio.sleep(10)
            assert (told, consumer.assignment()) == ([("assigned", [P0])], [])
            cluster.topic_exists = True
            async with asyncio.timeout(3):
                assert values(await waiting) == [b"0", b"1", b"2"]
            assert consumer.assignment() == [P0]
            assert len(group.heartbeats) < 20
            assert group.number == 1

    assert [r.levelno for r in caplog.records if "do not show" in r.message] == [logging.WARNING]


def test_what_is_found_after_the_partition_was_let_go_is_not_read(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            assert await all_of(consumer) == []
            await asyncio.sleep(2)
            cluster.topic_exists = True
            await asyncio.sleep(2)
            await group.assign()
            await cluster.pause()
            assert await all_of(consumer) == []
            assert consumer.assignment() == []


def test_brokers_that_do_not_answer_end_no_search_and_a_close_does(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        consumer = member(client)
        assert await all_of(consumer) == []
        cluster.down |= {"b0:1", "b1:1"}
        await asyncio.sleep(30)
        cluster.down.clear()
        cluster.topic_exists = True
        await asyncio.sleep(5)
        assert await all_of(consumer) == [b"0", b"1", b"2"]
        cluster.topic_exists = False
        await group.fence()
        await asyncio.sleep(1)
        client._metadata.forget("orders")
        await all_of(consumer)
        await consumer.close()
        assert not [task for task in asyncio.all_tasks() if "late" in task.get_name()]
