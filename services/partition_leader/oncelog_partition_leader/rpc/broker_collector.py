"""The metrics that a scrape reads from a broker: its replicas, and on the controller the cluster.

Rule 1: only the leader exports a partition's series, so sums over brokers count nothing twice; the controller exports those
        about the whole cluster, which are 0 on other brokers.
Rule 2: all numbers of a partition are of one instant; those of two partitions may not be (other tasks run in between).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from oncelog.errors import StorageError
from oncelog_partition_leader.cluster.controller import Controller
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.partition.compactor import Compactor
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import SLICE, Family, Row, labels_of, one
from oncelog_runtime.ports import Disk, WallClock

_log = logging.getLogger(__name__)

LATE_MARGIN_MS: Final = 300_000
"""KIP-664: a transaction is late 5 minutes after the largest time-out, which leaves time for the abort itself."""

_COLUMNS: Final = (
    names.PARTITION_UNDER_REPLICATED,
    names.PARTITION_UNDER_MIN_ISR,
    names.PARTITION_AT_MIN_ISR,
    names.PARTITION_ISR,
    names.PARTITION_LOG_START,
    names.PARTITION_LAST_STABLE,
    names.PARTITION_HIGH_WATERMARK,
    names.PARTITION_LOG_END,
    names.PARTITION_LSO_LAG,
    names.PARTITION_SIZE,
)


@dataclass(slots=True)
class _Totals:
    led: int = 0
    failed: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    late: int = 0
    lso_lag_max: int = 0
    oldest_ms: int = 0
    queued: int = 0
    log_bytes: int = 0
    dirty_bytes: int = 0
    labels: list[str] = field(default_factory=list)
    columns: tuple[list[int], ...] = field(default_factory=lambda: tuple([] for _ in _COLUMNS))
    """One number per partition in each: the garbage collector does not look into lists of plain numbers one by one."""


class BrokerCollector:
    """Collects the metrics of one broker; `collect` is a `metrics.Collector`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: WallClock,
        disk: Disk,
        view: ClusterView,
        replicas: ReplicaManager,
        controller: Controller,
        compactor: Compactor,
    ) -> None:
        self._clock = clock
        self._disk = disk
        self._view = view
        self._replicas = replicas
        self._controller = controller
        self._compactor = compactor
        self._per_partition = config.metrics_per_partition
        self._late_after_ms = config.transaction_max_timeout_ms + LATE_MARGIN_MS

    def collect(self) -> Iterator[Family | None]:
        """Yields all metrics of this broker; None lets other tasks run."""
        totals = _Totals()
        for count, partition in enumerate(list(self._replicas.partitions.values()), 1):
            self._look(partition, totals)
            if count % SLICE == 0:
                yield None
        yield from self._replica_families(totals)
        if self._per_partition:
            for metric, column in zip(_COLUMNS, totals.columns, strict=True):
                yield Family(metric, zip(totals.labels, column, strict=True))
        yield from self._compaction(totals)
        yield from self._traffic()
        yield from self._cluster()

    # ------------------------------------------------------------ replicas

    def _look(self, partition: LocalPartition, totals: _Totals) -> None:
        size = partition.log.size_bytes
        totals.log_bytes += size
        totals.dirty_bytes += self._compactor.dirty_bytes(partition)
        totals.failed += partition.failed is not None
        leadership = partition.leadership
        if leadership is not None and leadership.ended is None:
            self._look_at_led(leadership, size, totals)

    def _look_at_led(self, leadership: Leadership, size: int, totals: _Totals) -> None:
        replicas, log = leadership.replicas, leadership.log
        isr = len(replicas.committed)
        under_replicated = isr < replicas.replica_count
        under_min, at_min = isr < replicas.min_insync_replicas, isr == replicas.min_insync_replicas
        high_watermark = leadership.high_watermark
        stable = log.last_stable_offset(high_watermark)
        lag = high_watermark - stable
        totals.led += 1
        totals.under_replicated += under_replicated
        totals.under_min_isr += under_min
        totals.at_min_isr += at_min
        totals.lso_lag_max = max(totals.lso_lag_max, lag)
        totals.queued += leadership.waiting
        since_ms = log.producers.oldest_open_since_ms
        if since_ms is not None:
            age_ms = self._clock.now_ms() - since_ms
            totals.oldest_ms = max(totals.oldest_ms, age_ms)
            totals.late += age_ms > self._late_after_ms
        if not self._per_partition:
            return
        totals.labels.append(labels_of(names.PARTITION_ISR, leadership.topic, str(leadership.partition.partition)))
        values = (
            *(int(under_replicated), int(under_min), int(at_min), isr),
            *(log.log_start_offset, stable, high_watermark, log.log_end_offset, lag, size),
        )
        for column, value in zip(totals.columns, values, strict=True):
            column.append(value)

    def _replica_families(self, totals: _Totals) -> Iterator[Family]:
        yield one(names.PARTITIONS_LED, totals.led)
        yield one(names.REPLICAS, len(self._replicas.partitions))
        yield one(names.FAILED_REPLICAS, totals.failed + len(self._replicas.unopened))
        yield one(names.DISK_STALLED, int(self._replicas.disk_watch.stalled))
        yield one(names.ORPHANED_LOGS, len(self._replicas.leftovers.orphans))
        yield one(names.TRASHED_LOGS, len(self._replicas.leftovers.trashed))
        yield one(names.UNDER_REPLICATED, totals.under_replicated)
        yield one(names.UNDER_MIN_ISR, totals.under_min_isr)
        yield one(names.AT_MIN_ISR, totals.at_min_isr)
        yield one(names.LATE, totals.late)
        yield one(names.LSO_LAG_MAX, totals.lso_lag_max)
        yield one(names.TXN_OLDEST, totals.oldest_ms / 1000)
        yield one(names.APPEND_QUEUE, totals.queued)
        states = {"log": totals.log_bytes}
        try:
            space = self._disk.space()
        except StorageError as error:
            _log.warning("the volume's room is not known: %s", error)
        else:
            states |= {"free": space.free_bytes, "total": space.total_bytes}
        yield Family(names.STORAGE, [(labels_of(names.STORAGE, state), value) for state, value in states.items()])

    def _compaction(self, totals: _Totals) -> Iterator[Family]:
        compactor = self._compactor
        yield one(names.COMPACTION_PASSES, compactor.passes)
        yield one(names.COMPACTION_FAILURES, compactor.failures)
        yield one(names.COMPACTION_BYTES_READ, compactor.bytes_read)
        yield one(names.COMPACTION_BYTES_REMOVED, compactor.bytes_removed)
        yield one(names.COMPACTION_DIRTY, totals.dirty_bytes)

    def _traffic(self) -> Iterator[Family | None]:
        """Yields the counters by topic; those of a deleted topic are dropped."""
        traffic = self._replicas.metrics.traffic
        for topic in [topic for topic in traffic if topic not in self._view.topics]:
            del traffic[topic]
        labelled = [(labels_of(names.RECORDS_IN, topic), counts) for topic, counts in traffic.items()]
        yield Family(names.RECORDS_IN, [(labels, counts.records_in) for labels, counts in labelled])
        yield Family(names.BYTES_IN, [(labels, counts.bytes_in) for labels, counts in labelled])
        yield None
        yield Family(names.RECORDS_OUT, [(labels, counts.records_out) for labels, counts in labelled])
        yield Family(names.BYTES_OUT, [(labels, counts.bytes_out) for labels, counts in labelled])
        by_followers = [(labels, counts.follower_bytes_out) for labels, counts in labelled]
        yield Family(names.FOLLOWER_BYTES_OUT, by_followers)

    # ------------------------------------------------------------ the cluster

    def _cluster(self) -> Iterator[Family | None]:
        view = self._view
        leads = self._controller.is_controller
        leaderless = 0
        for count, entry in enumerate(list(view.partitions.values()) if leads else [], 1):
            leader = entry.value.leader
            leaderless += leader is None or not view.is_live(leader)
            if count % SLICE == 0:
                yield None
        yield one(names.ACTIVE_CONTROLLER, int(leads))
        yield one(names.LEADERLESS, leaderless)
        registered = {
            "partition_leader": len(view.brokers),
            "coordinator": len(view.coordinators),
            "pid_allocator": len(view.allocators),
        }
        rows: list[Row] = [
            (labels_of(names.REGISTERED, component), count if leads else 0) for component, count in registered.items()
        ]
        yield Family(names.REGISTERED, rows)
        shards = [(labels_of(names.OWNERLESS_SHARDS, kind), self._ownerless(kind) if leads else 0) for kind in _KINDS]
        yield Family(names.OWNERLESS_SHARDS, list(shards))

    def _ownerless(self, kind: str) -> int:
        cluster = self._view.cluster
        if cluster is None:
            return 0
        count = cluster.transaction_shards if kind == KIND_TXN else cluster.group_shards
        return sum(self._view.owner_of(kind, shard) is None for shard in range(count))


_KINDS: Final = (KIND_TXN, KIND_GROUP)
