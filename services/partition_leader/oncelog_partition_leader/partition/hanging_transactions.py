"""Ends hanging transactions: one that stays open for too long is ended as its coordinator decides.

Rule 1: a leader asks; it never decides. The answer carries the winners and the counts, exactly as a marker does (hole 5).
Rule 2: the marker is written through the partition's own queue, so it is decided and ordered like any other.
Rule 3: a shard whose owner does not answer is asked once a round, so it does not hold up transactions of other shards.
Rule 4: a transaction hangs when this leader has seen it open for so long, or when it is so old by the wall clock: a clock
        that is hours behind delays nothing, and one that is ahead only makes it ask too early.
Rule 5: internal topics are left alone: there the shard's owner is the participant, and ends its transactions (hole 14).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from oncelog.core.batch.control import Marker
from oncelog.errors import ErrorCode, OncelogError
from oncelog.ports import WallClock
from oncelog.types import PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.appends.commands import AppendMarkerCommand, Written
from oncelog_partition_leader.core.producers.transactions import OpenTransaction, TxnName
from oncelog_partition_leader.partition.coordinator_client import Coordinators
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.process.bugs import Bugs

_log = logging.getLogger(__name__)


class Healer:
    """Looks for hanging transactions in all partitions led here, at intervals."""

    def __init__(
        self,
        partitions: Mapping[PartitionId, LocalPartition],
        coordinators: Coordinators,
        config: BrokerConfig,
        clock: WallClock,
        bugs: Bugs,
    ) -> None:
        self._partitions = partitions
        self._coordinators = coordinators
        self._config = config
        self._clock = clock
        self._bugs = bugs
        self._seen_ms: dict[Leadership, dict[TxnName, int]] = {}
        """When this broker first saw each open transaction, by the monotonic clock."""

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._config.transaction_resolve_interval_ms / 1000)
            silent: dict[int, None] = {}
            self._seen_ms = {led: seen for led, seen in self._seen_ms.items() if led.ended is None}
            for partition in list(self._partitions.values()):
                try:
                    await self.heal(partition, silent)
                except Exception as error:
                    self._bugs.met("task", error, f"healing {partition.id}")

    async def heal(self, partition: LocalPartition, silent: dict[int, None] | None = None) -> None:
        """Ends the hanging transactions of one partition, except those of `silent` shards; adds shards that do not answer."""
        silent = {} if silent is None else silent
        leadership = partition.leadership
        if leadership is None or partition.topic in INTERNAL_TOPICS:
            return
        for opened in self._late(leadership):
            if leadership.ended is not None or opened.txn_shard in silent:
                continue
            try:
                marker = await self._coordinators.resolve(leadership.partition, opened)
            except OncelogError as error:
                _log.warning("transaction %s on %s stays open: %s", opened.name, partition.id, error)
                if error.code in (ErrorCode.NETWORK_ERROR, ErrorCode.REQUEST_TIMED_OUT):
                    silent[opened.txn_shard] = None
                continue
            try:
                if marker is not None:
                    await self._end(leadership, opened, marker)
            except OncelogError as error:
                _log.warning("transaction %s on %s stays open: %s", opened.name, partition.id, error)
                if error.retriable:
                    return  # the partition cannot append or commit at the moment

    def _late(self, leadership: Leadership) -> list[OpenTransaction]:
        """Returns the open transactions that hang by rule 4."""
        opened = list(leadership.log.producers.open_transactions)
        if not opened:
            self._seen_ms.pop(leadership, None)
            return []
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        before = self._seen_ms.get(leadership, {})
        seen = self._seen_ms[leadership] = {txn.name: before.get(txn.name, now_ms) for txn in opened}
        after_ms = self._config.transaction_resolve_after_ms
        return [txn for txn in opened if now_ms - seen[txn.name] >= after_ms or wall_ms - txn.open_since_ms >= after_ms]

    async def _end(self, leadership: Leadership, opened: OpenTransaction, marker: Marker) -> None:
        _log.info("ending %s on %s: committed=%s", opened.name, leadership.partition, marker.committed)
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        deadline_ms = self._clock.monotonic_ms() + self._config.coordinator_timeout_ms
        command = AppendMarkerCommand(done, deadline_ms, name=opened.name, txn_shard=opened.txn_shard, marker=marker)
        leadership.submit(command)
        await done
