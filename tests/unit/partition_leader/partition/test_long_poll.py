"""A fetch that waits is woken by the partitions that moved, and looks at those alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oncelog_partition_leader.partition.long_poll import Ear, LongPoll
from oncelog_runtime.sim.world import SimWorld


class Partition:
    """Tells whoever listens, once."""

    def __init__(self) -> None:
        self.ears: dict[Ear, None] = {}
        self.watched = 0

    def watch(self, ear: Ear) -> None:
        self.watched += 1
        self.ears[ear] = None

    def unwatch(self, ear: Ear) -> None:
        self.ears.pop(ear, None)

    def move(self) -> None:
        ears, self.ears = self.ears, {}
        for ear in ears:
            ear.wake()


def run(scenario: Callable[[list[Partition], LongPoll], Awaitable[None]]) -> None:
    async def whole() -> None:
        partitions = [Partition() for _ in range(3)]
        await scenario(partitions, LongPoll([partitions[0], None, *partitions[1:]]))

    with SimWorld(1) as world:
        world.run(whole())


def test_it_listens_from_its_beginning_so_that_nothing_is_missed() -> None:
    async def scenario(partitions: list[Partition], poll: LongPoll) -> None:
        partitions[0].move()
        assert await poll.wait(1_000) == [0]

    run(scenario)


def test_who_moved_is_told_by_number_and_the_others_are_not_looked_at() -> None:
    async def scenario(partitions: list[Partition], poll: LongPoll) -> None:
        waiting = asyncio.ensure_future(poll.wait(1_000))
        await asyncio.sleep(0.01)
        partitions[1].move()
        partitions[2].move()
        assert await waiting == [2, 3], "a partition that is not here has a number too"
        assert [partition.watched for partition in partitions] == [1, 2, 2]

    run(scenario)


def test_nobody_moved_in_time() -> None:
    async def scenario(_partitions: list[Partition], poll: LongPoll) -> None:
        began_s = asyncio.get_running_loop().time()
        assert await poll.wait(500) == []
        assert asyncio.get_running_loop().time() - began_s == 0.5
        assert await poll.wait(-1) == []

    run(scenario)


def test_a_partition_that_moves_again_wakes_again() -> None:
    async def scenario(partitions: list[Partition], poll: LongPoll) -> None:
        for _ in range(3):
            partitions[0].move()
            partitions[0].move()
            assert await poll.wait(1_000) == [0]
        assert await poll.wait(10) == []

    run(scenario)


def test_after_its_end_nobody_is_listened_to() -> None:
    async def scenario(partitions: list[Partition], poll: LongPoll) -> None:
        poll.close()
        assert not any(partition.ears for partition in partitions)

    run(scenario)
