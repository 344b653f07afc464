"""Ephemeral channels vanish with their last worker, and never while one may be there."""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog import errors
from oncelog.types import BrokerRef
from oncelog.v1 import channel_pb2 as pb
from oncelog.wire import methods
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.ports import Change
from tests.unit.partition_leader.channel_world import CHANNEL_ID, TOPIC_ID, ChannelWorld, channel, play

MINE, OTHERS = "broker-1:9092", "broker-2:9092"


class Leaders:
    """The leaders of both partitions, and the controller."""

    def __init__(self, world: ChannelWorld) -> None:
        self.workers: dict[str, list[str]] = {MINE: [], OTHERS: []}
        self.epochs = {MINE: 1, OTHERS: 1}
        self.deleted: list[pb.DeleteChannelRequest] = []
        values = {
            keys.broker_key(2): keys.Broker(OTHERS, "", "nonce").encode(),
            keys.CONTROLLER_KEY: keys.encode_ref(BrokerRef(2, 9)),
        }
        for number, leader in enumerate((BrokerRef(1, 5), BrokerRef(2, 9))):
            state = keys.Partition("orders", (1, 2), leader, 1, (leader,))
            values[keys.partition_key(TOPIC_ID, number)] = state.encode()
        for key, value in values.items():
            world.view.change(Change(key, value, 9))
        world.transport.answers = {
            methods.DESCRIBE_CHANNEL.name: self._describe,
            methods.DELETE_CHANNEL.name: self._delete,
        }

    def _describe(self, address: str, request: pb.DescribeChannelRequest) -> Any:
        reply = pb.DescribeChannelReply()
        for number in request.partitions:
            workers = [pb.WorkerInfo(worker_id=worker) for worker in self.workers[address]]
            reply.partitions.add(partition=number, leader_epoch=self.epochs[address], workers=workers)
        return reply

    def _delete(self, address: str, request: pb.DeleteChannelRequest) -> Any:
        assert address == OTHERS, "the controller is asked"
        self.deleted.append(request)
        return pb.DeleteChannelReply(channel_id=request.channel_id)


def test_a_channel_without_workers_is_deleted() -> None:
    async def scenario(world: ChannelWorld) -> None:
        leaders = Leaders(world)
        await world.lead()
        world.put(channel(ephemeral=True))
        await asyncio.sleep(29)
        assert leaders.deleted == [], "workers may still come"
        await asyncio.sleep(30)
        assert [(item.topic, item.channel, item.channel_id) for item in leaders.deleted] == [
            ("orders", "billing", CHANNEL_ID)
        ]

    play(scenario)


def test_workers_have_half_a_minute_to_come_to_a_broker_that_leads_another_partition_already() -> None:
    async def scenario(world: ChannelWorld) -> None:
        leaders = Leaders(world)
        await world.lead(1)
        world.put(channel(ephemeral=True, ack_wait_ms=1_000))
        await asyncio.sleep(100)
        await world.lead(0)
        await asyncio.sleep(29)
        assert leaders.deleted == []
        await asyncio.sleep(4)
        assert len(leaders.deleted) == 1

    play(scenario)


def test_a_channel_with_a_worker_anywhere_stays() -> None:
    async def scenario(world: ChannelWorld) -> None:
        leaders = Leaders(world)
        leaders.workers[OTHERS] = ["w1"]
        await world.lead()
        world.put(channel(ephemeral=True))
        await asyncio.sleep(120)
        assert leaders.deleted == []
        leaders.workers[OTHERS] = []
        working = asyncio.create_task(world.values(max_wait_ms=60_000))
        await asyncio.sleep(60)
        assert leaders.deleted == []
        await working
        await asyncio.sleep(60)
        assert len(leaders.deleted) == 1

    play(scenario)


def test_a_fail_over_of_another_partition_begins_the_wait_anew() -> None:
    async def scenario(world: ChannelWorld) -> None:
        leaders = Leaders(world)
        await world.lead()
        world.put(channel(ephemeral=True))
        for epoch in range(2, 14):
            await asyncio.sleep(9)
            leaders.epochs[OTHERS] = epoch
        assert leaders.deleted == []

    play(scenario)


def test_who_does_not_answer_may_have_workers() -> None:
    async def scenario(world: ChannelWorld) -> None:
        leaders = Leaders(world)
        del world.transport.answers[methods.DESCRIBE_CHANNEL.name]
        await world.lead()
        world.put(channel(ephemeral=True))
        await asyncio.sleep(200)
        assert leaders.deleted == []

    play(scenario)


def test_only_the_leader_of_partition_0_watches_and_only_ephemeral_ones() -> None:
    async def scenario(world: ChannelWorld) -> None:
        leaders = Leaders(world)
        await world.lead(1)
        world.put(channel(ephemeral=True))
        await world.lead(0)
        world.delete(channel())
        world.put(channel(channel_id="e" * 32))
        await asyncio.sleep(200)
        assert leaders.deleted == []
        assert world.transport.asked == []

    play(scenario)


def test_a_channel_is_deleted_also_when_its_leadership_was_lost_and_came_back() -> None:
    async def scenario(world: ChannelWorld) -> None:
        leaders = Leaders(world)
        await world.lead()
        world.put(channel(ephemeral=True))
        await asyncio.sleep(10)
        world.stop_leading()
        await world.lead(epoch=2)
        await asyncio.sleep(60)
        assert len(leaders.deleted) == 1

    play(scenario)


def test_a_worker_that_came_and_left_begins_the_wait_anew() -> None:
    async def scenario(world: ChannelWorld) -> None:
        leaders = Leaders(world)
        await world.lead()
        world.put(channel(ephemeral=True))
        await asyncio.sleep(31)
        assert len(world.transport.asked) == 2, "the first question was asked"
        await asyncio.sleep(8)
        await world.values(max_wait_ms=100)
        await world.settle("w1", leaves=True)
        await asyncio.sleep(10)
        assert leaders.deleted == []
        await asyncio.sleep(30)
        assert len(leaders.deleted) == 1

    play(scenario)


def test_a_deletion_that_fails_is_tried_again() -> None:
    async def scenario(world: ChannelWorld) -> None:
        leaders = Leaders(world)
        refusals: list[errors.OncelogError] = [errors.ClusterAuthorizationError(), errors.NotControllerError()]

        def delete(address: str, request: pb.DeleteChannelRequest) -> Any:
            if refusals:
                raise refusals.pop()
            return leaders._delete(address, request)

        world.transport.answers[methods.DELETE_CHANNEL.name] = delete
        await world.lead()
        world.put(channel(ephemeral=True))
        await asyncio.sleep(90)
        assert len(leaders.deleted) == 1

    play(scenario)
