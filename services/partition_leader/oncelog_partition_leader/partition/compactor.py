"""Compacts the logs of this broker whose topics ask for it, one after the other.

Rule 1: every replica compacts its own log, leader or follower, as far as it knows that it is committed. So replicas hold the
        same records at the same offsets, and not the same bytes.
Rule 2: one log at a time, at most `compaction_bytes_per_s`; all logs are looked at every `compaction_interval_ms`.
Rule 3: the reading and writing is done by a helper process of the lowest priority. It is started when a log is due, and ended
        when it had nothing to do for a minute. When it dies or freezes, the log is as it was.
Rule 4: a pass that fails leaves the log as it was, or fails the log, as a read that meets rot does. It is tried again, with
        pauses that grow. The others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from oncelog.errors import StorageError
from oncelog.types import PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.compaction.attempts import Attempts
from oncelog_partition_leader.log.compaction.pass_helper import HelperWorker
from oncelog_partition_leader.log.compaction.pass_job import Limits
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.ports import HelperGoneError, Helpers
from oncelog_runtime.process.bugs import Bugs

_log = logging.getLogger(__name__)
COMPACTS_INTERNAL_TOPICS: Final = False
"""The coordinators' own logs are left as they are: a replay of them still needs records that another one of the key follows."""
_IDLE_S: Final = 60.0
"""A helper costs some 75 MB of memory, and half a second of processor time at its start."""


class Compactor:
    """The compactor of one broker: `run` is one of its tasks. The counts only grow."""

    def __init__(
        self,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        partitions: Mapping[PartitionId, LocalPartition],
        bugs: Bugs,
        helpers: Helpers,
    ) -> None:
        self._config = config
        self._now_ms = now_ms
        self._partitions = partitions
        self._bugs = bugs
        self._limits = Limits(
            config.compaction_keys_max, config.compaction_key_bytes_max, config.compaction_bytes_per_s
        )
        self._worker = HelperWorker(helpers)
        self._worked_s = 0.0
        self._attempts: Attempts[PartitionId] = Attempts(config.compaction_interval_ms)
        self.passes = 0
        self.failures = 0
        self.bytes_read = 0
        self.bytes_removed = 0

    async def run(self) -> None:
        """Compacts until it is cancelled; returns at once when it is switched off."""
        try:
            while self._config.compaction_bytes_per_s:
                await asyncio.sleep(self._config.compaction_interval_ms / 1000)
                await self._round()
                if self._worker.is_up and _loop_s() - self._worked_s >= _IDLE_S:
                    self._worker.rest()
        finally:
            self._worker.rest()

    async def _round(self) -> None:
        self._attempts.keep(self._partitions)
        for name in sorted(name for name, partition in self._partitions.items() if self.takes(partition)):
            partition = self._partitions.get(name)
            if partition is not None and self.takes(partition) and self._attempts.may(name, int(_loop_s() * 1000)):
                await self._compact(partition)

    def takes(self, partition: LocalPartition) -> bool:
        """Returns True for a log that this compactor looks at."""
        may = COMPACTS_INTERNAL_TOPICS or partition.topic not in INTERNAL_TOPICS
        return may and partition.failed is None and partition.topic_config.log.is_compacted

    def dirty_bytes(self, partition: LocalPartition) -> int:
        """Returns the bytes of a log that no pass has looked at; 0 for a log that is not compacted."""
        return partition.log.dirty_bytes if self.takes(partition) else 0

    async def _compact(self, partition: LocalPartition) -> None:
        try:
            tally = await partition.compact(self._now_ms(), self._limits, self._worker)
        except (StorageError, HelperGoneError) as error:
            self._failed(partition, error)
        except Exception as error:
            self.failures += 1
            self._attempts.failed(partition.id, int(_loop_s() * 1000))
            self._bugs.met("task", error, f"compaction of {partition.id}")
        else:
            self._attempts.done(partition.id)
            if tally is not None:
                self._worked_s = _loop_s()
                self.passes += 1
                self.bytes_read += tally.bytes_seen
                self.bytes_removed += max(tally.bytes_seen - tally.bytes_kept, 0)

    def _failed(self, partition: LocalPartition, error: Exception) -> None:
        self.failures += 1
        pause_ms = self._attempts.failed(partition.id, int(_loop_s() * 1000))
        what = "the helper process ended; " if isinstance(error, HelperGoneError) else ""
        _log.warning(
            "compaction of %s-%d: %s%s; it is tried again in %d s",
            partition.topic,
            partition.id.partition,
            what,
            error,
            pause_ms // 1000,
        )


def _loop_s() -> float:
    """A time that never steps back; in a simulation the virtual one."""
    return asyncio.get_running_loop().time()
