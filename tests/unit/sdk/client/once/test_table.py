"""The table refuses connections that would part work and position, and finds out how their driver writes parameters."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from oncelog.client.once.table import OnceTable, RowKey, is_busy, is_missing_table
from oncelog.core.once.claims import Row
from oncelog.errors import ConfigError
from tests.contracts import format_driver, libpq_driver

KEY = RowKey("billing", "orders", 0)


@pytest.fixture
def table() -> OnceTable:
    """In memory."""
    made = OnceTable(sqlite3.connect(":memory:"), "done", None)
    made.create()
    return made


def test_a_row_is_swapped_only_as_it_was_read(table: OnceTable) -> None:
    first, second = Row(0, 1, "a", 5), Row(0, 2, "b", 9)
    assert table.swap(KEY, None, first)
    assert not table.swap(KEY, None, second)
    assert not table.swap(KEY, second, first)
    assert table.swap(KEY, first, second)
    table.commit()
    assert table.read(KEY) == second
    assert table.read(KEY._replace(record_id="x")) is None


def test_a_row_is_finished_by_the_worker_that_has_it(table: OnceTable) -> None:
    table.swap(KEY, None, Row(0, 2, "a", 5))
    assert not table.finish(KEY, Row(1, 2, "b"))
    assert not table.finish(KEY, Row(1, 1, "a"))
    assert table.finish(KEY, Row(1, 2, "a"))


@pytest.mark.parametrize("options", [{"isolation_level": None}])
def test_a_connection_that_commits_by_itself_is_refused(options: Any) -> None:
    with pytest.raises(ConfigError, match="turn its autocommit off"):
        OnceTable(sqlite3.connect(":memory:", **options), "done", None)


class Psycopg:
    """A connection that looks like one of psycopg."""

    __module__ = libpq_driver.__name__
    autocommit = True

    def cursor(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


def test_autocommit_of_other_drivers_is_refused() -> None:
    with pytest.raises(ConfigError, match="turn its autocommit off"):
        OnceTable(Psycopg(), "done", None)


class Unknown:
    """A connection of a driver that nobody knows."""

    def cursor(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


def test_an_unknown_driver_is_asked_for_its_style() -> None:
    with pytest.raises(ConfigError, match="give paramstyle="):
        OnceTable(Unknown(), "done", None)
    OnceTable(Unknown(), "done", "qmark")
    with pytest.raises(ConfigError, match="give paramstyle="):
        OnceTable(Unknown(), "done", "dollar")


def test_the_style_is_that_of_the_drivers_module(tmp_path: Any) -> None:
    assert OnceTable(sqlite3.connect(":memory:"), "done", None)._paramstyle == "qmark"
    assert OnceTable(format_driver.connect(str(tmp_path / "f")), "done", None)._paramstyle == "format"


def test_a_name_that_is_no_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="letters, digits"):
        OnceTable(sqlite3.connect(":memory:"), "done; DROP TABLE x", None)


def test_a_driver_tells_of_an_open_transaction(table: OnceTable) -> None:
    assert not table.is_in_transaction
    table.swap(KEY, None, Row())
    assert table.is_in_transaction
    table.rollback()
    assert not table.is_in_transaction
    assert not OnceTable(Unknown(), "done", "qmark").is_in_transaction


def test_errors_of_drivers_are_known() -> None:
    assert is_missing_table(libpq_driver.Error("relation does not exist", "42P01"))
    assert is_missing_table(sqlite3.OperationalError("no such table: done"))
    assert not is_missing_table(libpq_driver.Error("syntax", "42601"))
    assert not is_busy(libpq_driver.Error("locked", "55P03"))


def test_a_file_that_another_process_locks_is_busy(tmp_path: Any) -> None:
    one, two = (sqlite3.connect(tmp_path / "f", timeout=0) for _ in range(2))
    one.execute("CREATE TABLE t (x)")
    one.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(sqlite3.OperationalError) as locked:
        two.execute("INSERT INTO t VALUES (1)")
    assert is_busy(locked.value)
