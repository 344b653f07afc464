"""What metrics cost: one event on the hot path, and one scrape of a broker with 10,000 led partitions.

    python -m bench.metrics_cost

Rule: times are processor time of this thread, the best of five runs, so a busy machine changes them little. The
partitions are stand-ins with the attributes that a scrape reads; the collector and the text are the broker's own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import prometheus_client

from oncelog.types import Buffer, PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.rpc.broker_collector import BrokerCollector
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.exposition import TEXT, render
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.ports import DiskSpace

PARTITIONS = 10_000
EVENT_LIMIT_US = 2.0
STEP_LIMIT_MS = 5.0


def event_us(event: Callable[[], object], times: int = 200_000) -> float:
    """Microseconds of one call, with the loop around it."""
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        for _ in range(times):
            event()
        best = min(best, time.thread_time() - start)
    return best / times * 1e6


def handler_us() -> float:
    """What timing a request adds to its handler."""
    metrics = NodeMetrics(time.perf_counter)

    async def bare(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        return header, payload

    timed = metrics.timed("PartitionLeader.Produce", bare)

    async def run(handler: Any, times: int = 100_000) -> float:
        start = time.thread_time()
        for _ in range(times):
            await handler(b"", b"")
        return (time.thread_time() - start) / times * 1e6

    def best(handler: Any) -> float:
        return min(asyncio.run(run(handler)) for _ in range(5))

    return best(timed) - best(bare)


def led_partition(number: int) -> Any:
    """A stand-in for a partition that is led here."""
    log = SimpleNamespace(
        size_bytes=1 << 20,
        log_start_offset=0,
        log_end_offset=number + 7,
        last_stable_offset=lambda high_watermark: high_watermark - 2,
        producers=SimpleNamespace(oldest_open_since_ms=None),
    )
    leadership = SimpleNamespace(
        ended=None,
        topic="orders",
        partition=PartitionId("0" * 32, number),
        high_watermark=number + 5,
        waiting=0,
        log=log,
        replicas=SimpleNamespace(committed=(1, 2, 3), replica_count=3, min_insync_replicas=2),
    )
    return SimpleNamespace(log=log, failed=None, leadership=leadership)


def broker(partitions: Iterable[Any], now_ms: int = 0, stalled: bool = False, **config: Any) -> NodeMetrics:
    """The metrics of a broker that has these."""
    metrics = NodeMetrics(time.perf_counter)
    leftovers = SimpleNamespace(orphans=(), trashed=())
    replicas = SimpleNamespace(
        partitions=dict(enumerate(partitions)),
        metrics=BrokerMetrics(metrics),
        disk_watch=SimpleNamespace(stalled=stalled),
        unopened={},
        leftovers=leftovers,
    )
    collector = BrokerCollector(
        BrokerConfig(**config),
        cast(Any, SimpleNamespace(now_ms=lambda: now_ms)),
        cast(Any, SimpleNamespace(space=lambda: DiskSpace(1, 2))),
        ClusterView(),
        cast(Any, replicas),
        cast(Any, SimpleNamespace(is_controller=True)),
        cast(Any, SimpleNamespace(passes=3, failures=2, bytes_read=90, bytes_removed=40, dirty_bytes=lambda _: 7)),
    )
    metrics.collect_with(collector.collect)
    return metrics


def scrape_ms(metrics: NodeMetrics) -> tuple[float, float, int]:
    """(all of a scrape, its longest step between two turns of the loop, series)"""
    start = last = time.thread_time()
    longest, series = 0.0, 0
    for piece in render(metrics.families(), TEXT):
        series += piece.count("\n")
        if not piece:
            now = time.thread_time()
            longest, last = max(longest, now - last), now
    return (time.thread_time() - start) * 1e3, longest * 1e3, series


def main() -> int:
    """Prints a table; exit code 1 when a limit is passed."""
    metrics = BrokerMetrics(NodeMetrics(time.perf_counter))
    traffic = metrics.traffic_of("orders")
    child = prometheus_client.Histogram(
        "x", "x", ["phase"], registry=prometheus_client.CollectorRegistry(), buckets=names.PHASE_BUCKETS
    ).labels("queue")

    def batch() -> None:
        """All that is counted of one produced batch."""
        start_s = metrics.now_s()
        traffic.records_in += 1
        traffic.bytes_in += 100
        metrics.queue.observe(0.0004)
        metrics.append.observe(0.0002)
        metrics.replicate.observe(metrics.now_s() - start_s)

    events = {
        "counter": event_us(metrics.leader_changes.inc),
        "histogram": event_us(lambda: metrics.queue.observe(0.0004)),
        "histogram of prometheus-client, for comparison": event_us(lambda: child.observe(0.0004)),
        "one produced batch (5 numbers)": event_us(batch),
        "timing one request": handler_us(),
    }
    for name, cost_us in events.items():
        print(f"{name:<50} {cost_us:8.2f} us")
    steps = []
    for per_partition in (True, False):
        whole, longest, series = min(
            scrape_ms(broker(map(led_partition, range(PARTITIONS)), metrics_per_partition=per_partition))
            for _ in range(3)
        )
        steps.append(longest)
        what = f"scrape, {PARTITIONS} partitions, {series} series"
        print(f"{what:<50} {whole:8.1f} ms of work, longest step {longest:.1f} ms")
    return 0 if max(events.values()) < EVENT_LIMIT_US and max(steps) < STEP_LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
