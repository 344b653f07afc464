"""Claims end and begin with the transaction, wait for each other, and say what is wrong (see tests/contracts/test_once.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.client.once.once import Once
from oncelog.client.once.refusals import WorkFencedError
from oncelog.errors import ConfigError, ForkedClientError, IllegalStateError
from tests.contracts.once_world import World, record, sqlite_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A file of SQLite."""
    made = sqlite_world(tmp_path)
    yield made
    made.close()


def test_a_claim_waits_and_goes_on_when_the_lease_was_given_back(world: World) -> None:
    other, once = world.worker(), world.worker(wait_ms=5_000)
    with other(record(0)):
        claim = once.claim(work := once(record(0)))
        assert next(claim) == 100
        world.clock.ms += 950
        assert next(claim) == 50, "no longer than the lease"
    assert list(claim) == []
    assert work.is_done


def test_a_file_that_is_locked_is_waited_for(world: World) -> None:
    once = world.worker(wait_ms=5_000)
    locker = world.connect()
    locker.execute("INSERT INTO effects VALUES (1)")
    claim = once.claim(work := once(record(0)))
    assert next(claim) == 1
    locker.rollback()
    assert list(claim) == []
    assert not work.is_done


def test_an_open_transaction_is_not_ended_by_a_claim(world: World) -> None:
    once = world.worker()
    once.connection.execute("INSERT INTO effects VALUES (1)")  # type: ignore[attr-defined]
    for use in (once(record(0)).__enter__, once.create_table, lambda: once.forget("orders")):
        with pytest.raises(IllegalStateError, match="commit it or roll it back first"):
            use()
    once.connection.commit()
    assert world.effects() == [1]


def test_one_work_at_a_time(world: World) -> None:
    once = world.worker()
    with once(record(0)), pytest.raises(IllegalStateError, match="one at a time"):
        once(record(0, partition=1)).__enter__()


def test_a_work_that_was_committed_too_early_is_told(world: World) -> None:
    once = world.worker()
    world.effect(work := once(record(0)).__enter__(), 1)
    once.connection.commit()
    with pytest.raises(IllegalStateError, match="committed without its position"):
        work.__exit__(None, None, None)
    with once(record(0)) as work:
        assert not work.is_done


def test_a_failed_release_is_no_error_of_its_own(world: World, caplog: pytest.LogCaptureFixture) -> None:
    once = world.worker()
    work = once(record(0)).__enter__()
    world.run("DROP TABLE oncelog_once")
    work.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert "could not be given back" in caplog.text


def test_a_worker_that_finds_an_id_done_is_fenced_like_any_other(world: World) -> None:
    """The position of a skipped copy moves only if the partition is still this worker's."""
    with world.worker(id_header="id")(record(0, record_id=b"a")):
        pass
    zombie = world.worker(id_header="id")
    finish = zombie._table.finish

    def taken_over(*given: object) -> bool:
        zombie._table.finish = finish  # type: ignore[method-assign]
        return False

    zombie._table.finish = taken_over  # type: ignore[method-assign]
    with pytest.raises(WorkFencedError):
        zombie(record(9, record_id=b"a")).__enter__()
    with zombie(record(9, record_id=b"a")) as work:
        assert work.is_done


def test_a_record_without_the_header_of_ids_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="has no header id"):
        world.worker(id_header="id")(record(0))


@pytest.mark.parametrize("options", [{"lease_ms": 0}, {"remember_ids_ms": 0}])
def test_times_are_positive(world: World, options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        world.worker(**options)


def test_a_group_has_a_name(world: World) -> None:
    with pytest.raises(ConfigError, match="group_id"):
        Once(world.connect(), "")


def test_a_forked_child_makes_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    once = world.worker()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ForkedClientError):
        once(record(0)).__enter__()
