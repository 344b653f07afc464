"""What one request holds of the memory for answers: taken before it is used, in turn, and given back once."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.errors import ResourceExhaustedError
from oncelog_runtime.core.budget import Budget
from oncelog_runtime.serving.admission import ADMISSION, Admission
from oncelog_runtime.sim import SimLoop


@pytest.fixture
def budget() -> Budget:
    return Budget("connection", 100)


def test_nothing_depends_on_an_admission_being_set() -> None:
    assert ADMISSION.get() is None


def test_a_refused_request_holds_what_it_held(budget: Budget) -> None:
    admission = Admission(budget)
    admission.take(60)
    assert admission.available_bytes == 40
    with pytest.raises(ResourceExhaustedError):
        admission.take(41)
    assert (admission.held_bytes, budget.taken_bytes) == (60, 60)


def test_what_is_not_needed_goes_back_and_the_rest_goes_once(budget: Budget) -> None:
    admission = Admission(budget)
    admission.take(60)
    admission.keep(70)
    assert budget.taken_bytes == 60
    admission.keep(20)
    assert budget.taken_bytes == 20
    for _ in range(2):
        admission.close()
    assert (admission.held_bytes, budget.taken_bytes) == (0, 0)


def test_who_waits_gets_his_bytes_when_it_is_his_turn(budget: Budget) -> None:
    first, second = Admission(budget), Admission(budget)

    async def scenario(loop: SimLoop) -> None:
        await first.wait(80, 0)
        waiting = asyncio.create_task(second.wait(50, 1_000))
        await asyncio.sleep(0.5)
        assert second.held_bytes == 0
        first.close()
        await waiting
        assert (loop.now_ms(), second.held_bytes, budget.taken_bytes) == (500, 50, 50)

    with SimLoop() as loop:  # type: ignore[abstract]
        loop.run(scenario(loop))


def test_who_waits_too_long_is_refused_and_leaves_the_line(budget: Budget) -> None:
    first, second = Admission(budget), Admission(budget)

    async def scenario(loop: SimLoop) -> None:
        first.take(80)
        with pytest.raises(ResourceExhaustedError):
            await second.wait(50, 1_000)
        assert loop.now_ms() == 1_000
        assert (second.held_bytes, budget.taken_bytes) == (0, 80)
        first.close()
        assert budget.available_bytes == 100, "nobody stands in line any more"

    with SimLoop() as loop:  # type: ignore[abstract]
        loop.run(scenario(loop))


def test_a_cancelled_wait_takes_nothing_even_when_its_turn_had_come(budget: Budget) -> None:
    first, second = Admission(budget), Admission(budget)

    async def scenario() -> None:
        first.take(80)
        waiting = asyncio.create_task(second.wait(50, 1_000))
        await asyncio.sleep(0.1)
        first.close()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (second.held_bytes, budget.taken_bytes) == (0, 0)

    with SimLoop() as loop:  # type: ignore[abstract]
        loop.run(scenario())
