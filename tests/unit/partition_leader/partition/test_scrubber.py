"""Every log is read again, slowly, and rot that is met fails its log alone (S32)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

from oncelog.errors import StorageError
from oncelog.types import PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.partition.scrubber import Scrubber
from oncelog_runtime.sim.world import SimWorld

PIECE_BYTES = 1_000


class Log:
    """Pieces, of which one may be rotten."""

    def __init__(self, seen: list[int], number: int, pieces: int, rotten: bool) -> None:
        self._seen = seen
        self._number = number
        self._pieces = pieces
        self._rotten = rotten
        self.failed: StorageError | None = None

    async def scrub(self) -> AsyncIterator[int]:
        self._seen.append(self._number)
        for _ in range(self._pieces):
            yield PIECE_BYTES
        if self._rotten:
            self.failed = StorageError("rot", reason="rot")
            raise self.failed


class Partition:
    """What a scrubber needs of a replica."""

    topic = "t"

    def __init__(self, seen: list[int], number: int, pieces: int = 2, *, rotten: bool = False) -> None:
        self.id = PartitionId("a" * 32, number)
        self.log = Log(seen, number, pieces, rotten)
        self.failed: StorageError | None = None

    def fail(self, error: StorageError) -> None:
        self.failed = error


class Place:
    """A scrubber and its partitions; `seen` says which logs were read, in order."""

    def __init__(self, world: SimWorld, seed: int = 0, **config: int) -> None:
        self.seen: list[int] = []
        self.partitions: dict[PartitionId, Any] = {}
        settings = {"scrub_bytes_per_s": 1_000, "scrub_interval_ms": 60_000, **config}
        clock = world.node("b").clock
        self.scrubber = Scrubber(BrokerConfig(node_id=1, **settings), clock, Random(seed), self.partitions)  # type: ignore[arg-type]

    def add(self, *partitions: Partition) -> None:
        self.partitions.update({partition.id: partition for partition in partitions})


def run(scenario: Callable[[Place], Awaitable[None]], **options: Any) -> None:
    with SimWorld(1) as world:
        place = Place(world, **options)

        async def whole() -> None:
            task = asyncio.ensure_future(place.scrubber.run())
            await scenario(place)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        world.run(whole())


def test_it_reads_no_faster_than_it_may() -> None:
    async def scenario(place: Place) -> None:
        place.add(*(Partition(place.seen, number) for number in range(3)))
        await asyncio.sleep(3.5)
        assert place.scrubber.bytes_read == 4 * PIECE_BYTES
        await asyncio.sleep(3)
        assert (place.scrubber.bytes_read, place.scrubber.passes) == (6 * PIECE_BYTES, 1)

    run(scenario)


def test_a_pass_begins_at_most_once_an_interval() -> None:
    async def scenario(place: Place) -> None:
        place.add(Partition(place.seen, 0))
        await asyncio.sleep(59)
        assert place.scrubber.passes == 1
        await asyncio.sleep(10)
        assert place.scrubber.passes == 2

    run(scenario)


def test_a_pass_that_takes_longer_than_the_interval_is_followed_by_a_pause() -> None:
    async def scenario(place: Place) -> None:
        place.add(Partition(place.seen, 0, pieces=10))
        await asyncio.sleep(10.5)
        assert len(place.seen) == 1
        await asyncio.sleep(1)
        assert len(place.seen) == 2

    run(scenario, scrub_interval_ms=1_000)


def test_passes_begin_at_random_logs_and_read_each_once() -> None:
    firsts = set()
    for seed in range(8):

        async def scenario(place: Place) -> None:
            place.add(*(Partition(place.seen, number, pieces=0) for number in range(4)))
            await asyncio.sleep(1)
            assert sorted(place.seen) == [0, 1, 2, 3]
            firsts.add(place.seen[0])

        run(scenario, seed=seed)
    assert len(firsts) > 1


def test_rot_fails_its_log_and_the_pass_goes_on() -> None:
    async def scenario(place: Place) -> None:
        place.add(Partition(place.seen, 0, rotten=True), Partition(place.seen, 1))
        await asyncio.sleep(20)
        assert sorted(place.seen) == [0, 1]
        rotten, sound = place.partitions.values()
        assert (rotten.failed, sound.failed) == (rotten.log.failed, None)
        await asyncio.sleep(60)
        assert place.seen.count(0) == 1, "a failed log is not read again"
        assert place.seen.count(1) == 2

    run(scenario)


def test_it_can_be_switched_off() -> None:
    async def scenario(place: Place) -> None:
        place.add(Partition(place.seen, 0))
        await asyncio.sleep(100)
        assert place.seen == []

    run(scenario, scrub_bytes_per_s=0)
