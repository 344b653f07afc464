"""A loop hands out what was not done, from where the database says, and passes over nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.once.refusals import LeaseHeldError
from oncelog.errors import ConfigError, IllegalStateError
from oncelog.types import TopicPartition
from tests.contracts.once_world import World, record, sqlite_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A file of SQLite."""
    made = sqlite_world(tmp_path)
    yield made
    made.close()


class Log:
    """A consumer of one partition that reads these offsets; at their end it stops."""

    def __init__(self, offsets: range, start: int = 0) -> None:
        self._offsets = offsets
        self.at = start
        self.sought: list[int] = []

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("orders", 0)]

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        assert partition == ("orders", 0)
        self.sought.append(offset)
        self.at = offset if offset <= self._offsets[-1] + 1 else self._offsets[0]  # auto_offset_reset

    def __iter__(self) -> Iterator[ConsumerRecord[Any, Any]]:
        while following := [offset for offset in self._offsets if offset >= self.at]:
            self.at = following[0] + 1
            yield record(following[0])


class AsyncLog(Log):
    """The same for an event loop."""

    __iter__ = None  # type: ignore[assignment]

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[Any, Any]]:
        for each in Log.__iter__(self):
            yield each


def do(world: World, log: Log) -> list[int]:
    """The offsets whose work was done."""
    done = []
    for work in world.worker().each(log):
        with work:
            world.effect(work, work.record.offset)
        done.append(work.record.offset)
    return done


def test_each_record_is_done_once_by_however_many_loops(world: World) -> None:
    assert do(world, Log(range(5))) == [0, 1, 2, 3, 4]
    assert do(world, Log(range(8))) == [5, 6, 7]
    assert world.effects() == [*range(8)]


def test_a_consumer_that_starts_too_late_is_led_back(world: World) -> None:
    assert do(world, Log(range(3))) == [0, 1, 2]
    late = Log(range(9), start=6)
    assert do(world, late) == [3, 4, 5, 6, 7, 8]
    assert late.sought == [3]


def test_a_consumer_that_starts_too_early_is_led_forward(world: World) -> None:
    do(world, Log(range(50)))
    early = Log(range(52))
    assert do(world, early) == [50, 51]
    assert early.sought == [50]


def test_each_gap_is_looked_back_at_once(world: World) -> None:
    gaps = Log(range(0, 20, 3))
    assert do(world, gaps) == [*range(0, 20, 3)]
    assert gaps.sought == [1, 4, 7, 10, 13, 16]


def test_a_topic_that_was_created_again_is_not_passed_over(world: World) -> None:
    do(world, Log(range(50)))
    with pytest.raises(IllegalStateError, match=r"once\.forget\('orders'\)"):
        do(world, Log(range(5)))
    world.worker().forget("orders")
    assert do(world, Log(range(5))) == [*range(5)]


def test_a_work_that_is_not_entered_is_told(world: World) -> None:
    works = world.worker().each(Log(range(5)))
    next(works)
    with pytest.raises(IllegalStateError, match="enter each work"):
        next(works)
    assert do(world, Log(range(1))) == [0], "its lease was given back"


def test_a_loop_that_is_left_gives_its_lease_back(world: World) -> None:
    for _ in (works := world.worker().each(Log(range(5)))):
        with pytest.raises(LeaseHeldError):
            do(world, Log(range(1)))
        break
    works.close()  # type: ignore[attr-defined]
    assert do(world, Log(range(1))) == [0]


def test_a_record_whose_error_was_caught_within_the_loop_comes_again(world: World) -> None:
    tried = []
    for work in world.worker().each(Log(range(3))):
        tried.append(work.record.offset)
        with contextlib.suppress(ZeroDivisionError), work:
            world.effect(work, work.record.offset)
            if tried == [0, 1]:
                raise ZeroDivisionError
    assert tried == [0, 1, 1, 2]
    assert world.effects() == [0, 1, 2]


def test_the_same_in_an_event_loop(world: World) -> None:
    async def work_all(log: AsyncLog) -> list[int]:
        done = []
        async for work in world.worker().each(log):
            async with work:
                world.effect(work, work.record.offset)
            done.append(work.record.offset)
        return done

    assert asyncio.run(work_all(AsyncLog(range(3)))) == [0, 1, 2]
    assert asyncio.run(work_all(AsyncLog(range(5), start=4))) == [3, 4]


def test_an_unentered_work_is_told_in_an_event_loop_too(world: World) -> None:
    async def pass_over() -> None:
        async for _ in world.worker().each(AsyncLog(range(3))):
            pass

    with pytest.raises(IllegalStateError, match="enter each work"):
        asyncio.run(pass_over())


def test_a_last_record_whose_error_left_the_loop_comes_again_in_the_next_loop(world: World) -> None:
    """Regression: the consumer stood behind it, and nothing came that would have led it back."""
    log = Log(range(3))

    def fail_at_last() -> None:
        for work in world.worker().each(log):
            with work:
                world.effect(work, work.record.offset // (2 - work.record.offset))

    with pytest.raises(ZeroDivisionError):
        fail_at_last()
    assert log.at == 2
    assert do(world, log) == [2]


def test_a_record_without_its_id_comes_again_in_the_next_loop(world: World) -> None:
    """Regression: where nothing of the partition was done yet, the next loop began behind it."""
    once, log = world.worker(id_header="event-id"), Log(range(3))
    for _ in range(2):
        with pytest.raises(ConfigError, match="no header event-id") as raised:
            next(iter(once.each(log)))
        assert raised.value.context["offset"] == "0"

    async def twice(log: AsyncLog) -> None:
        for _ in range(2):
            with pytest.raises(ConfigError, match="no header event-id") as raised:
                await anext(once.each(log))
            assert raised.value.context["offset"] == "0"

    asyncio.run(twice(AsyncLog(range(3))))


def test_a_loop_that_is_closed_late_undoes_nothing_of_another_work(world: World) -> None:
    """Regression: giving back the lease of a work that was not entered rolled back whatever was open."""
    once = world.worker()
    works = once.each(Log(range(5)))
    next(works)
    with once(record(0, partition=1)) as other:
        world.effect(other, 7)
        works.close()  # type: ignore[attr-defined]
    assert world.effects() == [7]
