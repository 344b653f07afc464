"""Write docs/metrics.md and the Grafana dashboard from the table of metric names, or check that they are up to date.

    python -m scripts.gen_metrics [--check]

Rule 1: a panel is one row here: title, unit, and its queries with their legends. Every metric in a query stands in
        `oncelog_runtime.observability.metric_names` (a test asks).
Rule 2: queries choose by the dashboard's variables namespace, job and topic, so one dashboard serves every cluster.
`--check` writes nothing and exits 1 when a file is not what would be written.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final, NamedTuple

from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metric_names import Metric
from scripts.written import ROOT, write_or_check

DOCS: Final = ROOT / "docs" / "metrics.md"
DASHBOARD: Final = ROOT / "helm" / "oncelog" / "files" / "dashboard.json"


class Panel(NamedTuple):
    """One panel: `queries` are (PromQL, legend). `kind` is Grafana's."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    text: str = ""


N: Final = 'namespace="$namespace", job="$job"'
T: Final = f'{N}, topic=~"$topic"'


def _sum(metric: str, by: str = "", where: str = N) -> str:
    return f"sum{f' by ({by})' if by else ''} ({metric}{{{where}}})"


def _rate(metric: str, by: str = "", where: str = N) -> str:
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{where}}}[$__rate_interval]))"


def _quantile(q: float, metric: str, by: str, where: str = N) -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket{{{where}}}[$__rate_interval])))"


_SHORT: Final = f'{N}, method!~".*(Fetch|Ping|Replicate)"'
_PRODUCE: Final = f'{N}, method="PartitionLeader.Produce"'

