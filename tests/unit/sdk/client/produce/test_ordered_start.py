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
