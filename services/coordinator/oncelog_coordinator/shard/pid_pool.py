"""A stock of producer ids for sessions, participants and idempotent producers.

Rule: an id is given once and never returned; ids that are in stock at a crash are lost. There are 2^62 of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from oncelog.errors import CoordinatorLoadInProgressError, OncelogError
from oncelog.ports import Transport
from oncelog.v1 import pid_allocator_pb2 as al
from oncelog.wire import methods
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_BACKOFF_S = 0.05


class PidPool:
    """Fetches a new range when less than half of the stock is left; one request at a time."""

    def __init__(
        self, transport: Transport, view: ClusterView, requester: str, prefetch: int = 100, timeout_ms: int = 5_000
    ) -> None:
        self._transport = transport
        self._view = view
        self._requester = requester
        self._prefetch = prefetch
        self._timeout_ms = timeout_ms
        self._stock: deque[tuple[int, int]] = deque()
        self._size = 0
        self._refilling: asyncio.Task[None] | None = None
        self._next_allocator = 0
        self._error: OncelogError | None = None
        self._tasks = TaskOwner(lambda error: _log.error("producer ids were not fetched: a bug", exc_info=error))

    @property
    def stock(self) -> int:
        """Ids that can be given without a request."""
        return self._size

    async def take(self, count: int) -> tuple[int, ...]:
        """Returns `count` ids that were never given before. Raises `CoordinatorLoadInProgressError` when none are
        available now.
        """
        while self._size < count:
            await asyncio.wait([self._refill()])
            if self._size < count and self._error is not None:
                if not self._error.retriable:
                    raise self._error
                raise CoordinatorLoadInProgressError("no producer ids at the moment", retry_after_ms=100)
        taken = tuple(self._take_one() for _ in range(count))
        if self._size < self._prefetch // 2:
            self._refill()
        return taken

    def prefetch(self) -> None:
        """Fills the stock ahead of the next request."""
        if self._size < self._prefetch // 2:
            self._refill()

    def _take_one(self) -> int:
        first, count = self._stock.popleft()
        if count > 1:
            self._stock.appendleft((first + 1, count - 1))
        self._size -= 1
        return first

    def _refill(self) -> asyncio.Task[None]:
        if self._refilling is None or self._refilling.done():
            self._refilling = self._tasks.spawn(self._fetch(), "producer ids")
        return self._refilling

    async def _fetch(self) -> None:
        allocators = sorted(self._view.allocators)
        for turn in range(max(1, len(allocators))):
            if not allocators:
                self._error = CoordinatorLoadInProgressError("no producer id service is registered")
                break
            address = allocators[(self._next_allocator + turn) % len(allocators)]
            request = al.AllocateProducerIdsRequest(count=self._prefetch, requester=self._requester)
            try:
                reply, _ = await methods.ALLOCATE_PRODUCER_IDS.call(self._transport, address, request, self._timeout_ms)
            except OncelogError as error:
                _log.warning("no producer ids from %s: %s", address, error)
                self._error = error
                continue
            self._next_allocator = (self._next_allocator + turn) % len(allocators)
            self._error = None
            for item in reply.ranges:
                self._stock.append((item.first, item.count))
                self._size += item.count
            return
        await asyncio.sleep(_BACKOFF_S)

    async def close(self) -> None:
        """Cancels a request in progress."""
        await self._tasks.stop()
