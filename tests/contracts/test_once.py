"""Work that happens once, in every database: one test for each line of the table in docs/once.md.

Rule: the docstring of a test in the first part is the line of the table that it shows.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oncelog
from oncelog.client.once.once import Once
from oncelog.client.once.refusals import LeaseHeldError, OnceTableError, WorkFencedError
from tests.contracts import once_world
from tests.contracts.once_world import World, record

PAGE = Path(__file__).resolve().parents[2] / "docs" / "once.md"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The conninfo of a PostgreSQL of this module."""
    if why := once_world.why_no_postgresql():
        pytest.skip(why)
    with once_world.postgresql() as conninfo:
        yield conninfo


@pytest.fixture(params=["sqlite", "format", "postgresql"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Each kind of database in turn, empty."""
    if request.param == "postgresql":
        made = once_world.postgresql_world(request.getfixturevalue("server"))
    else:
        made = {"sqlite": once_world.sqlite_world, "format": once_world.format_world}[request.param](tmp_path)
    yield made
    made.close()


def die(world: World, once: Once) -> None:
    """The worker's process ends: its connection is gone, and what was open with it. Its lease stays."""
    world.connections.remove(once.connection)
    once.connection.close()  # type: ignore[attr-defined]


# ---------------------------------------------------------------- the table


def test_dead_before_work(world: World) -> None:
    """the worker dies before its work"""
    first = world.worker()
    first(record(0)).__enter__()
    die(world, first)
    world.clock.ms += 1_000
    with world.worker()(record(0)) as work:
        assert not work.is_done
        world.effect(work, 1)
    assert world.effects() == [1]


def test_dead_between_work_and_commit(world: World) -> None:
    """the worker dies between its work and the commit"""
    first = world.worker()
    world.effect(first(record(0)).__enter__(), 1)
    die(world, first)
    assert world.effects() == []
    with pytest.raises(LeaseHeldError):
        world.worker()(record(0)).__enter__()
    world.clock.ms += 1_000
    with world.worker()(record(0)) as work:
        world.effect(work, 2)
    assert world.effects() == [2]


def test_dead_after_commit(world: World) -> None:
    """the worker commits, and dies before anything else"""
    first = world.worker()
    with first(record(0)) as work:
        world.effect(work, 1)
    die(world, first)
    with world.worker()(record(0)) as work:
        assert work.is_done, "at once: the commit gave the lease back"
    assert world.effects() == [1]


def test_failed_work(world: World) -> None:
    """the work raises an error"""
    with contextlib.suppress(ZeroDivisionError), world.worker()(record(0)) as work:
        world.effect(work, 1)
        raise ZeroDivisionError
    assert world.effects() == []
    with world.worker()(record(0)) as work:
        world.effect(work, 2)
    assert world.effects() == [2]


class LosesAnswers:
    """A connection whose next commit with an effect succeeds or fails, and is not answered."""

    def __init__(self, inner: Any, is_committed: bool) -> None:
        self.__dict__.update(inner=inner, is_committed=is_committed, is_armed=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def commit(self) -> None:
        if not self.__dict__["is_armed"]:
            return self.inner.commit()
        self.__dict__["is_armed"] = False
        self.inner.commit() if self.is_committed else self.inner.rollback()
        raise ConnectionError("no answer to the commit")


@pytest.mark.parametrize("is_committed", [True, False])
def test_lost_answer(world: World, is_committed: bool) -> None:
    """the commit fails, or is not answered"""
    inner = world.connect()
    connection = LosesAnswers(inner, is_committed)
    style: str = sys.modules[type(inner).__module__].paramstyle
    once = world.worker(connection, paramstyle=style)
    world.effect(work := once(record(0)).__enter__(), 1)
    connection.__dict__["is_armed"] = True
    with pytest.raises(ConnectionError):
        work.__exit__(None, None, None)
    with world.worker()(record(0)) as work:
        assert work.is_done == is_committed
        if not work.is_done:
            world.effect(work, 1)
    assert world.effects() == [1]


def test_frozen_past_lease(world: World) -> None:
    """the worker freezes past its lease, and another one takes over"""
    zombie = world.worker()
    late = zombie(record(0)).__enter__()
    world.clock.ms += 1_000
    with world.worker()(record(0)) as work:
        assert work.fencing == late.fencing + 1
        world.effect(work, 2)
    world.effect(late, 1)
    with pytest.raises(WorkFencedError, match="go on with the next record"):
        late.__exit__(None, None, None)
    assert world.effects() == [2]


def test_slow_alone(world: World) -> None:
    """the work takes longer than the lease, and no other worker takes over"""
    with world.worker()(record(0)) as work:
        world.clock.ms += 5_000
        world.effect(work, 1)
    assert world.effects() == [1]


def test_two_workers(world: World) -> None:
    """two workers have the same record at once"""
    with world.worker()(record(0)) as work:
        with pytest.raises(LeaseHeldError, match="wait, and try the record again") as held:
            world.worker()(record(0)).__enter__()
        assert held.value.retry_after_ms == 1_000
        world.effect(work, 1)
    with world.worker()(record(0)) as work:
        assert work.is_done
    assert world.effects() == [1]


def test_sent_twice(world: World) -> None:
    """a producer sent the record twice, with an id"""
    once = world.worker(id_header="id")
    with once(record(0, partition=0, record_id=b"a")) as work:
        world.effect(work, 1)
    with world.worker(id_header="id")(record(7, partition=3, record_id=b"a")) as work:
        assert work.is_done
    assert once.position("orders", 3) == 8, "the position moves on all the same"
    assert world.effects() == [1]


def test_sent_twice_at_once(world: World) -> None:
    """the two copies are worked on at once"""
    with world.worker(id_header="id")(record(0, partition=0, record_id=b"a")) as work:
        other = world.worker(id_header="id")
        with pytest.raises(LeaseHeldError):
            other(record(7, partition=3, record_id=b"a")).__enter__()
        world.effect(work, 1)
    with other(record(7, partition=3, record_id=b"a")) as work:
        assert work.is_done
    assert world.effects() == [1]


def test_id_expired(world: World) -> None:
    """the second copy comes after the id's time to live"""
    once = world.worker(id_header="id", remember_ids_ms=10_000)
    for offset in (0, 1):
        with once(record(offset, record_id=b"a")) as work:
            world.effect(work, offset)
        world.clock.ms += 10_000
    assert world.effects() == [0, 1]


SHOWN = [test for name, test in list(globals().items()) if name.startswith("test_")]


def test_each_line_of_the_page_has_its_test() -> None:
    table = PAGE.read_text().partition("| what happens |")[2].partition("\n\n")[0]
    lines = re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)
    assert lines == [test.__doc__ for test in SHOWN]


# ---------------------------------------------------------------- the rest of the contract


def test_a_work_whose_id_was_not_free_may_be_entered_again(world: World) -> None:
    late = world.worker(id_header="id")(record(7, partition=3, record_id=b"a"))
    with world.worker(id_header="id")(record(0, record_id=b"a")) as work:
        with pytest.raises(LeaseHeldError):
            late.__enter__()
        world.effect(work, 1)
    with late:
        assert late.is_done, "it asks for the id again"
    assert world.effects() == [1]


def test_a_database_without_the_table_says_how_to_create_it(world: World) -> None:
    world.run("DROP TABLE oncelog_once")
    once = world.worker()
    with pytest.raises(OnceTableError, match=r"create it with once\.create_table\(\)"):
        once(record(0)).__enter__()
    once.create_table()
    once.create_table()
    with once(record(0)) as work:
        world.effect(work, 1)
    assert world.effects() == [1]


def test_a_question_leaves_no_transaction_open(world: World) -> None:
    once = world.worker()
    assert once.position("orders", 0) is None
    assert not once._table.is_in_transaction
    with once(record(0)):
        pass
    assert once.position("orders", 0) == 1


def test_a_table_of_another_name(world: World) -> None:
    once = world.worker(table="other_once")
    world.run("DROP TABLE IF EXISTS other_once")
    once.create_table()
    with once(record(0)):
        pass
    assert once.position("orders", 0) == 1
    assert world.worker().position("orders", 0) is None


def test_the_table_keeps_one_row_for_a_partition_and_ids_for_their_time(world: World) -> None:
    once = world.worker(id_header="id", remember_ids_ms=1_000)
    for offset in range(5):
        with once(record(offset, record_id=b"%d" % offset)):
            pass
    world.clock.ms += 60_000
    with once(record(5, record_id=b"5")):
        pass
    cursor = world.admin.cursor()
    cursor.execute("SELECT record_id FROM oncelog_once ORDER BY record_id")
    assert [row[0] for row in cursor.fetchall()] == ["", "5"]
    world.admin.rollback()


def test_a_forgotten_topic_begins_again(world: World) -> None:
    once = world.worker()
    with once(record(100)):
        pass
    once.forget("orders")
    assert once.position("orders", 0) is None
    with once(record(0)) as work:
        assert not work.is_done


def test_groups_know_nothing_of_each_other(world: World) -> None:
    with world.worker()(record(0)):
        pass
    other = Once(world.connect(), "shipping")
    with other(record(0)) as work:
        assert not work.is_done


def test_the_errors_are_kinds_of_known_ones() -> None:
    assert oncelog.LeaseHeldError("said").retriable
    assert oncelog.WorkFencedError("said").requires_abort
    assert issubclass(oncelog.OnceTableError, oncelog.ConfigError)
