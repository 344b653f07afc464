"""A block of work ends its transaction itself, and nothing can be done outside of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.errors import IllegalStateError
from tests.contracts.once_world import World, record, sqlite_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A file of SQLite."""
    made = sqlite_world(tmp_path)
    yield made
    made.close()


def test_the_same_in_an_event_loop(world: World) -> None:
    async def work_twice() -> None:
        once = world.worker()
        async with once(record(0)) as work:
            world.effect(work, 1)
        with contextlib.suppress(ZeroDivisionError):
            async with once(record(1)) as work:
                world.effect(work, 2)
                raise ZeroDivisionError
        async with once(record(0)) as work:
            assert work.is_done

    asyncio.run(work_twice())
    assert world.effects() == [1]


@pytest.mark.parametrize("name", ["commit", "rollback", "close", "executescript"])
def test_the_connection_within_a_work_cannot_end_it(world: World, name: str) -> None:
    with world.worker()(record(0)) as work:
        with pytest.raises(IllegalStateError, match="would separate the work from its position"):
            getattr(work.connection, name)()
        work.connection.execute("INSERT INTO effects VALUES (1)")
    assert world.effects() == [1]


def test_a_work_is_used_within_its_block_only(world: World) -> None:
    work = world.worker()(record(0))
    with pytest.raises(IllegalStateError, match="within its block only"):
        work.execute("SELECT 1")
    with work:
        pass
    assert work.is_committed
    for use in (lambda: work.fencing, work.cursor, lambda: work.connection.execute, work.__enter__):
        with pytest.raises(IllegalStateError):
            use()


def test_what_was_done_cannot_be_done_again(world: World) -> None:
    once = world.worker()
    with once(record(0)):
        pass
    with once(record(0)) as work:
        with pytest.raises(IllegalStateError, match=r"ask `work\.is_done` first"):
            world.effect(work, 1)
        once.connection.execute("INSERT INTO effects VALUES (1)")  # type: ignore[attr-defined]
    assert world.effects() == [], "also not by another way"
