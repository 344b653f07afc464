"""Calls the caller's function for each record of a batch, and says which output came of which record.

Rule 1: records are worked on one after the other, in the order in which they were read.
Rule 2: an error of the function is raised as `ProcessingError`, which names the record; `on_error` may return what is written
        instead.
Rule 3: between records the event loop gets its turn, so that many short calls do not hold up the member's heartbeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from types import GeneratorType
from typing import Any, NamedTuple

from oncelog import errors
from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.consume.pace import Pace
from oncelog.client.produce.writer import Message

ProcessFunction = Callable[[ConsumerRecord[Any, Any]], object]
"""The function of `Client.process` returns nothing, a value, a `Message`, a list of those, or an awaitable of it."""
OnProcessError = Callable[[ConsumerRecord[Any, Any], Exception], object]
"""The `on_error` of `Client.process` returns what is written instead, as the function does, or raises."""


class Output(NamedTuple):
    """One message that is written, and the record that it was made of."""

    record: ConsumerRecord[Any, Any]
    message: Message[Any, Any]


Work = Callable[[Records[Any, Any]], Awaitable[list[Output]]]
"""Works on a batch. Raises `ProcessingError`."""


@contextlib.contextmanager
def failing_at(record: ConsumerRecord[Any, Any]) -> Iterator[None]:
    """Rule 2: what is raised inside is about this record."""
    try:
        yield
    except Exception as error:
        raise errors.ProcessingError(
            f"the work on a record failed with {type(error).__name__}: {error}; nothing of its batch is committed",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        ) from error


def outputs(record: ConsumerRecord[Any, Any], given: object) -> list[Output]:
    """Turns what the function returned into messages. A bare value gets the key of the record."""
    if given is None:
        return []
    if isinstance(given, list | GeneratorType):  # a tuple is a value, as a named tuple is
        return [output for item in given for output in outputs(record, item)]
    return [Output(record, given if isinstance(given, Message) else Message(given, record.key))]


def each(fn: ProcessFunction, on_error: OnProcessError | None) -> Work:
    """Calls functions and coroutine functions in the event loop. Rules 1 to 3."""

    async def one(record: ConsumerRecord[Any, Any]) -> list[Output]:
        try:
            return outputs(record, await _awaited(fn(record)))
        except Exception as error:
            if on_error is None:
                raise
            return outputs(record, await _awaited(on_error(record, error)))

    async def work(records: Records[Any, Any]) -> list[Output]:
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
    """Calls plain functions in a thread, a batch at a time, so that they may block. Rules 1 and 2. Raises `ConfigError`."""
    for function in (fn, on_error):
        if inspect.iscoroutinefunction(function):
            raise errors.ConfigError("the client without await takes a plain function: give the async client this one")

    def one(record: ConsumerRecord[Any, Any]) -> list[Output]:
        try:
            return outputs(record, fn(record))
        except Exception as error:
            if on_error is None:
                raise
            return outputs(record, on_error(record, error))

    def work(records: Records[Any, Any]) -> list[Output]:
        made: list[Output] = []
        for record in records:
            with failing_at(record):
                made += one(record)
        return made

    async def in_thread(records: Records[Any, Any]) -> list[Output]:
        return await asyncio.to_thread(work, records)

    return in_thread
