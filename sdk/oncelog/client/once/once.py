"""Has the work of each record of a group done once, with its effect in the program's own database.

Rule 1: a claim is a short transaction of its own, so the database is not locked while the work goes on. The work's transaction
        moves the position, and only if no other worker has claimed since: a worker that was frozen commits nothing.
Rule 2: a claim asks for a connection without an open transaction, since it has to end one.
Rule 3: one work at a time for each object, because a connection has one transaction.
Rule 4: in a program with an event loop the statements run in its thread: each is short, and waiting for a lease blocks nothing.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterator
from dataclasses import replace
from typing import Final, overload

from oncelog import errors
from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.defaults import SystemClock
from oncelog.client.once.each import AsyncConsumer, SyncConsumer, each_async, each_sync
from oncelog.client.once.refusals import LeaseHeldError, WorkFencedError
from oncelog.client.once.table import Connection, OnceTable, RowKey, is_busy
from oncelog.client.once.work import Work
from oncelog.core.once.claims import ID_DONE, Claim, Done, Row, Take, Wait, Worker, claim_id, claim_position

_log = logging.getLogger(__name__)

_POLL_MS: Final = 100
"""How long a claim waits before it looks again whether the lease was given back."""
_PURGE_EVERY_MS: Final = 60_000
_ID_PARTITION: Final = -1
"""Ids are those of a whole topic: a record that was sent twice may lie in two partitions."""


class Once:
    """See the module. Make one for each connection: `once = oncelog.Once(connection, "billing")`.

    `connection`: of any DB-API 2 driver of SQLite or PostgreSQL, with transactions (no autocommit). `group_id`: the name under
    which positions are kept; workers that share partitions give the same. `table`: where they are kept (`create_table`).
    `lease_ms`: above the longest work of one record. `wait_ms`: how long a claim waits for the lease of another worker (None =
    twice `lease_ms`). `id_header`: the header that holds a record's own id; then a record that was sent twice is done once,
    when the second copy comes within `remember_ids_ms`. `paramstyle`: of the driver, where it cannot be found out.
    """

    def __init__(
        self,
        connection: Connection,
        group_id: str,
        *,
        table: str = "oncelog_once",
        lease_ms: int = 30_000,
        wait_ms: int | None = None,
        id_header: str = "",
        remember_ids_ms: int = 7 * 24 * 3_600_000,
        paramstyle: str | None = None,
    ) -> None:
        if not group_id:
            raise errors.ConfigError("group_id is the name under which positions are kept: give one")
        if lease_ms < 1 or remember_ids_ms < 1:
            raise errors.ConfigError(
                "lease_ms and remember_ids_ms are at least 1", given=min(lease_ms, remember_ids_ms)
            )
        self._table = OnceTable(connection, table, paramstyle)
        self._group_id = group_id
        self._lease_ms = lease_ms
        self._wait_ms = 2 * lease_ms if wait_ms is None else wait_ms
        self._id_header = id_header
        self._remember_ids_ms = remember_ids_ms
        self._clock = SystemClock()
        self._pid = os.getpid()
        self._owner = f"{socket.gethostname()}:{self._pid}:{uuid.uuid4().hex}"
        self._current: Work | None = None
        self._purge_at_ms = 0

    @property
    def connection(self) -> Connection:
        """The connection that was given."""
        return self._table.connection

    def create_table(self) -> None:
        """Creates the table unless it is there, and commits. Raises `IllegalStateError` when a transaction is open."""
        self._check_idle()
        self._table.create()

    def forget(self, topic: str) -> None:
        """Forgets all that the group has done of this topic, and commits: for a topic that was deleted and created again."""
        self._check_idle()
        self._table.forget(self._group_id, topic)
        self._table.commit()

    def position(self, topic: str, partition: int) -> int | None:
        """The offset below which all is done; None: nothing was begun yet."""
        self._check_idle()
        row = self._table.read(RowKey(self._group_id, topic, partition))
        return None if row is None else row.next_offset

    def __call__(self, record: ConsumerRecord) -> Work:
        """The work of a record, for `with` or `async with`. Records of a partition come in the order of their offsets.

        Entering raises `LeaseHeldError`, `OnceTableError`, and `IllegalStateError` while a transaction is open; leaving raises
        `WorkFencedError` when another worker took over; both raise what the driver raises. The record is not done then.
        """
        name = self._id_header
        found = next((value for key, value in record.headers if key == name), None) if name else None
        if name and not found:
            raise errors.ConfigError(
                f"the record has no header {name}, which holds its id: leave id_header out, or have producers send it",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            )
        return Work(self, record, "" if found is None else found.decode(errors="backslashreplace"))

    @overload
    def each(self, consumer: AsyncConsumer) -> AsyncIterator[Work]: ...

    @overload
    def each(self, consumer: SyncConsumer) -> Iterator[Work]: ...

    def each(self, consumer: AsyncConsumer | SyncConsumer) -> AsyncIterator[Work] | Iterator[Work]:
        """The works of a consumer's records that were not done yet, without an end; enter each of them before the next.

        The consumer is led to where the database says that the work goes on, whatever is committed in the log.
        """
        return each_async(self, consumer) if isinstance(consumer, AsyncIterable) else each_sync(self, consumer)

    # ------------------------------------------------------------ claims

    def claim(self, work: Work) -> Generator[int, None, None]:
        """For `Work`: claims the record, or finds it done; gives the milliseconds to wait before it goes on."""
        self._check_idle()
        deadline_ms = self._clock.monotonic_ms() + self._wait_ms
        record = work.record
        key = RowKey(self._group_id, record.topic, record.partition)
        found = yield from self._taken(key, lambda row, me: claim_position(row, record.offset, me), deadline_ms)
        work.position, work.is_done = found.row, isinstance(found, Done)
        if work.is_done or not work.record_id:
            return
        try:
            by_id = yield from self._taken(self._id_key(work), claim_id, deadline_ms)
            if isinstance(by_id, Done):
                self._skip(work)
                return
        except BaseException:
            self.release(work)
            work.position = None  # to be claimed again when the work is entered again
            raise
        work.id_row = by_id.row
        self._maybe_purge()

    def _taken(
        self, key: RowKey, decide: Callable[[Row | None, Worker], Claim], deadline_ms: int
    ) -> Generator[int, None, Done | Take]:
        while True:
            self._check_idle()  # while this waited, another task may have entered a work
            answer = self._try(key, decide)
            if not isinstance(answer, Wait):
                return answer
            if self._clock.monotonic_ms() >= deadline_ms:
                raise LeaseHeldError(
                    "another worker does this record, or its lease has not ended: wait, and try the record again",
                    retry_after_ms=answer.wait_ms,
                    owner=answer.owner,
                    topic=key.topic,
                    partition=key.partition_no,
                )
            yield min(answer.wait_ms, _POLL_MS)

    def _try(self, key: RowKey, decide: Callable[[Row | None, Worker], Claim]) -> Claim:
        """One look at the row; `Wait` also when another worker was faster, or writes just now."""
        try:
            row = self._table.read(key)
            answer = decide(row, Worker(self._owner, self._lease_ms, self._clock.now_ms()))
            if isinstance(answer, Take) and not self._table.swap(key, row, answer.row):
                answer = Wait("", 1)
            self._table.commit()
            return answer
        except Exception as error:
            self._table.rollback()
            if is_busy(error):
                return Wait("", 1)
            raise

    def _skip(self, work: Work) -> None:
        """The id was done at another offset: the position moves on without work. Raises `WorkFencedError`."""
        assert work.position is not None
        self._move_position(work)
        self._table.commit()
        work.is_done = True
        work.position = replace(work.position, next_offset=work.record.offset + 1, until_ms=0)

    def release(self, work: Work) -> None:
        """For this package: undoes what is open, and gives leases back; without an answer they end by themselves."""
        try:
            self._table.rollback()
            for key, row in ((self._key(work), work.position), (self._id_key(work), work.id_row)):
                if row is not None and not work.is_done:
                    self._table.swap(key, row, replace(row, until_ms=0))
                    self._table.commit()
        except Exception as error:
            _log.warning("a lease could not be given back, and ends in %d ms at most: %s", self._lease_ms, error)

    def give_back(self, work: Work) -> None:
        """For the loop over a consumer: a work that was never entered. While another work or transaction is open on the
        connection, its lease ends by itself: a roll-back would undo what is not this work's.
        """
        try:
            self._check_idle()
        except errors.OncelogError:
            return
        self.release(work)

    def _maybe_purge(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._purge_at_ms:
            return
        self._purge_at_ms = now_ms + _PURGE_EVERY_MS
        try:
            self._table.purge(self._group_id, now_ms, now_ms - self._remember_ids_ms)
            self._table.commit()
        except Exception as error:
            self._table.rollback()
            _log.warning("old ids could not be removed, which is tried again in a minute: %s", error)

    # ------------------------------------------------------------ the block

    def begin(self, work: Work) -> None:
        """For `Work`: its block begins. Raises `IllegalStateError` while another one is open."""
        if not work.is_done:
            self._check_idle()
        self._current = work
        work.changes = self._table.changes

    def end(self, work: Work, is_failed: bool) -> None:
        """For `Work`: its block has ended. Raises `WorkFencedError` when nothing was committed."""
        self._current = None
        work.is_ended = True
        if work.is_done:
            self._table.rollback()  # whatever the body wrote all the same
        elif is_failed:
            self.release(work)
        else:
            self._commit(work)

    def _commit(self, work: Work) -> None:
        try:
            if self._table.tells_commits and not self._table.is_in_transaction and self._table.changes != work.changes:
                raise errors.IllegalStateError(
                    "the work was committed without its position, so it may be done twice:"
                    " leave the commit to the end of the block"
                )
            self._move_position(work)
            if work.id_row is not None:
                done = replace(work.id_row, next_offset=ID_DONE, until_ms=self._clock.now_ms() + self._remember_ids_ms)
                self._require(self._table.finish(self._id_key(work), done), work)
            self._table.commit()
            work.is_committed = True
        except BaseException:
            self.release(work)
            raise

    def _move_position(self, work: Work) -> None:
        assert work.position is not None
        moved = replace(work.position, next_offset=work.record.offset + 1, until_ms=0)
        self._require(self._table.finish(self._key(work), moved), work)

    @staticmethod
    def _require(is_mine: bool, work: Work) -> None:
        if not is_mine:
            raise WorkFencedError(
                "another worker took the record over, and nothing of this work was committed: go on with the next record;"
                " if that happens often, lease_ms is shorter than the work",
                topic=work.record.topic,
                partition=work.record.partition,
                offset=work.record.offset,
            )

    # ------------------------------------------------------------ helpers

    def _key(self, work: Work) -> RowKey:
        return RowKey(self._group_id, work.record.topic, work.record.partition)

    def _id_key(self, work: Work) -> RowKey:
        return RowKey(self._group_id, work.record.topic, _ID_PARTITION, work.record_id)

    def _check_idle(self) -> None:
        if os.getpid() != self._pid:
            raise errors.ForkedClientError.inherited()
        if self._current is not None:
            raise errors.IllegalStateError(
                "another work of this object is not over: one at a time, or make another Once with a connection of its own"
            )
        if self._table.is_in_transaction:
            raise errors.IllegalStateError("the connection has an open transaction: commit it or roll it back first")
