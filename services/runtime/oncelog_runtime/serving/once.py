"""Executes each administrative call once: a repeated copy gets the first one's answer and changes nothing.

Rule 1: a call is named by its nonce, and belongs to one term of the process that executes it (a controller's election,
        an incarnation, an epoch of a shard). A term begins with an empty memory, so a call of another term is refused:
        whether it was executed before cannot be known.
Rule 2: a call runs to its end, even when the handler that started it is cancelled: the next copy waits for the same
        end.
Rule 3: a definite answer is kept. A retriable error is not: the caller will try again, with the same nonce.
Rule 4: an older client names no call; its calls are executed each time, as they were in its version.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, Final, TypeVar

from oncelog.errors import InvalidRequestError, OncelogError
from oncelog.v1 import types_pb2

T = TypeVar("T")
_KEPT: Final = 10_000
_NONCE_MAX: Final = 64
_Running = asyncio.Task[tuple[Any, OncelogError | None]]
"""A call under way. It ends with an answer, whose type differs from call to call, or with a refusal."""


class Once:
    """Remembers recently executed calls. `stale()` makes the refusal of a call that belongs to another term."""

    def __init__(self, stale: Callable[[], OncelogError], kept: int = _KEPT) -> None:
        self._stale = stale
        self._kept = kept
        self._calls: OrderedDict[tuple[str, int], _Running] = OrderedDict()

    async def run(self, call: types_pb2.CallIdentity, term: int, work: Callable[[], Awaitable[T]]) -> T:
        """Returns the outcome of `work`, or of its first copy. Raises its error, or the refusal of a call of another term."""
        if not call.nonce:
            return await work()
        if len(call.nonce) > _NONCE_MAX:
            raise InvalidRequestError("a nonce is too long", limit=_NONCE_MAX)
        if call.term != term:
            raise self._stale()
        key = (call.nonce, term)
        known = self._calls.get(key)
        if known is None:
            known = self._begin(key, work)
        outcome, refusal = await asyncio.shield(known)
        if refusal is not None:
            raise copy(refusal)
        result: T = outcome
        return result

    def _begin(self, key: tuple[str, int], work: Callable[[], Awaitable[object]]) -> _Running:
        async def execute() -> tuple[object, OncelogError | None]:
            try:
                return await work(), None
            except OncelogError as error:
                if error.retriable:
                    raise
                return None, copy(error)  # the original refers to frames, which hold the whole request

        task = self._calls[key] = asyncio.get_running_loop().create_task(execute(), name=f"call {key[0]}")
        task.add_done_callback(lambda done: self._ended(key, done))
        while len(self._calls) > self._kept and next(iter(self._calls.values())).done():
            self._calls.popitem(last=False)
        return task

    def _ended(self, key: tuple[str, int], task: asyncio.Task[object]) -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or (isinstance(error, OncelogError) and error.retriable):
            self._calls.pop(key, None)
