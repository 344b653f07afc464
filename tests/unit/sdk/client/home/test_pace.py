"""How many records come without a poll, and how often the event loop gets its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from oncelog.client.home.pace import Pace
from tests.unit.sdk.client.virtual_loop import VirtualLoop


def run(work: Callable[[VirtualLoop], Coroutine[object, None, None]]) -> None:
    loop = VirtualLoop()
    loop.run(work(loop))


async def turns_of(pace: Pace) -> int:
    """How often others run while the pace gives the loop its turn."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(other())
    await pace.give_turn()
    task.cancel()
    return turns


def test_so_many_records_come_between_two_polls() -> None:
    async def work(_: VirtualLoop) -> None:
        pace = Pace(4)
        assert not pace.may_go_on()  # nothing was polled yet
        await pace.give_turn()
        for _poll in range(2):
            pace.polled()
            assert [pace.may_go_on() for _record in range(5)] == [True, True, True, False, False]

    run(work)


def test_ten_milliseconds_of_work_end_what_comes_without_a_poll() -> None:
    async def work(loop: VirtualLoop) -> None:
        pace = Pace(500)
        await pace.give_turn()
        pace.polled()
        loop.block(9)
        assert pace.may_go_on()
        loop.block(2)
        assert not pace.may_go_on()
        await pace.give_turn()
        assert pace.may_go_on()

    run(work)


@pytest.mark.parametrize(("work_ms", "turns"), [(0, 0), (9, 0), (11, 1), (35, 3), (60_000, 10)])
def test_the_loop_gets_more_turns_after_longer_work(work_ms: int, turns: int) -> None:
    async def work(loop: VirtualLoop) -> None:
        pace = Pace()
        pace.had_turn()
        loop.block(work_ms)
        found = await turns_of(pace)
        assert turns <= found <= turns + 1
        assert await turns_of(pace) == 0

    run(work)
