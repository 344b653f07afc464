"""The producer id service on a simulated etcd: blocks are won before they are used, and a lost answer burns its block."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import pid_allocator_pb2 as pb
from oncelog.wire import methods
from oncelog_pid_allocator.config import PidAllocatorConfig
from oncelog_pid_allocator.core.blocks import BLOCK_SIZE, LIMIT, Block
from oncelog_pid_allocator.service import PidAllocator
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import CommitResult, Compare, Put
from oncelog_runtime.sim.world import SimWorld

KEY = cluster_keys.PRODUCER_ID_BLOCK_KEY
ADDRESS = "allocator-0:9092"


class Moody:
    """A metadata store that fails or loses answers when it is told to."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.offered: list[Block] = []
        self.refuse = False
        self.lose_answers = 0
        self.before_commit: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(
        self, compares: Sequence[Compare] = (), puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> CommitResult:
        offered = [Block.decode(put.value) for put in puts if put.key == KEY]
        self.offered += offered
        if offered and self.refuse:
            raise errors.MetadataUnavailableError("no etcd")
        if offered and self.before_commit is not None:
            before, self.before_commit = self.before_commit, None
            await before()
        result: CommitResult = await self._store.commit(compares, puts, deletes)
        if offered and self.lose_answers:
            self.lose_answers -= 1
            raise errors.MetadataUnavailableError("the answer is lost", unknown="true")
        return result


class Place:
    """One instance, its etcd, and a client."""

    def __init__(self, world: SimWorld, ports: NodePorts, number: int = 0) -> None:
        self.metadata = world.metadata_client()
        self.transport = world.client()
        self.etcd = Moody(ports.metadata)
        self.ports = replace(ports, metadata=self.etcd)
        self.service = PidAllocator(PidAllocatorConfig(wait_for_block_ms=300), self.ports)

    async def block(self) -> Block:
        found = await self.metadata.get(KEY)
        assert found is not None
        return Block.decode(found.value)

    async def set_block(self, start: int, end: int) -> None:
        await self.metadata.commit(puts=[Put(KEY, Block(start, end, "x").encode())])

    async def take(self, count: int) -> list[int]:
        ranges = await self.service.allocate(count)
        return [number for first, length in ranges for number in range(first, first + length)]


def run(scenario: Callable[[Place], Awaitable[None]], *, start: bool = True) -> None:
    with SimWorld(5) as world:
        node = world.node("allocator-0")

        async def main() -> None:
            place = Place(world, node.ports)
            if start:
                await place.service.start()
                await asyncio.sleep(0.5)
            await scenario(place)
            await place.service.stop(100)

        async def whole() -> None:
            await node.spawn(main())

        world.run(whole())


def test_the_first_block_is_won_before_anybody_asks() -> None:
    async def scenario(place: Place) -> None:
        block = await place.block()
        assert block.owner == ADDRESS
        assert await place.take(3) == [block.start, block.start + 1, block.start + 2]
        assert len(place.etcd.offered) == 1

    run(scenario)


def test_it_stands_in_the_list_of_instances_until_it_stops() -> None:
    async def scenario(place: Place) -> None:
        key = cluster_keys.ALLOCATORS + ADDRESS
        assert await place.metadata.get(key) is not None
        await place.service.stop(100)
        assert await place.metadata.get(key) is None

    run(scenario)


def test_ids_are_handed_out_over_the_wire_as_ranges() -> None:
    async def scenario(place: Place) -> None:
        request = pb.AllocateProducerIdsRequest(count=7)
        reply, _ = await methods.ALLOCATE_PRODUCER_IDS.call(place.transport, ADDRESS, request, 1_000)
        assert sum(item.count for item in reply.ranges) == 7
        for count in (0, BLOCK_SIZE + 1):
            request = pb.AllocateProducerIdsRequest(count=count)
            with pytest.raises(errors.InvalidRequestError):
                await methods.ALLOCATE_PRODUCER_IDS.call(place.transport, ADDRESS, request, 1_000)

    run(scenario)


def test_the_next_block_is_asked_for_once_when_ninety_percent_are_used() -> None:
    async def scenario(place: Place) -> None:
        await place.take(899)
        await asyncio.sleep(0.2)
        assert len(place.etcd.offered) == 1
        await asyncio.gather(*(place.take(1) for _ in range(5)))
        await asyncio.sleep(0.2)
        assert len(place.etcd.offered) == 2
        place.service.check()

    run(scenario)


def test_many_who_wait_share_what_comes() -> None:
    async def scenario(place: Place) -> None:
        taken = await asyncio.gather(*(place.take(400) for _ in range(7)))
        numbers = [number for part in taken for number in part]
        assert len(set(numbers)) == len(numbers) == 2_800
        assert len(place.etcd.offered) <= 4

    run(scenario)


def test_a_lost_answer_burns_its_block() -> None:
    async def scenario(place: Place) -> None:
        place.etcd.lose_answers = 1
        await place.take(950)
        await asyncio.sleep(0.5)
        _, burnt, used = place.etcd.offered
        assert used.start > burnt.end
        assert (await place.take(100))[50:] == list(range(used.start, used.start + 50))

    run(scenario)


def test_a_block_that_somebody_else_won_is_never_used() -> None:
    async def scenario(place: Place) -> None:
        theirs = 10**15

        async def win() -> None:
            await place.set_block(theirs, theirs + BLOCK_SIZE - 1)

        place.etcd.before_commit = win
        await place.take(950)
        await asyncio.sleep(0.5)
        assert (await place.take(100))[50] == theirs + BLOCK_SIZE

    run(scenario)


def test_without_etcd_callers_are_told_to_come_again_and_then_served() -> None:
    async def scenario(place: Place) -> None:
        place.etcd.refuse = True
        await place.take(BLOCK_SIZE - 10)
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(errors.CoordinatorLoadInProgressError) as refusal:
            await place.take(11)
        assert refusal.value.retriable
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(0.3, abs=0.01)
        place.etcd.refuse = False
        assert len(await place.take(11)) == 11

    run(scenario)


@pytest.mark.parametrize(
    ("start", "end", "error"),
    [(LIMIT - BLOCK_SIZE, LIMIT - 1, errors.IdSpaceExhaustedError), (5, 4, errors.AllocatorRolledBackError)],
)
def test_what_will_never_get_better_is_said_at_once_and_forgotten_when_it_is_repaired(
    start: int, end: int, error: type[errors.OncelogError]
) -> None:
    async def scenario(place: Place) -> None:
        sound = await place.block()
        await place.set_block(start, end)
        await place.take(BLOCK_SIZE - 10)
        await asyncio.sleep(0.5)
        with pytest.raises(error):
            await place.take(100)
        assert isinstance(place.service.fatal, error)
        assert len(await place.take(10)) == 10, "what was won before is still good"
        await place.set_block(sound.start, sound.end)
        await asyncio.sleep(0.5)
        assert place.service.fatal is None
        await place.take(100)

    run(scenario)


def test_a_scrape_tells_the_stock_and_how_much_of_the_space_is_used() -> None:
    async def scenario(place: Place) -> None:
        await place.take(10)
        found = {
            family.metric.name: value
            for family in place.ports.metrics.families()
            if family is not None
            for _, value in family.rows
        }
        assert found["oncelog_pid_allocations_total"] == 10
        assert found["oncelog_producer_ids_in_stock"] == BLOCK_SIZE - 10
        assert found["oncelog_producer_id_space_used_ratio"] == ((await place.block()).end + 1) / LIMIT

    run(scenario)


def test_a_stop_before_the_start_is_no_fault() -> None:
    async def scenario(place: Place) -> None:
        assert place.service.fatal is None

    run(scenario, start=False)
