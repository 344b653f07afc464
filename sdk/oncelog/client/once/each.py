"""Loops over a consumer's records that were not done yet, each as a `Work` that is claimed already.

Rule 1: a work that was handed out has to be entered before the next one is asked for, so that no record is passed over.
Rule 2: a record whose work failed, or was not entered, comes again: in this loop when the caller goes on with it, else in the
        next loop over the same consumer.
Rule 3: a loop that is left gives the lease of a work that was not entered back.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Protocol

from oncelog import errors
from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.once.work import Work
from oncelog.core.once.progress import Begin, Impossible, Progress, Seek
from oncelog.types import TopicPartition


class Assigned(Protocol):
    """Both kinds of consumer have this."""

    def assignment(self) -> list[TopicPartition]:
        """Returns the partitions that are read."""
        ...

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Reads on from this offset."""
        ...


class AsyncConsumer(Assigned, Protocol):
    """The part of `oncelog.Consumer` that is used."""

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Gives records."""
        ...


class SyncConsumer(Assigned, Protocol):
    """The part of `oncelog.sync.Consumer` that is used."""

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Gives records."""
        ...


class Works(Protocol):
    """The part of `Once` that a loop needs to hand out works."""

    def __call__(self, record: ConsumerRecord) -> Work:
        """Returns the work of a record."""
        ...

    def claim(self, work: Work) -> Iterator[int]:
        """Claims the record, or finds it done; gives the milliseconds to wait before it goes on."""
        ...

    def release(self, work: Work) -> None:
        """Undoes what is open, and gives the leases of the work back."""
        ...

    def give_back(self, work: Work) -> None:
        """Gives back the leases of a work that was never entered."""
        ...


class Loop:
    """One loop over a consumer: which works are handed out."""

    def __init__(self, once: Works, consumer: Assigned) -> None:
        self._once = once
        self._consumer = consumer
        self._progress = Progress()

    def claim(self, record: ConsumerRecord) -> tuple[Work, Iterable[int]]:
        """Returns the record's work, and its claim, which gives the milliseconds to wait."""
        work = self._once(record)
        return work, self._once.claim(work)

    def is_wanted(self, work: Work) -> bool:
        """True: hand it out. Otherwise it was done, or the consumer was led elsewhere."""
        record, position = work.record, work.position
        assert position is not None
        partition = TopicPartition(record.topic, record.partition)
        answer = self._progress.met(partition, record.offset, position.next_offset, work.is_done)
        if isinstance(answer, Begin):
            return True
        self._once.release(work)
        if isinstance(answer, Impossible):
            raise errors.IllegalStateError(
                f"the log does not reach the offset that the database has: if {record.topic} was deleted and created again,"
                f" call once.forget({record.topic!r})",
                partition=record.partition,
                read=record.offset,
                database=position.next_offset,
            )
        if isinstance(answer, Seek):
            self._read_on_at(partition, answer.offset)
        return False

    def after(self, work: Work) -> None:
        """The caller asks for the next one. Raises `IllegalStateError` by rule 1."""
        if not work.is_ended:
            raise errors.IllegalStateError(
                "enter each work before you ask for the next: `with work:`, or `async with work:`"
            )
        record = work.record
        partition = TopicPartition(record.topic, record.partition)
        if work.is_committed:
            self._progress.reached(partition, record.offset + 1)

    def _read_on_at(self, partition: TopicPartition, offset: int) -> None:
        """Leads the consumer, unless the partition is another member's by now."""
        if partition in self._consumer.assignment():
            self._consumer.seek(partition, offset)
            self._progress.sought(partition, offset)

    def left(self, work: Work) -> None:
        """Rules 2 and 3, however the caller left."""
        if not work.is_entered:
            self._once.give_back(work)
        if not work.is_committed and not work.is_done:
            self.again(work.record)

    def again(self, record: ConsumerRecord) -> None:
        """The record was not done. A consumer that is closed reads it in its next life, by the database's offset."""
        with contextlib.suppress(errors.OncelogError):
            self._read_on_at(TopicPartition(record.topic, record.partition), record.offset)


def each_sync(once: Works, consumer: SyncConsumer) -> Iterator[Work]:
    """See `Once.each`."""
    loop = Loop(once, consumer)
    for record in consumer:
        try:
            work, claim = loop.claim(record)
            for pause_ms in claim:
                time.sleep(pause_ms / 1000)
        except BaseException:
            loop.again(record)
            raise
        if loop.is_wanted(work):
            try:
                yield work
                loop.after(work)
            finally:
                loop.left(work)


async def each_async(once: Works, consumer: AsyncConsumer) -> AsyncIterator[Work]:
    """See `Once.each`."""
    loop = Loop(once, consumer)
    async for record in consumer:
        try:
            work, claim = loop.claim(record)
            for pause_ms in claim:
                await asyncio.sleep(pause_ms / 1000)
        except BaseException:
            loop.again(record)
            raise
        if loop.is_wanted(work):
            try:
                yield work
                loop.after(work)
            finally:
                loop.left(work)