_FREE: Final = f'oncelog_storage_bytes{{{N}, state="free"}}'
_TOTAL: Final = f'oncelog_storage_bytes{{{N}, state="total"}}'

ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Health": (
        Panel("Controllers", "short", ((_sum("oncelog_active_controller"), "controllers"),), "stat", "Must be 1."),
        Panel("Leaderless partitions", "short", ((_sum("oncelog_leaderless_partitions"), "partitions"),), "stat"),
        Panel("Under min ISR", "short", ((_sum("oncelog_under_min_isr_partitions"), "partitions"),), "stat"),
        Panel("Under-replicated", "short", ((_sum("oncelog_under_replicated_partitions"), "partitions"),), "stat"),
        Panel("Ownerless shards", "short", ((_sum("oncelog_ownerless_shards", "kind"), "{{kind}}"),), "stat"),
        Panel(
            "Late transactions", "short", ((_sum("oncelog_partitions_with_late_transactions"), "partitions"),), "stat"
        ),
        Panel("Registered processes", "short", ((_sum("oncelog_registered_processes", "component"), "{{component}}"),)),
        Panel("Processes that are ready", "short", ((_sum("oncelog_probe_serving", "probe"), "{{probe}}"),)),
        Panel(
            "ISR and leader changes",
            "ops",
            (
                (_rate("oncelog_isr_shrinks_total"), "ISR shrinks"),
                (_rate("oncelog_isr_expands_total"), "ISR expands"),
                (_rate("oncelog_leader_changes_total"), "leader changes"),
            ),
        ),
        Panel("Partitions led", "short", ((_sum("oncelog_partitions_led", "pod"), "{{pod}}"),)),
    ),
    "Traffic": (
        Panel("Records in", "ops", ((_rate("oncelog_records_in_total", "topic", T), "{{topic}}"),)),
        Panel("Bytes in", "Bps", ((_rate("oncelog_bytes_in_total", "topic", T), "{{topic}}"),)),
        Panel("Records out", "ops", ((_rate("oncelog_records_out_total", "topic", T), "{{topic}}"),)),
        Panel(
            "Bytes out",
            "Bps",
            (
                (_rate("oncelog_bytes_out_total", "topic", T), "{{topic}}"),
                (_rate("oncelog_follower_bytes_out_total", "topic", T), "{{topic}}, by followers"),
            ),
        ),
        Panel(
            "Produce: time",
            "s",
            tuple(
                (_quantile(q, "oncelog_request_duration_seconds", "", _PRODUCE), f"p{q * 100:g}") for q in (0.5, 0.99)
            ),
        ),
        Panel(
            "Produce: phases, p99",
            "s",
            ((_quantile(0.99, "oncelog_produce_phase_seconds", "phase"), "{{phase}}"),),
        ),
        Panel(
            "Requests by method, p99",
            "s",
            ((_quantile(0.99, "oncelog_request_duration_seconds", "method", _SHORT), "{{method}}"),),
            text="Without methods that hold their answers.",
        ),
        Panel(
            "Errors by method",
            "ops",
            (
                (
                    _rate("oncelog_request_duration_seconds_count", "method, code", f'{N}, code!="OK"'),
                    "{{method}} {{code}}",
                ),
            ),
        ),
        Panel("Refused batches", "ops", ((_rate("oncelog_append_errors_total", "code"), "{{code}}"),)),
        Panel("Batches that wait", "short", ((_sum("oncelog_append_queue_batches", "pod"), "{{pod}}"),)),
    ),
    "Transactions": (
        Panel("Transactions decided", "ops", ((_rate("oncelog_txn_total", "outcome"), "{{outcome}}"),)),
        Panel(
            "Open and completing",
            "short",
            ((_sum("oncelog_txn_open"), "open"), (_sum("oncelog_txn_completing"), "markers travel")),
        ),
        Panel(
            "Duration",
            "s",
            tuple((_quantile(q, "oncelog_txn_duration_seconds", ""), f"p{q * 100:g}") for q in (0.5, 0.99)),
        ),
        Panel(
            "Commit phases, p99", "s", ((_quantile(0.99, "oncelog_txn_commit_phase_seconds", "phase"), "{{phase}}"),)
        ),
        Panel(
            "Oldest open transaction",
            "s",
            ((f"max by (pod) (oncelog_txn_oldest_open_seconds{{{N}}})", "{{pod}}"),),
        ),
        Panel("Largest LSO lag", "short", ((f"max by (pod) (oncelog_partition_lso_lag_max{{{N}}})", "{{pod}}"),)),
        Panel("Fenced requests", "ops", ((_rate("oncelog_producer_fenced_total", "pod"), "{{pod}}"),)),
        Panel(
            "Producer ids",
            "short",
            (
                (_sum("oncelog_producer_ids_in_stock", "pod"), "in stock {{pod}}"),
                (_rate("oncelog_pid_allocations_total"), "handed out per second"),
            ),
        ),
        Panel("Shards", "short", ((_sum("oncelog_shards", "pod, kind, state"), "{{pod}} {{kind}} {{state}}"),)),
        Panel("Commands that wait", "short", ((_sum("oncelog_shard_queue_commands", "pod"), "{{pod}}"),)),
    ),
    "Consumer groups": (
        Panel(
            "Lag",
            "short",
            ((f"sum by (group, topic) (oncelog_consumer_group_lag_sum_offsets{{{T}}})", "{{group}} {{topic}}"),),
        ),
        Panel(
            "Lag in time",
            "s",
            ((f"max by (group, topic) (oncelog_consumer_group_lag_seconds{{{T}}})", "{{group}} {{topic}}"),),
        ),
        Panel("Groups", "short", ((_sum("oncelog_consumer_groups", "state"), "{{state}}"),)),
        Panel("Members", "short", ((_sum("oncelog_consumer_group_members", "state"), "{{state}}"),)),
        Panel(
            "Rebalances",
            "ops",
            (
                (_rate("oncelog_consumer_group_rebalances_total"), "new assignments"),
                (_rate("oncelog_consumer_group_fenced_total"), "fenced members"),
            ),
        ),
    ),
    "Partitions": (
        Panel(
            "LSO lag by partition",
            "short",
            ((f"topk(10, oncelog_partition_lso_lag{{{T}}})", "{{topic}}-{{partition}}"),),
            text="Needs metrics_per_partition.",
        ),
        Panel(
            "Size by topic",
            "bytes",
            ((_sum("oncelog_partition_size_bytes", "topic", T), "{{topic}}"),),
            text="Needs metrics_per_partition. Without the followers' copies.",
        ),
    ),
    "Processes": (
        Panel(
            "Room on the volume",
            "percentunit",
            ((f"{_FREE} / ignoring (state) {_TOTAL}", "{{pod}}"),),
        ),
        Panel("Log bytes", "bytes", ((_sum("oncelog_storage_bytes", "pod", f'{N}, state="log"'), "{{pod}}"),)),
        Panel("CPU", "percentunit", ((_rate("process_cpu_seconds_total", "pod"), "{{pod}}"),), text="1 = one core."),
        Panel("Memory", "bytes", ((_sum("process_resident_memory_bytes", "pod"), "{{pod}}"),)),
        Panel("Open files", "short", ((_sum("process_open_fds", "pod"), "{{pod}}"),)),
        Panel(
            "Links and running requests",
            "short",
            (
                (_sum("oncelog_links", "pod"), "links {{pod}}"),
                (_sum("oncelog_requests_running", "pod"), "running {{pod}}"),
            ),
        ),
    ),
}


