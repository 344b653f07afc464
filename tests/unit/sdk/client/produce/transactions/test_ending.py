"""The end of a transaction runs once, whoever waits for it, and is given up only when nobody can wait for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oncelog import errors
from oncelog.client.produce.transactions.ending import Ending
from tests.unit.sdk.client.fake_cluster import FakeCluster

PATIENCE_MS = 1_000
CUT_SHORT = errors.IllegalStateError("cut short")


class End:
    """The work of an end: it takes some time, and notes how often it began and how it ended."""

    def __init__(self, after_ms: int, error: Exception | None = None) -> None:
        self.begun = 0
        self.ended = ""
        self._after_ms = after_ms
        self._error = error

    async def __call__(self) -> None:
        self.begun += 1
        try:
            await asyncio.sleep(self._after_ms / 1000)
        except asyncio.CancelledError:
            self.ended = "given up"
            raise
        self.ended = "done"
        if self._error is not None:
            raise self._error


def run(work: Callable[[Ending], Awaitable[None]]) -> None:
    async def whole(_: FakeCluster) -> None:
        await work(Ending(PATIENCE_MS, lambda: CUT_SHORT))

    FakeCluster().run(whole)


async def after(ms: int) -> None:
    await asyncio.sleep(ms / 1000)


def test_all_who_ask_wait_for_the_same_end() -> None:
    async def work(ending: Ending) -> None:
        end = End(50)
        first = asyncio.create_task(ending.run(end))
        await after(10)
        second = asyncio.create_task(ending.run(end))
        assert [await first, await second] == [True, False]
        assert (end.begun, end.ended) == (1, "done")

    run(work)


def test_its_error_is_raised_for_all_and_it_may_be_asked_for_again() -> None:
    async def work(ending: Ending) -> None:
        lost = errors.NetworkError("lost")
        callers = [asyncio.create_task(ending.run(End(50, lost)))]
        await after(10)
        callers.append(asyncio.create_task(ending.run(End(50, lost))))
        assert await asyncio.gather(*callers, return_exceptions=True) == [lost, lost]
        assert await ending.run(End(10))

    run(work)


def test_a_cancelled_caller_waits_for_an_end_that_comes_soon() -> None:
    async def work(ending: Ending) -> None:
        end = End(500)
        caller = asyncio.create_task(ending.run(end))
        await after(10)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert end.ended == "done"

    run(work)


@pytest.mark.parametrize("is_alone", [True, False])
def test_an_end_that_takes_too_long_for_a_cancelled_caller_is_given_up_when_no_other_one_waits(is_alone: bool) -> None:
    async def work(ending: Ending) -> None:
        end = End(5_000)
        caller = asyncio.create_task(ending.run(end))
        await after(10)
        others = [] if is_alone else [asyncio.create_task(ending.run(end))]
        await after(10)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await after(10)
        assert end.ended == ("given up" if is_alone else "")
        assert await asyncio.gather(*others) == [False] * len(others)
        assert await ending.run(End(10)), "it may be asked for again"

    run(work)


@pytest.mark.parametrize("timeout_ms", [0, 100, 1_000])
def test_a_close_gives_up_what_takes_longer_than_its_patience(timeout_ms: int) -> None:
    async def work(ending: Ending) -> None:
        end = End(500)
        caller = asyncio.create_task(ending.run(end))
        await after(10)
        await ending.leave(timeout_ms)
        if timeout_ms > 500:
            assert await caller
            return
        with pytest.raises(errors.IllegalStateError, match="cut short"):
            await caller
        assert end.ended == "given up"

    run(work)


def test_there_is_nothing_to_wait_for_before_an_end_began() -> None:
    async def work(ending: Ending) -> None:
        await ending.leave(1_000)
        assert ending.start(End(10))
        assert not ending.start(End(10))
        await ending.leave(1_000)

    run(work)
