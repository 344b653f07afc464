"""The simulated event loop: determinism, virtual time, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog_runtime.sim import SimLoop, SimStuckError, SimTaskError

SCENARIO = Path(__file__).with_name("scenario.py")


def digest_in_a_new_process(seed: int, hash_seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, str(SCENARIO), str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_the_same_seed_gives_the_same_run_in_every_process() -> None:
    digests = {digest_in_a_new_process(7, hash_seed) for hash_seed in (0, 1, 2, 3)}
    assert len(digests) == 1
    assert digest_in_a_new_process(8, 0) not in digests


def test_another_seed_gives_another_order() -> None:
    def order(seed: int) -> tuple[int, ...]:
        seen: list[int] = []

        async def one(i: int) -> None:
            seen.append(i)

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                for i in range(6):
                    group.create_task(one(i))

        SimLoop(seed).run(main())
        return tuple(seen)

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(20)}) > 10


def test_time_is_virtual_and_jumps() -> None:
    async def main() -> list[str]:
        seen = []

        async def sleeper(seconds: float, name: str) -> None:
            await asyncio.sleep(seconds)
            seen.append(name)

        await asyncio.gather(sleeper(3600, "hour"), sleeper(60, "minute"), sleeper(86400, "day"))
        return seen

    loop = SimLoop()
    assert loop.run(main()) == ["minute", "hour", "day"]
    assert loop.now_ms() == 86_400_000


def test_asyncios_own_tools_work() -> None:
    async def main() -> int:
        queue: asyncio.Queue[int] = asyncio.Queue(2)
        lock, condition, total = asyncio.Lock(), asyncio.Condition(), 0

        async def produce() -> None:
            for i in range(10):
                await queue.put(i)

        async def consume() -> None:
            nonlocal total
            for _ in range(10):
                item = await queue.get()
                async with lock:
                    total += item
            async with condition:
                condition.notify_all()

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
            async with condition:
                await condition.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        return total

    assert SimLoop().run(main()) == 45


def test_run_for_and_run_until() -> None:
    loop, ticks = SimLoop(), []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(loop.now_ms())

    loop.create_task(tick())
    loop.run_for(2_500)
    assert ticks == [1_000, 2_000]
    assert loop.now_ms() == 2_500
    loop.run_until(lambda: len(ticks) == 5, within_ms=10_000)
    assert loop.now_ms() == 5_000
    with pytest.raises(TimeoutError):
        loop.run_until(lambda: len(ticks) == 50, within_ms=3_000)


def test_waiting_for_nothing_is_an_error() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(SimStuckError):
        SimLoop().run(main())


def test_an_exception_that_nobody_takes_fails_the_run() -> None:
    kept = []

    async def bad() -> None:
        raise ValueError("lost")

    async def main(keep: bool) -> None:
        task = asyncio.create_task(bad())
        if keep:
            kept.append(task)
        await asyncio.sleep(1)

    for keep in (True, False):
        with pytest.raises(SimTaskError, match="lost"):
            SimLoop().run(main(keep))


def test_a_step_hook_sees_every_step_and_ends_the_run() -> None:
    loop, calls = SimLoop(), []

    def hook() -> None:
        calls.append(loop.now_ms())
        assert loop.now_ms() < 5_000, "an invariant"

    loop.add_step_hook(hook)
    with pytest.raises(AssertionError, match="an invariant"):
        loop.run(asyncio.sleep(10))
    assert len(calls) == loop.steps


def test_threads_sockets_and_signals_fail_loudly() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for use in (
            lambda: loop.run_in_executor(None, print),
            lambda: loop.call_soon_threadsafe(print),
            lambda: loop.add_signal_handler(15, print),
        ):
            with pytest.raises(NotImplementedError):
                use()

    SimLoop().run(main())


def test_it_is_fast() -> None:
    """A loose bound: a regression by a factor of five is a bug. (On a quiet machine it is over 200,000 a second.)"""
    import time

    async def main() -> None:
        async def spin() -> None:
            for _ in range(2_000):
                await asyncio.sleep(0.001)

        await asyncio.gather(*(spin() for _ in range(10)))

    loop, began = SimLoop(), time.thread_time()
    loop.run(main())
    assert loop.steps / (time.thread_time() - began) > 30_000
