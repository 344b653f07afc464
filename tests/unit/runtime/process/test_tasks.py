"""Tasks with an owner: each ends with it, and a failure is told to it."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.sim import SimLoop


async def fail(after_s: float = 0.0) -> None:
    await asyncio.sleep(after_s)
    raise ValueError("a bug")


def test_an_owner_hears_of_a_failure_and_of_no_cancellation() -> None:
    heard: list[BaseException] = []

    async def scenario() -> None:
        owner = TaskOwner(heard.append)
        await asyncio.wait([owner.spawn(fail(), "broken"), owner.spawn(asyncio.sleep(1), "fine")])
        owner.spawn(asyncio.sleep(9), "cancelled").cancel()
        await asyncio.sleep(0)
        await owner.stop()

    with SimLoop() as loop:  # type: ignore[abstract]
        loop.run(scenario())
    assert [str(error) for error in heard] == ["a bug"]


def test_stop_ends_every_task_and_waits_for_their_ends() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1)
            ended.append(name)

    async def scenario() -> None:
        owner = TaskOwner(lambda error: pytest.fail(str(error)))
        tasks = [owner.spawn(work(name), name) for name in "ab"]
        await asyncio.sleep(0)
        await owner.stop()
        assert sorted(ended) == ["a", "b"]
        assert [task.get_name() for task in tasks] == ["a", "b"]
        await owner.stop()

    with SimLoop() as loop:  # type: ignore[abstract]
        loop.run(scenario())


def test_a_failure_while_it_stops_is_told_too() -> None:
    heard: list[BaseException] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await fail(1)

    async def scenario() -> None:
        owner = TaskOwner(heard.append)
        owner.spawn(stubborn(), "stubborn")
        await asyncio.sleep(0)
        await owner.stop()

    with SimLoop() as loop:  # type: ignore[abstract]
        loop.run(scenario())
    assert [str(error) for error in heard] == ["a bug"]
