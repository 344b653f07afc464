"""The producer id service: a pool of won blocks, one task that refills it, one handler that takes from it.

Rule 1: one request for a block is in flight at a time; it begins when 90 % of the last block are used.
Rule 2: after a lost answer its block is never used: the next attempt reads the key again and goes above it.
Rule 3: the process keeps no state of its own; any number of instances work side by side on one etcd key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from oncelog.errors import CoordinatorLoadInProgressError, OncelogError
from oncelog.types import Buffer
from oncelog.v1 import pid_allocator_pb2 as pb
from oncelog.wire import methods
from oncelog_pid_allocator.config import PidAllocatorConfig
from oncelog_pid_allocator.core.blocks import LIMIT, Block, BlockPool, next_block
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import Family, one
from oncelog_runtime.ports import Compare, Put
from oncelog_runtime.process.lease import Registration
from oncelog_runtime.security.gate import handler_of

_log = logging.getLogger(__name__)


class PidAllocator:
    """One instance of the producer id service."""

    def __init__(self, config: PidAllocatorConfig, ports: NodePorts) -> None:
        self._config = config
        self._ports = ports
        self._pool = BlockPool()
        self._refill_wanted = asyncio.Event()
        self._block_added = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._registration: Registration | None = None
        self._address = ""
        self.fatal: OncelogError | None = None
        self._allocations = ports.metrics.counter(names.PID_ALLOCATIONS)
        ports.metrics.collect_with(self._collect)
        spec = methods.ALLOCATE_PRODUCER_IDS
        ports.server.register(spec.name, handler_of(spec, self._serve))

    async def start(self) -> None:
        """Listens, registers its address and asks for the first block."""
        listening = await self._ports.server.start()
        self._address = self._config.advertised_address or listening
        self._refill_wanted.set()
        self._registration = Registration(
            self._ports.metadata, f"{cluster_keys.ALLOCATORS}{self._address}", b"", self._config.lease_ttl_ms
        )
        self._tasks = [asyncio.create_task(self._refill()), asyncio.create_task(self._registration.run())]

    async def stop(self, grace_ms: int) -> None:
        """Withdraws the registration, finishes calls in progress, and stops."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._registration is not None:
            await self._registration.withdraw()
        await self._ports.server.stop(grace_ms)

    def check(self) -> None:
        """Asserts the invariants of the pool."""
        self._pool.check()

    def _collect(self) -> Iterator[Family | None]:
        yield one(names.PID_STOCK, self._pool.available())
        yield one(names.PID_SPACE_USED, (self._pool.highest_end + 1) / LIMIT)

    # ------------------------------------------------------------ serving

    async def _serve(
        self, request: pb.AllocateProducerIdsRequest, _payload: Buffer
    ) -> tuple[pb.AllocateProducerIdsReply, Buffer]:
        ranges = await self.allocate(request.count)
        items = [pb.ProducerIdRange(first=first, count=count) for first, count in ranges]
        return pb.AllocateProducerIdsReply(ranges=items), b""

    async def allocate(self, count: int) -> list[tuple[int, int]]:
        """Reserves ids as (first, count) ranges.

        Raises `InvalidRequestError` for a count outside 1..1000, `IdSpaceExhaustedError` or `AllocatorRolledBackError`
        when no block can ever be won, `CoordinatorLoadInProgressError` when none came within `wait_for_block_ms`.
        """
        deadline_ms = self._ports.clock.monotonic_ms() + self._config.wait_for_block_ms
        while (ranges := self._pool.take(count)) is None:
            if self.fatal is not None:
                raise self.fatal
            self._refill_wanted.set()
            await self._wait_for_block(deadline_ms)
        self._allocations.inc(count)
        if self._pool.wants_block():
            self._refill_wanted.set()
        return ranges

    async def _wait_for_block(self, deadline_ms: int) -> None:
        left_ms = deadline_ms - self._ports.clock.monotonic_ms()
        try:
            async with asyncio.timeout(max(0, left_ms) / 1000), self._block_added:
                await self._block_added.wait()
        except TimeoutError:
            raise CoordinatorLoadInProgressError(
                "no block of producer ids could be won from etcd in time", retry_after_ms=self._config.refill_backoff_ms
            ) from None

    # ------------------------------------------------------------ refilling

    async def _refill(self) -> None:
        while True:
            await self._refill_wanted.wait()
            self._refill_wanted.clear()
            # Checked again: several callers may have asked for the block that has just been added.
            if not self._pool.wants_block():
                continue
            try:
                won = await self._win_block()
            except OncelogError as error:
                self._note_failure(error)
                won = False
            if not won:
                await asyncio.sleep(self._config.refill_backoff_ms / 1000)
                self._refill_wanted.set()
            async with self._block_added:
                self._block_added.notify_all()

    def _note_failure(self, error: OncelogError) -> None:
        _log.warning("no block of producer ids: %s", error)
        self.fatal = error if error.fatal else None

    async def _win_block(self) -> bool:
        """Tries one compare-and-swap; True = won. When the answer is lost it raises, and a block that it may have won
        is never used.
        """
        key = cluster_keys.PRODUCER_ID_BLOCK_KEY
        found = await self._ports.metadata.get(key)
        previous = None if found is None else Block.decode(found.value)
        block = next_block(previous, self._ports.clock.now_ms(), self._address)
        result = await self._ports.metadata.commit(
            [Compare(key, 0 if found is None else found.mod_revision)], [Put(key, block.encode())]
        )
        if result.succeeded:
            self._pool.add(block)
            self.fatal = None
        return result.succeeded
