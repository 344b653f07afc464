"""Starts calls in the order in which they were numbered, whatever order their tasks first run in.

The transport keeps the order of calls as they are made; the event loop promises nothing about the order of new tasks.
A pipelined batch that overtakes its predecessor would be refused as a gap and sent again: right, but slow.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Numbers calls, and lets each begin when all with lower numbers have begun or were given up."""

    def __init__(self) -> None:
        self._drawn = 0
        self._next = 0
        self._passed: set[int] = set()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def draw(self) -> int:
        """A number for a call that will be made, or passed, later."""
        self._drawn += 1
        return self._drawn - 1

    async def run(self, number: int, make_call: Callable[[], Coroutine[object, None, T]]) -> T:
        """Makes the call in its turn and waits for its result. Never waits for another call's result."""
        try:
            if number != self._next:
                self._waiting[number] = asyncio.get_running_loop().create_future()
                await self._waiting[number]
        except BaseException:
            self.give_up(number)
            raise
        return await _begin(make_call(), lambda: self.give_up(number))

    def give_up(self, number: int) -> None:
        """Calls behind this number need not wait for it. Any number of times."""
        if number < self._next or number in self._passed:
            return
        self._waiting.pop(number, None)
        self._passed.add(number)
        while self._next in self._passed:
            self._passed.remove(self._next)
            self._next += 1
        waiter = self._waiting.get(self._next)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


@types.coroutine
def _begin(call: Coroutine[object, None, T], on_begun: Callable[[], None]) -> Generator[object, None, T]:
    """Awaits the call; `on_begun` runs as soon as its first step is done."""
    try:
        waits_for = call.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        on_begun()
    while True:
        try:
            value = yield waits_for
        except GeneratorExit:
            call.close()
            raise
        except BaseException as error:
            step: Callable[[], object] = lambda error=error: call.throw(error)  # type: ignore[misc] # noqa: E731
        else:
            step = lambda value=value: call.send(value)  # type: ignore[misc] # noqa: E731
        try:
            waits_for = step()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
