"""The counters of a coordinator, and the gauges that a scrape reads from its shards.

Rule: a transaction is counted when its decision is committed, at most once: when the process loses the shard before
that, and the next owner finds the decision in the log, it is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from oncelog.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    InvalidProducerEpochError,
    OncelogError,
    ProducerFencedError,
    UnknownMemberError,
)
from oncelog_coordinator.core.decision import TransactionEnded
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.pid_pool import PidPool
from oncelog_coordinator.shard.shard import Shard
from oncelog_coordinator.shard.shard_observer import Observed, ShardObserver
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_view import ShardKey
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import SLICE, Family, NodeMetrics, Row, labels_of, one
from oncelog_runtime.process.bugs import Bugs

_FENCED: Final = (ProducerFencedError, InvalidProducerEpochError)
_FENCED_MEMBERS: Final = (FencedMemberEpochError, UnknownMemberError, FencedInstanceIdError)


class CoordinatorMetrics(ShardObserver):
    """The counters of one coordinator, which its shards report to."""

    def __init__(self, metrics: NodeMetrics, bugs: Bugs) -> None:
        self._bugs = bugs
        self._now_s = metrics.now_s
        self.decide = metrics.histogram(names.TXN_PHASE_SECONDS, "decide")
        self.mark = metrics.histogram(names.TXN_PHASE_SECONDS, "mark")
        self._duration = metrics.histogram(names.TXN_SECONDS)
        self._fenced = metrics.counter(names.FENCED)
        self._fenced_members = metrics.counter(names.GROUP_FENCED)
        self._rebalances = metrics.counter(names.GROUP_REBALANCES)
        self._failed_lives = {kind: metrics.counter(names.SHARD_FAILED_LIVES, kind) for kind in (KIND_TXN, KIND_GROUP)}
        self._ended = {
            outcome: metrics.counter(names.TXN_TOTAL, outcome) for outcome in ("committed", "aborted", "timed_out")
        }

    @property
    def now_s(self) -> Callable[[], float]:
        """The clock for durations, in seconds."""
        return self._now_s

    def queued(self, seen: Observed) -> None:
        """Notes when the command arrived."""
        seen.since_s = self._now_s()

    def committed(self, observed: Sequence[Observed]) -> None:
        """Counts the transactions that these commands have decided; a time-out was brought by no caller."""
        for seen in observed:
            for ended in seen.ended:
                self._count(ended, seen.since_s)

    def _count(self, ended: TransactionEnded, since_s: float) -> None:
        self._ended[ended.outcome].inc()
        if ended.duration_ms >= 0:
            self._duration.observe(ended.duration_ms / 1000)
        if since_s:
            self.decide.observe(self._now_s() - since_s)

    def bug(self, error: Exception, shard: str, command: str) -> OncelogError:
        """Counts and reports an unexpected exception."""
        return self._bugs.met("decision", error, f"{shard} {command}")

    def refused(self, error: OncelogError) -> None:
        """Counts a refusal that fenced the caller."""
        if isinstance(error, _FENCED):
            self._fenced.inc()
        elif isinstance(error, _FENCED_MEMBERS):
            self._fenced_members.inc()

    def rebalanced(self) -> None:
        """Counts a new assignment of a group, once it is committed."""
        self._rebalances.inc()

    def life_failed(self, kind: str) -> None:
        """Counts a failed life of a shard."""
        self._failed_lives[kind].inc()


class CoordinatorCollector:
    """Reads gauges from the shards; `collect` is a `metrics.Collector`. `shards` is the dict that the ownership maintains."""

    def __init__(self, clock: SteadyClock, shards: dict[ShardKey, Shard], pool: PidPool) -> None:
        self._clock = clock
        self._shards = shards
        self._pool = pool

    def collect(self) -> Iterator[Family | None]:
        """Yields all gauges of this coordinator except the lag of groups."""
        opened = completing = ids = queued = 0
        oldest_ms = now_ms = self._clock.now_ms()
        count = 0
        for shard in list(self._shards.values()):
            if not shard.is_serving:
                continue
            queued += shard.life.waiting
            table = shard.life.table
            if not isinstance(table, TransactionTable):
                continue
            ids += len(table.index.entries)
            completing += len(table.index.completing)
            opened += len(table.index.open)
            for name in list(table.index.open):
                entry = table.index.entries.get(name)
                if entry is not None and entry.record.open is not None:
                    oldest_ms = min(oldest_ms, entry.record.open.started_ms)
                count += 1
                if count % SLICE == 0:
                    yield None
        yield one(names.TXN_OPEN, opened)
        yield one(names.TXN_COMPLETING, completing)
        yield one(names.TXN_IDS, ids)
        yield one(names.TXN_OLDEST, max(0, now_ms - oldest_ms) / 1000)
        yield one(names.SHARD_QUEUE, queued)
        yield one(names.PID_STOCK, self._pool.stock)
        yield self._owned()

    def _owned(self) -> Family:
        rows: list[Row] = []
        for kind in (KIND_TXN, KIND_GROUP):
            mine = [shard for (of_kind, _), shard in self._shards.items() if of_kind == kind]
            rows.append((labels_of(names.SHARDS, kind, "owned"), len(mine)))
            rows.append((labels_of(names.SHARDS, kind, "serving"), sum(shard.is_serving for shard in mine)))
            rows.append((labels_of(names.SHARDS, kind, "troubled"), sum(bool(s.vitality.trouble) for s in mine)))
        return Family(names.SHARDS, rows)
