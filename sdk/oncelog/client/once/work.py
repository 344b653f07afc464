"""The work of one record: a transaction of the program's database that also holds the record's position.

Rule 1: what the body wrote and the position are committed together at the end of the block, or neither is.
Rule 2: an error that leaves the block undoes what it wrote, and gives the lease back.
Rule 3: the body cannot end the transaction itself through this object: `commit` in the middle would separate the two.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Protocol

from oncelog import errors
from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.once.table import Connection, Cursor
from oncelog.core.once.claims import Row

_ENDS_IT: Final = frozenset(("commit", "rollback", "close", "executescript", "autocommit", "isolation_level"))
"""Members of connections that would end the transaction of the work, or change when one ends."""


class WorkConnection:
    """The connection within a work: everything but what would end the transaction."""

    def __init__(self, connection: Connection, check: Callable[[], None]) -> None:
        self._connection = connection
        self._check = check

    def __getattr__(self, name: str) -> Any:
        self._check()
        if name in _ENDS_IT:
            raise errors.IllegalStateError(
                f"{name} would separate the work from its position: the end of the block commits both, an error undoes both"
            )
        return getattr(self._connection, name)


class Claims(Protocol):
    """The part of `Once` that a work needs."""

    @property
    def connection(self) -> Connection:
        """The connection of the program's database."""
        ...

    def claim(self, work: Work) -> Iterator[int]:
        """Claims the record, or finds it done; gives the milliseconds to wait before it goes on."""
        ...

    def begin(self, work: Work) -> None:
        """Begins the block. Raises `IllegalStateError` while another one is open."""
        ...

    def end(self, work: Work, is_failed: bool) -> None:
        """Ends the block: commits all of it, or undoes it. Raises `WorkFencedError` when nothing was committed."""
        ...


class Work:
    """See the module. Made by `once(record)` and `once.each(consumer)`; enter it with `with` or `async with`."""

    def __init__(self, once: Claims, record: ConsumerRecord, record_id: str) -> None:
        self.record = record
        """The record that is worked on."""
        self.record_id = record_id
        """The record's own id; empty: it has none."""
        self.is_done = False
        """The record was done before, by this worker or another one: do nothing."""
        self.position: Row | None = None
        """For this package: the row of the partition, as it was claimed or found done."""
        self.id_row: Row | None = None
        """For this package: the row of the id, as it was claimed."""
        self.is_entered = False
        """For this package: the block has begun."""
        self.is_ended = False
        """For this package: nothing more can be done with this object."""
        self.is_committed = False
        """The block has ended, and all that it wrote is durable."""
        self.changes = 0
        """For this package: what the connection had changed when the block began."""
        self._once = once
        self.connection = WorkConnection(once.connection, self._check_open)
        """Your connection, without what would end the transaction."""

    @property
    def fencing(self) -> int:
        """A number that grows whenever another worker takes the partition over.

        Give it to external systems with what you write there, and have them refuse a smaller one than they have seen.
        """
        self._check_open()
        assert self.position is not None
        return self.position.fencing

    def cursor(self) -> Any:
        """Returns a cursor of your connection. What it writes is committed at the end of the block."""
        self._check_open()
        return self._once.connection.cursor()

    def execute(self, operation: str, parameters: object = ()) -> Cursor:
        """Runs a statement with a new cursor, and returns that. Raises what the driver raises."""
        cursor: Cursor = self.cursor()
        cursor.execute(operation, parameters) if parameters else cursor.execute(operation)
        return cursor

    def _check_open(self) -> None:
        if self.is_done:
            raise errors.IllegalStateError("this record was done before: ask `work.is_done` first, and do nothing")
        if not self.is_entered or self.is_ended:
            raise errors.IllegalStateError("work goes on within its block only: `with once(record) as work:`")

    # ------------------------------------------------------------ the block

    def __enter__(self) -> Work:
        for pause_ms in self._entering():
            time.sleep(pause_ms / 1000)
        return self._entered()

    async def __aenter__(self) -> Work:
        for pause_ms in self._entering():
            await asyncio.sleep(pause_ms / 1000)
        return self._entered()

    def _entering(self) -> Iterator[int]:
        """Claims the record unless `each` has done it; gives the milliseconds to wait before it goes on."""
        if self.is_entered or self.is_ended:
            raise errors.IllegalStateError("a work is entered once: make another one with once(record)")
        if self.position is None:
            yield from self._once.claim(self)

    def _entered(self) -> Work:
        self.is_entered = True
        self._once.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._once.end(self, is_failed=kind is not None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._once.end(self, is_failed=kind is not None)
