"""Producer ids in stock: unique, prefetched, one request at a time, another allocator when one is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import Buffer
from oncelog.v1 import pid_allocator_pb2 as al
from oncelog.wire import methods
from oncelog_coordinator.shard.pid_pool import PidPool
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import Cluster, FakeTransport


class Place:
    """A pool and allocators that count."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.transport = FakeTransport()
        self.next_id = 100
        self.requests = 0
        self.running = 0
        self.fail: list[errors.OncelogError] = []
        self.pool = PidPool(self.transport, self.cluster.view, "me", prefetch=10)

    def allocator(self, address: str, *, serves: bool = True) -> None:
        self.cluster.put(f"{cluster_keys.ALLOCATORS}{address}", b"")
        if serves:
            self.transport.serve(address, methods.ALLOCATE_PRODUCER_IDS, self.allocate)

    async def allocate(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        self.requests += 1
        self.running += 1
        assert self.running == 1, "one request at a time"
        await asyncio.sleep(0.01)
        self.running -= 1
        if self.fail:
            raise self.fail.pop(0)
        first, half = self.next_id, request.count // 2
        self.next_id += 1_000
        ranges = [(first, half), (first + 500, request.count - half)]
        items = [al.ProducerIdRange(first=start, count=count) for start, count in ranges]
        return al.AllocateProducerIdsReply(ranges=items), b""


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(2) as one:
        yield one


def run(world: SimWorld, scenario: Callable[[Place], Awaitable[None]]) -> None:
    async def whole() -> None:
        place = Place()
        await scenario(place)
        await place.pool.close()

    world.run(whole())


def test_ids_are_given_once_whoever_asks(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.allocator("a:1")
        taken = await asyncio.gather(*(place.pool.take(1 + i % 2) for i in range(60)))
        ids = [one for batch in taken for one in batch]
        assert len(set(ids)) == len(ids) == 90
        assert place.requests <= 11

    run(world, scenario)


def test_the_stock_is_refilled_before_it_is_empty(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.allocator("a:1")
        place.pool.prefetch()
        await asyncio.sleep(0.1)
        for _ in range(6):
            await place.pool.take(1)
        await asyncio.sleep(0.1)
        assert place.requests == 2
        place.pool.prefetch()
        await asyncio.sleep(0.1)
        assert place.requests == 2

    run(world, scenario)


def test_another_allocator_serves_when_one_is_gone(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.allocator("a:1", serves=False)
        place.allocator("b:1")
        assert len(await place.pool.take(2)) == 2

    run(world, scenario)


@pytest.mark.case("A2")
def test_without_ids_the_answer_is_retriable_and_then_it_works(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        with pytest.raises(errors.CoordinatorLoadInProgressError):
            await place.pool.take(1)
        place.allocator("a:1")
        place.fail = [errors.RequestTimedOutError()]
        with pytest.raises(errors.CoordinatorLoadInProgressError):
            await place.pool.take(1)
        assert await place.pool.take(1)

    run(world, scenario)


def test_the_end_of_the_id_space_is_said_as_it_is(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.allocator("a:1")
        place.fail = [errors.IdSpaceExhaustedError()]
        with pytest.raises(errors.IdSpaceExhaustedError):
            await place.pool.take(1)

    run(world, scenario)
