"""A DB-API 2 driver that writes parameters as `%s` and tells nothing of its transactions, on top of SQLite.

It stands for drivers of servers where no server is at hand.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

apilevel = "2.0"
threadsafety = 1
paramstyle = "format"
Error = sqlite3.Error


class Cursor:
    """Runs statements."""

    def __init__(self, inner: sqlite3.Cursor) -> None:
        self._inner = inner

    @property
    def rowcount(self) -> int:
        return self._inner.rowcount

    def execute(self, operation: str, parameters: Sequence[object] = ()) -> None:
        assert "?" not in operation
        self._inner.execute(operation.replace("%s", "?"), parameters)

    def fetchone(self) -> Any:
        return self._inner.fetchone()

    def fetchall(self) -> list[Any]:
        return self._inner.fetchall()

    def close(self) -> None:
        self._inner.close()


class Connection:
    """One connection."""

    def __init__(self, path: str) -> None:
        self._inner = sqlite3.connect(path)

    def cursor(self) -> Cursor:
        return Cursor(self._inner.cursor())

    def commit(self) -> None:
        self._inner.commit()

    def rollback(self) -> None:
        self._inner.rollback()

    def close(self) -> None:
        self._inner.close()


def connect(path: str) -> Connection:
    """Opens a file."""
    return Connection(path)
