"""What is shipped for Prometheus and Grafana speaks of metrics that exist, is explained, and fires when it should."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from oncelog_runtime.observability import metric_names as names
from scripts import gen_metrics
from tests.unit.runtime.observability.test_exposition import promtool

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "helm" / "oncelog" / "files"
FOREIGN = {"up", "ALERTS"}
"""What Prometheus itself records."""
SERIES = {series: metric for metric in names.ALL.values() for series in names.series_of(metric)}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FILES / "dashboard.json").read_text())["panels"]
    return found


def series_in(query: str) -> set[str]:
    """Every name in a query that could be a metric."""
    bare = re.sub(r'"[^"]*"', "", query)
    bare = re.sub(r"\b(by|ignoring|on|without|group_left|group_right)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "{}", bare)
    return {name for name in re.findall(r"[a-zA-Z_:][\w:]*", bare) if "_" in name or name in FOREIGN} - {
        "histogram_quantile",
        "label_values",
        "min_over_time",
        "max_over_time",
    }


def labels_in(query: str) -> set[str]:
    """Every label by which a query selects or groups."""
    chosen = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query))
    grouped = re.findall(r"\b(?:by|ignoring|on|without)\s*\(([^)]*)\)", query)
    return chosen | {label.strip() for labels in grouped for label in labels.split(",") if label.strip()}


def check_query(query: str, of_target: set[str]) -> None:
    """`of_target`: labels that Prometheus adds to whatever it scrapes."""
    found = series_in(query)
    assert found, query
    assert found - FOREIGN <= set(SERIES), query
    known = of_target | {"le"} | {label for series in found - FOREIGN for label in SERIES[series].labels}
    assert labels_in(query) <= known, query


def test_generated_files_are_up_to_date() -> None:
    assert gen_metrics.main(["--check"]) == 0, "run python -m scripts.gen_metrics"


def test_every_panel_has_a_title_a_unit_and_queries_about_metrics_that_exist() -> None:
    titles = [panel["title"] for panel in panels()]
    assert len(titles) == len(set(titles)) > 30
    assert [panel["id"] for panel in panels()] == list(range(1, len(titles) + 1))
    for panel in panels():
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            check_query(target["expr"], {"namespace", "job", "pod"})
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            by_topk = {"topic", "partition"} if target["expr"].startswith("topk") else set()
            assert legend <= labels_in(target["expr"]) | by_topk | {"pod"}, target


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_alert_is_complete_and_about_metrics_that_exist() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        check_query(rule["expr"], {"namespace", "pod", "instance", "job"})
        assert rule["for"]
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook"}, rule["alert"]
        assert notes["runbook"] == f"docs/runbooks.md#{rule['alert'].lower()}"
        used = set(re.findall(r"\$labels\.(\w+)", notes["description"]))
        aggregates = re.match(r"(sum|min|max|count) by", rule["expr"])
        kept = labels_in(rule["expr"]) if aggregates else {"namespace", "pod", "instance", "job"}
        assert used <= kept, rule["alert"]


def test_every_alert_can_be_had_without_series_of_single_partitions() -> None:
    for rule in rules():
        for series in series_in(rule["expr"]) - FOREIGN:
            assert not SERIES[series].per_partition, rule["alert"]


def test_every_alert_has_its_runbook_and_no_runbook_is_left_over() -> None:
    text = (ROOT / "docs" / "runbooks.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(sections) == {rule["alert"] for rule in rules()}
    for name, section in sections.items():
        assert re.findall(r"\*\*(\w+)\.\*\*", section) == ["Meaning", "Look", "Do"], name


def test_every_alert_is_seen_quiet_and_firing() -> None:
    tests = yaml.safe_load((FILES / "alerts_test.yaml").read_text())["tests"]
    quiet, firing = set(), set()
    for test in tests:
        for check in test["promql_expr_test"]:
            (firing if check["exp_samples"] else quiet).add(test["name"])
            assert all(test["name"] in sample["labels"] for sample in check["exp_samples"])
    assert quiet == firing == {rule["alert"] for rule in rules()}


@pytest.mark.parametrize("command", [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")])
def test_promtool_agrees(command: tuple[str, ...]) -> None:
    done = subprocess.run([promtool(), *command], cwd=FILES, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_can_read_every_query_of_the_dashboard(tmp_path: Path) -> None:
    queries = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    filled = [query.replace("$__rate_interval", "5m") for query in queries]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(filled)]
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        [promtool(), "check", "rules", str(tmp_path / "rules.yaml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
