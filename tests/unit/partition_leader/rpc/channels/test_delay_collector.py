"""The metrics of delayed records: by topic, over the partitions that are led here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog_partition_leader.core.delays.scheduler import Summary
from oncelog_partition_leader.partition.delays.troubles import Troubles
from oncelog_partition_leader.rpc.channels import delay_collector
from oncelog_partition_leader.rpc.channels.delay_collector import DelayCollector

NOW_MS = 1_000_000


def collected(*summaries: tuple[str, Summary], failures: int = 0) -> dict[str, dict[str, float]]:
    host: Any = SimpleNamespace(summaries=lambda: iter(summaries))
    troubles = Troubles()
    troubles.total = failures
    families = [family for family in DelayCollector(host, troubles, lambda: NOW_MS).collect() if family is not None]
    return {family.metric.name: {labels: float(str(value)) for labels, value in family.rows} for family in families}


def test_they_tell_what_waits_what_is_late_and_what_is_refused() -> None:
    found = collected(
        ("__delayed.orders", Summary(3, NOW_MS + 500, 0, 0, 0)),
        ("__delayed.orders", Summary(2, NOW_MS - 7_000, 0, 0, 1)),
        ("__delayed.bills", Summary(0, -1, 9, 0, 0)),
        failures=4,
    )
    orders, bills = 'topic="orders"', 'topic="bills"'
    assert found == {
        "oncelog_delayed_waiting_records": {orders: 5, bills: 0},
        "oncelog_delayed_refused_records": {orders: 1, bills: 0},
        "oncelog_delayed_overdue_seconds": {orders: 7, bills: 0},
        "oncelog_delayed_failures_total": {"": 4},
    }


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_collector, "TOPICS_MAX", 2)
    found = collected(*((f"__delayed.t{n}", Summary(1, -1, 0, 0, 0)) for n in range(5)))
    assert len(found["oncelog_delayed_waiting_records"]) == 2
