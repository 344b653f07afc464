"""The room for records in a producer's memory, and the line of those who wait for it.

Rule 1: first come, first served. A record that is admitted has its room counted until its caller adds it.
Rule 2: a producer that has failed or is being closed takes no record, and ends every wait.
"""

from __future__ import annotations

import asyncio
from collections import deque

from oncelog import errors
from oncelog.client.home.context import now_ms
from oncelog.config import ProducerConfig
from oncelog.core.produce import obstacles
from oncelog.core.produce.deliveries import Deliveries


class Room:
    """See the module. One per sender; its length is the number of those who wait."""

    def __init__(self, config: ProducerConfig, deliveries: Deliveries) -> None:
        self._config = config
        self._max_bytes = config.max_request_size
        self._deliveries = deliveries
        self._queues = deliveries.queues
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_closing = False  # what is on its way is waited for, and nothing new is taken

    def __len__(self) -> int:
        return len(self._line)

    def may_add(self, size: int, beside: int = 0) -> bool:
        """There is room for a record now, and for `beside` bytes more. It only looks, from any thread.

        Raises `MessageTooLargeError`, or what stopped this producer.
        """
        if self._is_closing or self._deliveries.failure is not None:
            self.refuse_when_over()
        if size > self._max_bytes:
            raise errors.MessageTooLargeError(
                "the record is larger than max_request_size", bytes=size, max_request_size=self._max_bytes
            )
        return not self._line and self._queues.has_room(size, beside)

    async def reserve(self, size: int) -> None:
        """Waits for room; the caller adds its record before it waits for anything else.

        Raises `MessageTooLargeError`, `BufferExhaustedError`, or what stopped this producer.
        """
        if not self.may_add(size):
            await self._wait(size)
            self.refuse_when_over()

    def refuse_when_over(self) -> None:
        """Raises `IllegalStateError` once its close has begun, or what stopped this producer."""
        if self._is_closing:
            raise errors.IllegalStateError("the producer is closed")
        failure = self._deliveries.failure
        if failure is not None:
            # It is raised again and again: with each raise it would grow, and hold what its callers had in hand.
            raise failure.with_traceback(None)

    def close(self) -> None:
        """No record is taken from now on. Idempotent."""
        self._is_closing = True
        self.admit()

    def admit(self) -> None:
        """Admits waiters in order while there is room; all of them once this producer takes no more records."""
        while self._line and (self._is_over() or self._queues.has_room(self._line[0][0])):
            size, freed = self._line.popleft()
            self._queues.reserve(size)
            if not freed.done():
                freed.set_result(None)

    async def _wait(self, size: int) -> None:
        freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, freed)
        self._line.append(entry)
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                await freed
        except BaseException as error:
            if entry in self._line:
                self._line.remove(entry)
            else:
                self._queues.unreserve(size)
            self.admit()
            if not isinstance(error, TimeoutError):
                raise
            full = self._full()
            raise full from full.__cause__
        self._queues.unreserve(size)
        if self._line:  # once the caller has added its record, or could not: then the room is the next one's
            asyncio.get_running_loop().call_soon(self.admit)

    def _full(self) -> errors.BufferExhaustedError:
        oldest = next(iter(self._deliveries.open), None)
        obstacle = None if oldest is None else self._deliveries.obstacle(oldest, now_ms())
        return obstacles.no_room(self._config.max_block_ms, self._config.buffer_memory, oldest, obstacle)

    def _is_over(self) -> bool:
        return self._is_closing or self._deliveries.failure is not None
