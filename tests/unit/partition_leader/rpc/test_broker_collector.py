"""What a scrape of a broker says about its partitions, and that it never works for long without a pause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.metrics_cost import broker, led_partition
from oncelog_partition_leader.rpc.broker_collector import LATE_MARGIN_MS
from oncelog_runtime.observability.exposition import TEXT, render
from oncelog_runtime.observability.metrics import SLICE, Histogram, NodeMetrics


def told(metrics: NodeMetrics) -> dict[str, float]:
    """name{labels} -> value."""
    return {
        f"{family.metric.name}{{{labels}}}" if labels else family.metric.name: value
        for family in metrics.families()
        if family is not None
        for labels, value in family.rows
        if not isinstance(value, Histogram)
    }


def led(number: int, **changes: Any) -> Any:
    """A stand-in with another ISR, minimum, or oldest transaction."""
    partition = led_partition(number)
    partition.leadership.replicas.committed = changes.get("isr", (1, 2, 3))
    partition.leadership.replicas.min_insync_replicas = changes.get("min_insync", 2)
    partition.log.producers.oldest_open_since_ms = changes.get("open_since_ms")
    return partition


def test_a_healthy_partition() -> None:
    found = told(broker([led(4)]))
    where = '{topic="orders",partition="4"}'
    assert found[f"oncelog_partition_isr{where}"] == 3
    assert found[f"oncelog_partition_under_replicated{where}"] == 0
    assert found[f"oncelog_partition_at_min_isr{where}"] == 0
    assert found[f"oncelog_partition_high_watermark_offset{where}"] == 9
    assert found[f"oncelog_partition_last_stable_offset{where}"] == 7
    assert found[f"oncelog_partition_lso_lag{where}"] == 2
    assert found[f"oncelog_partition_log_end_offset{where}"] == 11
    assert found[f"oncelog_partition_size_bytes{where}"] == 1 << 20
    assert found["oncelog_partitions_led"] == found["oncelog_replicas"] == 1
    assert found["oncelog_orphaned_logs"] == found["oncelog_trashed_logs"] == 0
    assert found["oncelog_under_replicated_partitions"] == 0
    assert found["oncelog_partition_lso_lag_max"] == 2
    assert found['oncelog_storage_bytes{state="log"}'] == 1 << 20
    assert found['oncelog_storage_bytes{state="free"}'] == 1


@pytest.mark.parametrize(
    ("isr", "under_replicated", "under_min", "at_min"), [((1, 2, 3), 0, 0, 0), ((1, 2), 1, 0, 1), ((1,), 1, 1, 0)]
)
def test_isr_states(isr: tuple[int, ...], under_replicated: int, under_min: int, at_min: int) -> None:
    found = told(broker([led(0, isr=isr), led(1)]))
    assert found["oncelog_under_replicated_partitions"] == under_replicated
    assert found["oncelog_under_min_isr_partitions"] == under_min
    assert found["oncelog_at_min_isr_partitions"] == at_min


def test_a_transaction_is_late_five_minutes_after_the_largest_time_out() -> None:
    """KIP-664."""
    now_ms = 10_000_000
    late_ms = 900_000 + LATE_MARGIN_MS
    found = told(broker([led(0, open_since_ms=now_ms - late_ms), led(1)], now_ms=now_ms))
    assert found["oncelog_partitions_with_late_transactions"] == 0
    assert found["oncelog_txn_oldest_open_seconds"] == 1_200
    found = told(broker([led(0, open_since_ms=now_ms - late_ms - 1), led(1)], now_ms=now_ms))
    assert found["oncelog_partitions_with_late_transactions"] == 1


def test_a_follower_and_a_failed_log_say_nothing_of_the_partition() -> None:
    follower, failed = led_partition(1), led_partition(2)
    follower.leadership = None
    failed.failed, failed.leadership = SimpleNamespace(), None
    found = told(broker([follower, failed]))
    assert found["oncelog_replicas"] == 2
    assert found["oncelog_partitions_led"] == 0
    assert found["oncelog_failed_replicas"] == 1
    assert not [name for name in found if "partition=" in name]


def test_compaction_is_told_of_all_replicas() -> None:
    found = told(broker([led(0), led(1)]))
    names = ("passes_total", "failures_total", "read_bytes_total", "removed_bytes_total", "dirty_bytes")
    assert [found[f"oncelog_compaction_{name}"] for name in names] == [3, 2, 90, 40, 14]


def test_a_stalled_disk_is_told() -> None:
    assert told(broker([]))["oncelog_disk_stalled"] == 0
    assert told(broker([], stalled=True))["oncelog_disk_stalled"] == 1


def test_series_of_partitions_can_be_switched_off_and_the_totals_stay() -> None:
    found = told(broker([led(0, isr=(1,))], metrics_per_partition=False))
    assert not [name for name in found if "partition=" in name]
    assert found["oncelog_under_replicated_partitions"] == 1


@pytest.mark.parametrize("per_partition", [True, False])
def test_the_loop_turns_at_least_once_per_slice(per_partition: bool) -> None:
    looked: list[int] = []

    def count(partition: Any) -> Any:
        log = partition.log
        partition.log = type("Log", (), {"size_bytes": property(lambda _: looked.append(1) or 1)})()
        partition.leadership.log = log
        return partition

    count_of_partitions = 10 * SLICE
    metrics = broker(
        [count(led_partition(number)) for number in range(count_of_partitions)], metrics_per_partition=per_partition
    )
    before, lines = 0, 0
    for piece in render(metrics.families(), TEXT):
        lines += piece.count("\n")
        if not piece:
            assert len(looked) - before <= SLICE
            assert lines <= 510
            before, lines = len(looked), 0
    assert len(looked) == count_of_partitions
