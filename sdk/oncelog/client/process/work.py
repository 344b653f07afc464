"""Calls the caller's function for each record of a batch, or once for all, and says which output came of which record.

Rule 1: records are worked on one after the other, in the order in which they were read.
Rule 2: an error of the function is raised as `ProcessingError`, which names the record, or for a function of batches the first
        record and how many there were. For a single record `on_error` may return what is written instead.
Rule 3: between records the event loop gets its turn, so that many short calls do not hold up the member's heartbeats.
Rule 4: a function of batches gets a copy: whatever it does to the list, the batch is committed, or read again, as it was read.
Rule 5: a thread cannot be cancelled. Where its caller was, it ends after the record that is worked on.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from types import GeneratorType
from typing import NamedTuple, ParamSpec, TypeVar

from oncelog import errors
from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.home.pace import Pace
from oncelog.client.produce.writer import Message

P = ParamSpec("P")
T = TypeVar("T")
ProcessFunction = Callable[[ConsumerRecord], object]
"""The function of `Client.process` returns nothing, a value, a `Message`, a list of those, or an awaitable of it."""
OnProcessError = Callable[[ConsumerRecord, Exception], object]
"""The `on_error` of `Client.process` returns what is written instead, as the function does, or raises."""

ProcessBatchFunction = Callable[[Records], object]
"""The function of `Client.process_batches` gets a list, and returns nothing, a list of outputs, or an awaitable of it."""

Source = ConsumerRecord | Records
"""An output is made of one record, or of a batch as a whole."""


class Output(NamedTuple):
    """One message that is written, and what it was made of."""

    record: Source
    message: Message


Work = Callable[[Records], Awaitable[list[Output]]]
"""Works on a batch. Raises `ProcessingError`."""


@contextlib.contextmanager
def failing_at(source: Source) -> Iterator[None]:
    """Rule 2: what is raised inside is about this record, or this batch."""
    try:
        yield
    except Exception as error:
        many = len(source) if isinstance(source, Records) else 0
        what = f"a batch of {many} records" if many else "a record"
        first: ConsumerRecord = source[0] if isinstance(source, Records) else source
        raised = errors.ProcessingError(
            f"the work on {what} failed with {type(error).__name__}: {error}; nothing of its batch is committed",
            topic=first.topic,
            partition=first.partition,
            offset=first.offset,
        )
        if many:
            raised.context["records"] = str(many)
        raise raised from error


def outputs(source: Source, given: object) -> list[Output]:
    """Turns what the function returned into messages. A bare value gets the key of its record; of a batch it has none."""
    if given is None:
        return []
    if isinstance(given, list | GeneratorType):  # a tuple is a value, as a named tuple is
        return [output for item in given for output in outputs(source, item)]
    if not isinstance(given, Message):
        given = Message(given) if isinstance(source, Records) else Message(given, source.key)
    return [Output(source, given)]


def each(fn: ProcessFunction, on_error: OnProcessError | None) -> Work:
    """Calls functions and coroutine functions in the event loop. Rules 1 to 3."""

    async def one(record: ConsumerRecord) -> list[Output]:
        try:
            return outputs(record, await _awaited(fn(record)))
        except Exception as error:
            if on_error is None:
                raise
            return outputs(record, await _awaited(on_error(record, error)))

    async def work(records: Records) -> list[Output]:
        made: list[Output] = []
        pace = Pace()
        for record in records:
            with failing_at(record):
                made += await one(record)
            await pace.give_turn()
        return made

    return work


async def _awaited(given: object) -> object:
    return await given if inspect.isawaitable(given) else given


def each_in_thread(fn: ProcessFunction, on_error: OnProcessError | None) -> Work:
    """Calls plain functions in a thread, a batch at a time, so that they may block. Rules 1, 2 and 5. Raises `ConfigError`."""
    _check_plain(fn, on_error)
    thread = _OwnThread()

    def one(record: ConsumerRecord) -> list[Output]:
        try:
            return outputs(record, fn(record))
        except Exception as error:
            if on_error is None:
                raise
            return outputs(record, on_error(record, error))

    def work(records: Records, batch: _Batch) -> list[Output]:
        made: list[Output] = []
        for record in records:
            if batch.is_given_up:
                break
            with failing_at(record):
                made += one(record)
        return made

    async def in_thread(records: Records) -> list[Output]:
        batch = _Batch()
        try:
            return await thread.run(work, records, batch)
        finally:
            batch.is_given_up = True

    return in_thread


class _OwnThread:
    """The thread of one call of `process`, which ends when nothing refers to this: those of the event loop are few, and
    connections need them too.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "oncelog-process")

    async def run(self, function: Callable[P, T], *given: P.args, **options: P.kwargs) -> T:
        """Calls it there."""
        call = partial(copy_context().run, function, *given, **options)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


class _Batch:
    """The batch that a thread works on."""

    def __init__(self) -> None:
        self.is_given_up = False
        """No caller waits for it any more."""


def _check_plain(*functions: Callable[..., object] | None) -> None:
    for function in functions:
        if inspect.iscoroutinefunction(function):
            raise errors.ConfigError("the client without await takes a plain function: give the async client this one")


# ---------------------------------------------------------------- batches


def whole(fn: ProcessBatchFunction) -> Work:
    """Calls a function or a coroutine function once for each batch, in the event loop. Rules 2 and 4."""

    async def work(records: Records) -> list[Output]:
        with failing_at(records):
            return outputs(records, await _awaited(fn(_copy(records))))

    return work


def whole_in_thread(fn: ProcessBatchFunction) -> Work:
    """Calls a plain function once for each batch, in a thread, so that it may block. Rules 2 and 4. Raises `ConfigError`."""
    _check_plain(fn)
    thread = _OwnThread()

    def work(records: Records) -> list[Output]:
        with failing_at(records):
            return outputs(records, fn(_copy(records)))

    async def in_thread(records: Records) -> list[Output]:
        return await thread.run(work, records)

    return in_thread


def _copy(records: Records) -> Records:
    copy: Records = Records(records.group)
    copy.extend(records)
    copy.offsets = dict(records.offsets)
    return copy
