"""A DB-API 2 driver of PostgreSQL that is as small as the tests need: libpq by ctypes, text parameters, one result row.

Rule: as with every such driver, the first statement opens a transaction, and only `commit` and `rollback` end it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

apilevel = "2.0"
threadsafety = 1
paramstyle = "format"

_COMMAND_OK: Final = 1
_TUPLES_OK: Final = 2
_SQLSTATE: Final = ord("C")


class Error(Exception):
    """What the server or the connection said; `sqlstate` as PostgreSQL numbers it."""

    def __init__(self, message: str, sqlstate: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


@cache
def library() -> Any:
    """libpq, or None where there is none."""
    name = ctypes.util.find_library("pq")
    if name is None:
        return None
    lib = ctypes.CDLL(name)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for function, result, arguments in (
        ("PQconnectdb", pointer, [text]),
        ("PQstatus", number, [pointer]),
        ("PQerrorMessage", text, [pointer]),
        ("PQtransactionStatus", number, [pointer]),
        ("PQfinish", None, [pointer]),
        ("PQexecParams", pointer, [pointer, text, number, pointer, pointer, pointer, pointer, number]),
        ("PQresultStatus", number, [pointer]),
        ("PQresultErrorField", text, [pointer, number]),
        ("PQresultErrorMessage", text, [pointer]),
        ("PQcmdTuples", text, [pointer]),
        ("PQntuples", number, [pointer]),
        ("PQnfields", number, [pointer]),
        ("PQgetvalue", text, [pointer, number, number]),
        ("PQclear", None, [pointer]),
    ):
        getattr(lib, function).restype = result
        getattr(lib, function).argtypes = arguments
    return lib


class Cursor:
    """Runs statements, and holds the rows of the last one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: list[tuple[str, ...]] = []
        self.rowcount = -1

    def execute(self, operation: str, parameters: Sequence[object] = ()) -> None:
        self._connection.begin()
        numbers = itertools.count(1)
        parts = operation.split("%s")
        text = parts[0] + "".join(f"${next(numbers)}{part}" for part in parts[1:])
        self._rows, self.rowcount = self._connection.run(text, parameters)

    def fetchone(self) -> tuple[str, ...] | None:
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[tuple[str, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> None:
        self._rows = []


class _Info:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def transaction_status(self) -> int:
        return int(library().PQtransactionStatus(self._connection.handle))


class Connection:
    """One session with the server."""

    def __init__(self, conninfo: str) -> None:
        self.handle = library().PQconnectdb(conninfo.encode())
        self.autocommit = False
        self.info = _Info(self)
        if library().PQstatus(self.handle) != 0:
            raise Error(library().PQerrorMessage(self.handle).decode())

    def cursor(self) -> Cursor:
        return Cursor(self)

    def begin(self) -> None:
        if self.info.transaction_status == 0 and not self.autocommit:
            self.run("BEGIN", ())

    def commit(self) -> None:
        if self.info.transaction_status != 0:
            self.run("COMMIT", ())

    def rollback(self) -> None:
        if self.info.transaction_status != 0:
            self.run("ROLLBACK", ())

    def close(self) -> None:
        library().PQfinish(self.handle)
        self.handle = None

    def run(self, text: str, parameters: Sequence[object]) -> tuple[list[tuple[str, ...]], int]:
        """The rows of a statement, and how many it changed."""
        lib = library()
        values = (ctypes.c_char_p * max(1, len(parameters)))(*[str(value).encode() for value in parameters])
        result = lib.PQexecParams(self.handle, text.encode(), len(parameters), None, values, None, None, 0)
        try:
            if lib.PQresultStatus(result) not in (_COMMAND_OK, _TUPLES_OK):
                state = lib.PQresultErrorField(result, _SQLSTATE) or b""
                raise Error(lib.PQresultErrorMessage(result).decode().strip(), state.decode())
            rows = [
                tuple(lib.PQgetvalue(result, row, column).decode() for column in range(lib.PQnfields(result)))
                for row in range(lib.PQntuples(result))
            ]
            return rows, int(lib.PQcmdTuples(result) or 0)
        finally:
            lib.PQclear(result)


def connect(conninfo: str) -> Connection:
    """Opens a session."""
    return Connection(conninfo)
