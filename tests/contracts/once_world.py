"""Databases in which work happens once, each behind the same few calls: SQLite, a driver with `%s`, and PostgreSQL.

Rule: PostgreSQL is a server of this run alone, made by `initdb` in a folder of its own; nothing outside of that folder changes.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.once.once import Once
from oncelog.client.once.work import Work
from tests.contracts import format_driver, libpq_driver

_START_S: Final = 30
_USER: Final = "nobody"
"""PostgreSQL refuses to run as root."""


class Clock:
    """Time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class World:
    """A database with a table of effects, and workers that share a clock."""

    def __init__(self, connect: Any, mark: str) -> None:
        self._connect = connect
        self._mark = mark
        self.clock = Clock()
        self.connections: list[Any] = []
        self.admin = self.connect()
        self.run("CREATE TABLE effects (value INTEGER)")
        self.worker().create_table()

    def connect(self) -> Any:
        self.connections.append(self._connect())
        return self.connections[-1]

    def run(self, statement: str) -> None:
        """Runs a statement, and commits it."""
        cursor = self.admin.cursor()
        cursor.execute(statement)
        self.admin.commit()

    def worker(self, connection: Any = None, **options: Any) -> Once:
        """A worker with a connection of its own, and a lease of a second."""
        made = Once(connection or self.connect(), "billing", **({"lease_ms": 1_000, "wait_ms": 0} | options))
        made._clock = self.clock  # type: ignore[assignment]
        return made

    def effect(self, work: Work, value: int) -> None:
        """What the work does."""
        work.execute(f"INSERT INTO effects (value) VALUES ({self._mark})", (value,))

    def effects(self) -> list[int]:
        """What was committed."""
        cursor = self.admin.cursor()
        cursor.execute("SELECT value FROM effects ORDER BY value")
        found = [int(row[0]) for row in cursor.fetchall()]
        self.admin.rollback()
        return found

    def close(self) -> None:
        for connection in self.connections:
            connection.close()


def record(offset: int, partition: int = 0, record_id: bytes = b"") -> ConsumerRecord[Any, Any]:
    """A record of the topic orders."""
    headers = (("id", record_id),) if record_id else ()
    return ConsumerRecord("orders", partition, offset, 0, None, b"value", headers)


def sqlite_world(folder: Path) -> World:
    """A file of SQLite."""
    return World(lambda: sqlite3.connect(folder / "work.db", timeout=0.05), "?")


def format_world(folder: Path) -> World:
    """The same file, by another driver."""
    return World(lambda: format_driver.connect(str(folder / "work.db")), "%s")


def why_no_postgresql() -> str:
    """Empty when a server can be started."""
    missing = [name for name in ("initdb", "postgres") if shutil.which(name) is None]
    if libpq_driver.library() is None:
        missing.append("libpq")
    return f"needs {' and '.join(missing)}, which this machine has not" if missing else ""


@contextmanager
def postgresql() -> Iterator[str]:
    """Starts a server; gives its conninfo."""
    folder = Path(tempfile.mkdtemp(prefix="oncelog-pg-"))
    user = _USER if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    subprocess.run(
        ["initdb", "-D", data, "-U", "once", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"],
        user=user, cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    with (folder / "log").open("wb") as log:
        command = ["postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        server = subprocess.Popen(command, user=user, cwd=folder, stdout=log, stderr=log)
    conninfo = f"host={folder} user=once dbname=postgres"
    try:
        deadline = time.monotonic() + _START_S
        while not _answers(conninfo):
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
        yield conninfo
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(conninfo: str) -> bool:
    try:
        libpq_driver.connect(conninfo).close()
    except libpq_driver.Error:
        return False
    return True


def postgresql_world(conninfo: str) -> World:
    """A schema without tables, in a server that runs."""
    with_none = libpq_driver.connect(conninfo)
    for name in ("effects", "oncelog_once"):
        with_none.run(f"DROP TABLE IF EXISTS {name}", ())
    with_none.close()
    return World(lambda: libpq_driver.connect(conninfo), "%s")
