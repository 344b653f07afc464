"""A new topic is waited for as a courtesy: bounded, and a broker that does not answer is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog.errors import NotLeaderError, RequestTimedOutError
from oncelog.types import Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.rpc.topic_readiness import wait_until_known, wait_until_usable
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import P0, P1, TOPIC_ID, Place


class Brokers:
    """Three brokers that know the topic and serve what they lead, unless something is said of them."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.ignorant: set[int] = set()
        self.not_leading: set[int] = set()
        self.silent: set[int] = set()
        self.revision = 100
        self.listed: list[tuple[int, list[int]]] = []
        for broker_id in range(3):
            address = f"broker-{broker_id}:9092"
            place.transport.serve(address, methods.GET_METADATA, self._metadata(broker_id))
            place.transport.serve(address, methods.LIST_OFFSETS, self._offsets(broker_id))

    def _metadata(self, broker_id: int) -> Any:
        async def metadata(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            if broker_id in self.silent:
                raise RequestTimedOutError()
            reply = pb.GetMetadataReply(revision=1 if broker_id in self.ignorant else self.revision)
            for name in request.topics:
                reply.topics.add(name=name, topic_id="" if broker_id in self.ignorant else TOPIC_ID)
            return reply, b""

        return metadata

    def _offsets(self, broker_id: int) -> Any:
        async def offsets(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            self.listed.append((broker_id, [item.partition for item in request.partitions]))
            reply = pb.ListOffsetsReply()
            for item in request.partitions:
                answer = reply.partitions.add(partition=item.partition)
                if broker_id in self.not_leading:
                    answer.error.CopyFrom(to_detail(NotLeaderError()))
            return reply, b""

        return offsets

    async def usable(self) -> None:
        await wait_until_usable(self.place.view, self.place.transport, self.place.view.topic("t"))


async def took_s(work: Awaitable[None]) -> float:
    began_s = asyncio.get_running_loop().time()
    await work
    return asyncio.get_running_loop().time() - began_s


def run(scenario: Callable[[Brokers], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await place.topic(partitions=2)
        await place.lead(P0, leader=0)
        await place.lead(P1, leader=1)
        await scenario(Brokers(place))

    cluster_place.run(whole)


def test_it_returns_when_every_leader_serves_and_every_broker_knows_the_name() -> None:
    async def scenario(brokers: Brokers) -> None:
        assert await took_s(brokers.usable()) < 0.1
        assert sorted(brokers.listed) == [(0, [0]), (1, [1]), (2, [])]

    run(scenario)


@pytest.mark.parametrize("trouble", ["ignorant", "not_leading", "silent"])
def test_a_broker_that_is_not_ready_is_asked_again(trouble: str) -> None:
    async def scenario(brokers: Brokers) -> None:
        getattr(brokers, trouble).add(1)
        waiting = asyncio.ensure_future(took_s(brokers.usable()))
        await asyncio.sleep(1)
        assert not waiting.done()
        getattr(brokers, trouble).clear()
        assert 1 <= await waiting < 1.2

    run(scenario)


def test_it_is_a_courtesy_of_two_seconds() -> None:
    async def scenario(brokers: Brokers) -> None:
        brokers.silent.add(1)
        assert await took_s(brokers.usable()) == pytest.approx(2, abs=0.01)

    run(scenario)


def test_a_broker_that_leaves_is_waited_for_no_longer() -> None:
    async def scenario(brokers: Brokers) -> None:
        brokers.silent.add(2)
        waiting = asyncio.ensure_future(took_s(brokers.usable()))
        await asyncio.sleep(0.5)
        await brokers.place.leave(2)
        assert await waiting < 1

    run(scenario)


def test_a_partition_that_lost_its_leader_again_is_not_waited_for() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.place.lead(P1, leader=None)
        assert await took_s(brokers.usable()) < 0.1

    run(scenario)


def test_a_change_is_known_when_every_broker_has_its_revision() -> None:
    async def scenario(brokers: Brokers) -> None:
        known = wait_until_known(brokers.place.view, brokers.place.transport, 100)
        assert await took_s(known) < 0.1
        brokers.ignorant.add(2)
        assert await took_s(wait_until_known(brokers.place.view, brokers.place.transport, 100)) > 1.9

    run(scenario)


def test_who_gives_up_waiting_leaves_nothing_running() -> None:
    async def scenario(brokers: Brokers) -> None:
        brokers.silent.add(1)
        waiting = asyncio.ensure_future(brokers.usable())
        await asyncio.sleep(0.5)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        calls = len(brokers.place.transport.calls)
        await asyncio.sleep(1)
        assert len(brokers.place.transport.calls) == calls

    run(scenario)
