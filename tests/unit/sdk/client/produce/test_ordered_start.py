"""Calls begin in the order of their numbers, whatever order their tasks run in."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from oncelog.client.produce.ordered_start import Turns
from oncelog_runtime.sim import SimLoop


@pytest.mark.parametrize("seed", range(20))
def test_calls_begin_in_their_turn_in_any_order_of_tasks(seed: int) -> None:
    begun: list[int] = []

    async def call(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0.01 * (10 - number))
        return number

    async def work() -> None:
        turns = Turns()
        numbers = [turns.draw() for _ in range(10)]
        tasks = [
            asyncio.get_running_loop().create_task(turns.run(n, partial(call, n))) for n in numbers if n not in (3, 7)
        ]
        tasks[5].cancel()
        for given_up in (3, 7, numbers.index(6)):
            turns.give_up(given_up)
        results: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
        assert [r for r in results if isinstance(r, int)] == [0, 1, 2, 4, 5, 8, 9]

    SimLoop(seed).run(work())
    assert begun == [0, 1, 2, 4, 5, 8, 9]


def test_whoever_gives_up_lets_the_next_one_begin_any_number_of_times() -> None:
    turns, begun = Turns(), []

    async def call(number: int) -> None:
        begun.append(number)

    async def work() -> None:
        first, second, third = (turns.draw() for _ in range(3))
        waiting = asyncio.ensure_future(turns.run(third, partial(call, third)))
        for number in (second, first, first, second):
            turns.give_up(number)
        await waiting
        turns.give_up(third)

    SimLoop(1).run(work())
    assert begun == [2]


def test_a_call_that_fails_at_once_keeps_no_other_from_beginning() -> None:
    turns = Turns()

    async def fails() -> None:
        raise ZeroDivisionError

    async def works() -> str:
        return "done"

    async def work() -> None:
        first, second = turns.draw(), turns.draw()
        waiting = asyncio.ensure_future(turns.run(second, works))
        with pytest.raises(ZeroDivisionError):
            await turns.run(first, fails)
        assert await waiting == "done"

    SimLoop(1).run(work())


def test_nobody_waits_for_the_result_of_another() -> None:
    turns, over = Turns(), asyncio.Event()

    async def slow() -> None:
        await over.wait()

    async def quick() -> None:
        over.set()

    async def work() -> None:
        first, second = turns.draw(), turns.draw()
        await asyncio.gather(turns.run(first, slow), turns.run(second, quick))

    SimLoop(1).run(work())
    assert over.is_set()


def test_a_call_that_is_cancelled_while_it_waits_hears_of_it() -> None:
    turns, told = Turns(), []

    async def call() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    async def work() -> None:
        running = asyncio.ensure_future(turns.run(turns.draw(), call))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled()

    SimLoop(1).run(work())
    assert told == ["cancelled"]
