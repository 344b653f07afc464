"""Events are counted where metrics read them."""

from __future__ import annotations

from typing import Any

from oncelog.types import BrokerRef
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.replication.observe.metrics_observer import MetricsObserver
from oncelog_runtime.observability.metrics import NodeMetrics


def test_records_leaders_and_isr_are_counted_and_the_rest_is_not() -> None:
    metrics = BrokerMetrics(NodeMetrics())
    observer = MetricsObserver(metrics)
    observer.fetched("orders", 3, 100, by_follower=False)
    observer.fetched("orders", 1, 20, by_follower=True)
    observer.fetched("other", 1, 1, by_follower=False)
    assert (metrics.traffic_of("orders").records_out, metrics.traffic_of("orders").bytes_out) == (4, 120)
    assert metrics.traffic_of("orders").follower_bytes_out == 20
    observer.leads()
    assert metrics.leader_changes.value == 1
    a, b, c = (BrokerRef(number, 1) for number in range(3))
    observer.isr_changed((a, b), (a, c))
    assert (metrics._isr_shrinks.value, metrics._isr_expands.value) == (1, 1)
    unused: Any = None
    observer.sends(unused, unused)
    with observer.follows(5, 1):
        pass
    assert metrics.leader_changes.value == 1
