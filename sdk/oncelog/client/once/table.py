"""Keeps the rows of done work in the program's own database, through any driver of DB-API 2.

Rule 1: nothing here ends a transaction but `commit` and `rollback`: what was done before a statement shares its fate.
Rule 2: a connection that commits each statement by itself is refused, since work and row would not be one transaction.
Rule 3: of the driver's errors two are understood, a table that is not there and a database that another worker locks now; all
        others are raised as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple, Protocol

from oncelog import errors
from oncelog.client.once.refusals import OnceTableError
from oncelog.core.once import statements
from oncelog.core.once.claims import Row

_IDLE: Final = 0
"""`transaction_status` of libpq: no transaction is open."""
_SQLITE_BUSY: Final = 5
_UNDEFINED_TABLE: Final = "42P01"
"""The SQLSTATE of PostgreSQL."""


class Cursor(Protocol):
    """The part of a DB-API cursor that is used."""

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed."""
        ...

    def execute(self, operation: str, parameters: Any = ..., /) -> object:
        """Runs a statement."""
        ...

    def fetchone(self) -> Any:
        """Returns the next row, or None."""
        ...

    def close(self) -> object:
        """Ends the cursor."""
        ...


class Connection(Protocol):
    """The part of a DB-API connection that is used."""

    def cursor(self) -> Any:
        """Returns a new `Cursor`."""
        ...

    def commit(self) -> object:
        """Commits the open transaction."""
        ...

    def rollback(self) -> object:
        """Undoes the open transaction."""
        ...


class RowKey(NamedTuple):
    """The key of a row: a partition of a group, or the id of a record in a topic of it."""

    group_id: str
    topic: str
    partition_no: int
    record_id: str = ""


class OnceTable:
    """See the module. One per connection."""

    def __init__(self, connection: Connection, name: str, paramstyle: str | None) -> None:
        if not statements.is_table_name(name):
            raise errors.ConfigError("the table's name is letters, digits and _, with a schema or without", given=name)
        self.connection = connection
        self._name = name
        self._driver = _driver_of(connection)
        self._paramstyle = paramstyle or str(getattr(self._driver, "paramstyle", ""))
        if self._paramstyle not in statements.PARAMSTYLES:
            raise errors.ConfigError(
                "how the driver writes parameters is not known: give paramstyle=, one of "
                + ", ".join(statements.PARAMSTYLES),
                given=self._paramstyle,
            )
        self._refuse_autocommit()

    def _refuse_autocommit(self) -> None:
        """Rule 2."""
        is_sqlite = getattr(self._driver, "__name__", "") == "sqlite3"
        is_legacy = getattr(self.connection, "autocommit", -1) == -1
        if getattr(self.connection, "autocommit", None) is True or (
            is_sqlite and is_legacy and getattr(self.connection, "isolation_level", "") is None
        ):
            raise errors.ConfigError(
                "this connection commits each statement by itself, so the work and its position would not be one transaction:"
                " turn its autocommit off (sqlite3: isolation_level='IMMEDIATE')"
            )

    # ------------------------------------------------------------ the transaction

    @property
    def is_in_transaction(self) -> bool:
        """True when the driver says so; False where it does not tell."""
        if getattr(self.connection, "autocommit", None) is False and hasattr(self.connection, "in_transaction"):
            return False  # sqlite3 without autocommit begins the next transaction at once, always
        status = getattr(getattr(self.connection, "info", None), "transaction_status", _IDLE)
        return bool(getattr(self.connection, "in_transaction", False)) or int(status) != _IDLE

    @property
    def changes(self) -> int:
        """A number that grows with what this connection changed; always 0 where the driver does not count."""
        return int(getattr(self.connection, "total_changes", 0))

    @property
    def tells_commits(self) -> bool:
        """True where `changes` and `is_in_transaction` together show that the work was committed too early."""
        return hasattr(self.connection, "total_changes") and getattr(self.connection, "autocommit", -1) == -1

    def commit(self) -> None:
        """Makes all durable since the last end of a transaction."""
        self.connection.commit()

    def rollback(self) -> None:
        """Undoes all since the last end of a transaction."""
        self.connection.rollback()

    # ------------------------------------------------------------ rows

    def create(self) -> None:
        """Creates the table unless it is there. Commits."""
        self._run(statements.CREATE, {})
        self.commit()

    def read(self, key: RowKey) -> Row | None:
        """Returns the row as it was committed last, and leaves no transaction open."""
        found = self._run(statements.READ, key._asdict(), is_query=True)
        self.rollback()
        return None if found is None else Row(int(found[0]), int(found[1]), str(found[2]), int(found[3]))

    def swap(self, key: RowKey, old: Row | None, new: Row) -> bool:
        """Stores `new` if the row still is `old` (None: there is none). False: another worker was faster."""
        values = {**key._asdict(), **asdict(new)}
        if old is None:
            return self._changed(statements.INSERT, values) == 1
        values |= {f"old_{name}": value for name, value in asdict(old).items()}
        return self._changed(statements.SWAP, values) == 1

    def finish(self, key: RowKey, row: Row) -> bool:
        """Stores the row's offset and time if it still has this owner and fencing number. False: another worker took it."""
        return self._changed(statements.FINISH, {**key._asdict(), **asdict(row)}) == 1

    def purge(self, group_id: str, now_ms: int, abandoned_ms: int) -> None:
        """Removes ids whose time to live has ended, and those whose work was begun by `abandoned_ms` and never done."""
        self._run(statements.PURGE, {"group_id": group_id, "now_ms": now_ms, "abandoned_ms": abandoned_ms})

    def forget(self, group_id: str, topic: str) -> None:
        """Removes all that the group has done of a topic."""
        self._run(statements.FORGET, {"group_id": group_id, "topic": topic})

    def _changed(self, statement: str, values: Mapping[str, object]) -> int:
        return int(self._run(statement, values))

    def _run(self, statement: str, values: Mapping[str, object], is_query: bool = False) -> Any:
        """Returns the first row of a query, or how many rows were changed."""
        text, parameters = statements.bind(statement, self._name, values, self._paramstyle)
        cursor = self.connection.cursor()
        try:
            cursor.execute(text, parameters) if parameters else cursor.execute(text)
            return cursor.fetchone() if is_query else cursor.rowcount
        except Exception as error:
            if is_missing_table(error):
                self.rollback()
                raise OnceTableError(
                    f"the database has no table {self._name}: create it with once.create_table(), once",
                    table=self._name,
                ) from error
            raise
        finally:
            cursor.close()


def _driver_of(connection: Connection) -> object:
    """The module of DB-API 2 that made the connection; None when it is not known."""
    for kind in type(connection).__mro__:
        parts: Sequence[str] = kind.__module__.split(".")
        for length in range(len(parts), 0, -1):
            module = sys.modules.get(".".join(parts[:length]))
            if hasattr(module, "paramstyle"):
                return module
    return None


def is_missing_table(error: Exception) -> bool:
    """True for a driver's error that says that the table is not there."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state == _UNDEFINED_TABLE or "no such table" in str(error)


def is_busy(error: Exception) -> bool:
    """True for SQLite's error that another process writes just now."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF == _SQLITE_BUSY
