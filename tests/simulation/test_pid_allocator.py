"""Several instances of the producer id service on one faulty etcd: no id is ever handed out twice."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.errors import OncelogError
from oncelog.v1 import pid_allocator_pb2 as pb
from oncelog.wire import methods
from oncelog_pid_allocator.config import PidAllocatorConfig
from oncelog_pid_allocator.service import PidAllocator
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.sim.fault_driver import FaultDriver
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.world import SimWorld

INSTANCES = 3
REQUESTS = 60


async def _main(ports: NodePorts) -> None:
    allocator = PidAllocator(PidAllocatorConfig(wait_for_block_ms=500), ports)
    await allocator.start()
    while True:
        await asyncio.sleep(0.01)
        allocator.check()


async def _allocate(world: SimWorld, client: int, seen: list[int]) -> None:
    """A client that asks some instance again and again; a lost answer burns ids, it never repeats them."""
    random = world.random(f"client-{client}")
    transport = world.client(f"client-{client}")
    for _ in range(REQUESTS):
        address = f"allocator-{random.randrange(INSTANCES)}:9092"
        request = pb.AllocateProducerIdsRequest(count=random.choice([1, 7, 100, 950]))
        try:
            reply, _ = await methods.ALLOCATE_PRODUCER_IDS.call(transport, address, request, 1_000)
        except OncelogError:
            await asyncio.sleep(0.05)
            continue
        for item in reply.ranges:
            seen.extend(range(item.first, item.first + item.count))


@pytest.mark.parametrize("seed", range(12))
def test_no_id_is_handed_out_twice(seed: int) -> None:
    plan = FaultPlan.draw(SimWorld(seed).random("plan")).without("bit_flip_every_ms")
    with SimWorld(seed, plan) as world:
        for i in range(INSTANCES):
            world.node(f"allocator-{i}", _main)

        async def scenario() -> list[int]:
            seen: list[int] = []
            driver = FaultDriver(world, plan, world.random("faults"), max_down=2)
            driver.start()
            await asyncio.gather(*(_allocate(world, client, seen) for client in range(4)))
            await driver.stop()
            before = len(seen)
            await asyncio.sleep(3)
            await _allocate(world, 99, seen)
            assert len(seen) > before, "after healing, ids are handed out again"
            return seen

        seen = world.run(scenario())
    assert len(seen) == len(set(seen))