# ---------------------------------------------------------------- the dashboard


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row, members in ROWS.items():
        panels.append(_row(row, top, len(panels) + 1))
        top += 1
        left = height = 0
        for member in members:
            wide, high = (4, 4) if member.kind == "stat" else (12, 8)
            if left + wide > 24:
                left, top = 0, top + height
            panels.append(_panel(member, len(panels) + 1, {"x": left, "y": top, "w": wide, "h": high}))
            left, height = left + wide, high
        top += height
    return {
        "uid": "oncelog",
        "title": "oncelog",
        "tags": ["oncelog"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), *_variables()]},
        "panels": panels,
    }


def _row(title: str, top: int, number: int) -> dict[str, Any]:
    at = {"x": 0, "y": top, "w": 24, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": at}


def _panel(panel: Panel, number: int, at: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    targets = [
        {"refId": chr(ord("A") + place), "datasource": source, "expr": query, "legendFormat": legend}
        for place, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text or _help_of(panel),
        "datasource": source,
        "gridPos": at,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if panel.kind == "timeseries" else {},
        "targets": targets,
    }


def _help_of(panel: Panel) -> str:
    """The help of the first metric in the first query."""
    query = panel.queries[0][0]
    found = [
        metric for metric in names.ALL.values() if any(f"{series}{{" in query for series in names.series_of(metric))
    ]
    return found[0].help if found else ""


def _source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(label: str, metric: str, *, many: bool, where: str = "") -> dict[str, Any]:
    query = f"label_values({metric}{where}, {label})"
    return {
        "name": label,
        "label": label.capitalize(),
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": label},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": many,
        "includeAll": many,
        **({"allValue": ".*"} if many else {}),
    }


def _variables() -> list[dict[str, Any]]:
    return [
        _variable("namespace", "oncelog_build_info", many=False),
        _variable("job", "oncelog_build_info", many=False, where='{namespace="$namespace"}'),
        _variable("topic", "oncelog_records_in_total", many=True, where=f"{{{N}}}"),
    ]


def dashboard_text() -> str:
    """JSON, one panel a line, so that a change is a line of a diff."""
    whole = dashboard()
    panels = ",\n    ".join(json.dumps(panel) for panel in whole.pop("panels"))
    head = json.dumps(whole, indent=2).removesuffix("\n}")
    return f'{head},\n  "panels": [\n    {panels}\n  ]\n}}\n'


# ---------------------------------------------------------------- the docs

_INTRODUCTION: Final = """# Metrics

Generated by scripts/gen_metrics.py from `oncelog_runtime/observability/metric_names.py`; do not edit.

Every service answers `GET /metrics` on `metrics_host:metrics_port` (0 = off), in Prometheus's text format or, for whoever
asks with `Accept: application/openmetrics-text`, in OpenMetrics. On a laptop, `oncelog up --metrics` prints the addresses.

- A partition is told of by its leader alone, a shard by its owner: sums over processes count nothing twice. What is about
  the whole cluster is told by the controller and is 0 on all other brokers.
- Rows marked *per partition* have a series for each partition. `metrics_per_partition=false` leaves them out; the totals
  stay, and every alert works without them.
- A scrape reads the state as it is, in small slices between requests; counting costs a fraction of a microsecond.
- Lag counts offsets, not records: control records, and records of aborted transactions, have offsets too. What stands at
  the very end of a log and is a marker alone is not counted.
- Alert rules are in `helm/oncelog/files/alerts.yaml`, with a [runbook](runbooks.md) each, and a Grafana dashboard is in
  `helm/oncelog/files/dashboard.json`.
"""
_SERVICE: Final = {"partition_leader": "brokers", "coordinator": "coordinators", "pid_allocator": "id allocators"}


def docs_text() -> str:
    """docs/metrics.md."""
    lines = [_INTRODUCTION, "| name | kind | labels | told by | meaning |", "|---|---|---|---|---|"]
    lines += [_line(metric) for metric in names.ALL.values()]
    return "\n".join(lines) + "\n"


def _line(metric: Metric) -> str:
    labels = ", ".join(metric.labels) or "-"
    who = "all" if metric.services == names.EVERY else ", ".join(_SERVICE[service] for service in metric.services)
    kind = f"{metric.kind}, per partition" if metric.per_partition else metric.kind
    return f"| `{metric.name}` | {kind} | {labels} | {who} | {metric.help} |"


# ---------------------------------------------------------------- writing


def main(arguments: list[str] | None = None) -> int:
    """Writes both files, or says which one is not what it should be. Returns the exit code."""
    files = {DOCS: docs_text(), DASHBOARD: dashboard_text()}
    return write_or_check(files, "docs/metrics.md and the dashboard", "python -m scripts.gen_metrics", arguments)


if __name__ == "__main__":
    sys.exit(main())
