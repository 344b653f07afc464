"""The table of metrics: names carry their unit, labels are few, and every row is one."""

from __future__ import annotations

from oncelog_runtime.observability import metric_names as names


def test_names_obey_their_rules() -> None:
    for name, metric in names.ALL.items():
        assert name == metric.name
        assert metric.help.endswith("."), name
        assert (metric.kind == "counter") == name.endswith("_total"), name
        assert (metric.kind == "histogram") == bool(metric.buckets), name
        assert list(metric.buckets) == sorted(set(metric.buckets)), name
        assert metric.per_partition == ("partition" in metric.labels), name
        assert "le" not in metric.labels
        assert metric.services, name
