"""Reads every log of this broker slowly, in passes, so that rot is found before its last healthy copy rots too (S32).

Rule 1: it reads at most `scrub_bytes_per_s`, a piece at a time; a pass over everything begins at most every
        `scrub_interval_ms`, and at a random log, so that restarts do not favour the first ones.
Rule 2: it repairs nothing itself: rot fails the log, as rot found by a reader does, and the broker leaves that partition's
        ISR, re-scans the log and, when it is rotten, sets it aside and fetches it from the leader
        (docs/internals/storage.md#rot).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from random import Random

from oncelog.errors import StorageError
from oncelog.ports import WallClock
from oncelog.types import PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.partition.partition import LocalPartition

_log = logging.getLogger(__name__)


class Scrubber:
    """The scrubber of one broker: `run` is one of its tasks. `passes` and `bytes_read` only grow."""

    def __init__(
        self, config: BrokerConfig, clock: WallClock, random: Random, partitions: Mapping[PartitionId, LocalPartition]
    ) -> None:
        self._config = config
        self._clock = clock
        self._random = random
        self._partitions = partitions
        self.passes = 0
        self.bytes_read = 0

    async def run(self) -> None:
        """Scrubs until it is cancelled; returns at once when it is switched off."""
        while self._config.scrub_bytes_per_s:
            began_ms = self._clock.monotonic_ms()
            await self._pass()
            rest_ms = self._config.scrub_interval_ms - (self._clock.monotonic_ms() - began_ms)
            await asyncio.sleep(max(rest_ms, 1_000) / 1000)

    async def _pass(self) -> None:
        names = sorted(self._partitions)
        start = self._random.randrange(len(names)) if names else 0
        for name in (*names[start:], *names[:start]):
            partition = self._partitions.get(name)
            if partition is not None and partition.failed is None:
                await self._scrub(partition)
        self.passes += 1

    async def _scrub(self, partition: LocalPartition) -> None:
        try:
            async for checked_bytes in partition.log.scrub():
                self.bytes_read += checked_bytes
                await asyncio.sleep(checked_bytes / self._config.scrub_bytes_per_s)
        except StorageError as error:
            if partition.failed is None and partition.log.failed is not None:
                _log.error("scrubbing %s-%d: %s", partition.topic, partition.id.partition, error)
                partition.fail(error)
