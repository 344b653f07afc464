"""The process memory that one request may take for its answer, from its handler until the answer was sent.

Rule 1: a handler takes bytes before it reads or unpacks them, and waits its turn when there are none; the server
        releases them once, when the answer was written or cannot be delivered any more.
Rule 2: like `CALL`, `ADMISSION` is set by the server before the handler starts; no code may depend on it being set.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Final

from oncelog_runtime.core.budget import Budget


class Admission:
    """The bytes that one request has taken of its connection's budget."""

    __slots__ = ("_budget", "answer_bytes_max", "held_bytes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.held_bytes = 0
        self.answer_bytes_max: int | None = None
        """The largest answer by the caller's quota, where the handler can choose its size; None = no limit."""

    @property
    def available_bytes(self) -> int:
        """The bytes that may be taken now."""
        return self._budget.available_bytes

    def take(self, size: int) -> None:
        """Takes bytes now. Raises `ResourceExhaustedError`, and then takes nothing."""
        self._budget.reserve(size)
        self.held_bytes += size

    async def wait(self, size: int, timeout_ms: float) -> None:
        """Takes bytes when it is this request's turn. Raises `ResourceExhaustedError` after `timeout_ms`."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = self._budget.wait(size, lambda: None if granted.done() else granted.set_result(None))
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                await granted
        except TimeoutError:
            refusal = self._budget.refusal(size)
            self._budget.give_up(waiter)
            raise refusal from None
        except BaseException:
            self._budget.give_up(waiter)
            raise
        self.held_bytes += size

    def keep(self, size: int) -> None:
        """Releases the bytes above `size`."""
        if self.held_bytes > size:
            released, self.held_bytes = self.held_bytes - size, size
            self._budget.release(released)

    def close(self) -> None:
        """Releases everything. May be called repeatedly."""
        self.keep(0)


ADMISSION: Final[ContextVar[Admission | None]] = ContextVar("oncelog_admission", default=None)
