"""A member whose work on each record is slow stays in its group, however many records are buffered."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.client.client import Client
from tests.unit.sdk.client.consume.group.test_group_reading import Told, in_group, member
from tests.unit.sdk.client.consume.scripted_group import SESSION_MS, ScriptedGroup
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import P0, P1, append
from tests.unit.sdk.client.virtual_loop import VirtualLoop

RECORDS = 200


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()


@pytest.fixture
def cluster(loop: VirtualLoop) -> FakeCluster:
    made = FakeCluster()
    made.loop = loop  # type: ignore[assignment]
    append(made, [b"%d" % number for number in range(RECORDS)])
    return made


def test_work_without_an_await_does_not_hold_up_heartbeats(cluster: FakeCluster, loop: VirtualLoop) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told) as consumer:
            offsets = []
            async for record in consumer:
                offsets.append(record.offset)
                loop.block(1_000)
                if len(offsets) == RECORDS:
                    break
            assert RECORDS * 1_000 > 4 * SESSION_MS
            assert offsets == list(range(RECORDS))
            assert told == [("assigned", [P0])]
            assert len({beat.member_id for beat in group.heartbeats}) == 1


def test_each_record_that_is_asked_for_shows_that_the_member_reads(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told, max_poll_interval_ms=3_000) as consumer:
            for offset in range(RECORDS):
                assert (await anext(consumer)).offset == offset
                await asyncio.sleep(1)
            assert told == [("assigned", [P0])]


def test_a_loop_over_a_batch_hands_a_partition_over(cluster: FakeCluster) -> None:
    @in_group(cluster, 0, 1)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            assert (await anext(consumer)).offset == 0
            await group.assign(0)
            await cluster.pause()
            assert consumer.assignment() == [P0, P1]
            assert (await anext(consumer)).offset == 1
            assert consumer.assignment() == [P0]
            await group.until_applied()


def test_a_thread_that_takes_records_comes_back_to_poll(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told, max_poll_interval_ms=3_000) as consumer:
            offsets: list[int] = []
            while len(offsets) < RECORDS:
                record, handout = await consumer.hand_out(1_000)
                while record is not None:
                    offsets.append(record.offset)
                    await asyncio.sleep(1)
                    record = None if handout is None else handout.next()
            assert offsets == list(range(RECORDS))
            assert told == [("assigned", [P0])]
