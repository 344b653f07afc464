"""The contract of `oncelog_runtime.ports.Threads`, for real threads and for those of the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from oncelog_runtime.adapters.loop_threads import LoopThreads
from oncelog_runtime.ports import Threads
from oncelog_runtime.sim.threads import SimThreads
from tests.contracts.conftest import RealRunner, SimRunner


class Bench(NamedTuple):
    """Threads, and the loop to use them on."""

    threads: Threads
    runner: RealRunner | SimRunner


@pytest.fixture(params=["threads", "sim"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "threads":
        yield Bench(LoopThreads(), RealRunner())
        return
    sim = SimRunner()
    yield Bench(SimThreads(Random(1)), sim)
    sim.world.close()


def test_work_gives_back_what_it_returns_and_raises_what_it_raises(bench: Bench) -> None:
    async def test() -> None:
        assert await bench.threads.run(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await bench.threads.run(lambda: 1 // 0)

    bench.runner.run(test())


def test_others_run_meanwhile(bench: Bench) -> None:
    async def test() -> None:
        working = asyncio.ensure_future(bench.threads.run(lambda: 7))
        await asyncio.sleep(0)
        assert not working.done(), "work on the loop would be over"
        assert await working == 7

    bench.runner.run(test())
