"""The two text formats, as the libraries of those who read them see them, and as promtool does."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.exposition import OPEN_METRICS, TEXT, content_type, render
from oncelog_runtime.observability.metrics import Family, Histogram, labels_of, one


def some_families() -> list[Family | None]:
    histogram = Histogram(names.REQUEST_SECONDS.buckets)
    histogram.observe(0.0007)
    histogram.observe(99.0)
    return [
        one(names.TXN_OPEN, 3),
        None,
        Family(names.RECORDS_IN, [(labels_of(names.RECORDS_IN, "a"), 7), (labels_of(names.RECORDS_IN, 'q"\\\n'), 8)]),
        Family(names.REQUEST_SECONDS, [(labels_of(names.REQUEST_SECONDS, "S.M", "OK"), histogram)]),
        Family(names.TXN_SECONDS, [("", Histogram(names.TXN_SECONDS.buckets))]),
        one(names.TXN_OLDEST, 0.25),
        Family(names.GROUP_LAG, []),
    ]


def samples(families: Iterable[object]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples  # type: ignore[attr-defined]
    }


@pytest.mark.parametrize(("content", "parse"), [(TEXT, parse_text), (OPEN_METRICS, parse_open)])
def test_what_is_written_is_what_a_reader_reads(content: str, parse: object) -> None:
    text = "".join(render(some_families(), content))
    found = samples(parse(text))  # type: ignore[operator]
    method = (("code", "OK"), ("method", "S.M"))
    assert found["oncelog_txn_open", ()] == 3
    assert found["oncelog_records_in_total", (("topic", "a"),)] == 7
    assert found["oncelog_records_in_total", (("topic", 'q"\\\n'),)] == 8
    assert found["oncelog_request_duration_seconds_count", method] == 2
    assert found["oncelog_request_duration_seconds_sum", method] == pytest.approx(99.0007)
    assert found["oncelog_request_duration_seconds_bucket", tuple(sorted((*method, ("le", "0.001"))))] == 1
    assert found["oncelog_request_duration_seconds_bucket", tuple(sorted((*method, ("le", "+Inf"))))] == 2
    assert found["oncelog_txn_duration_seconds_count", ()] == 0
    assert found["oncelog_txn_oldest_open_seconds", ()] == 0.25
    assert "oncelog_consumer_group_lag_offsets" not in text, "a family without series is left out"
    assert text.endswith("# EOF\n") == (content == OPEN_METRICS)


def test_a_metric_that_two_collectors_tell_of_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="oncelog_txn_open"):
        list(render([one(names.TXN_OPEN, 1), one(names.TXN_OPEN, 2)], TEXT))


def test_a_long_family_comes_in_pieces() -> None:
    rows = [(labels_of(names.RECORDS_IN, f"t{number}"), number) for number in range(5_000)]
    pieces = list(render([Family(names.RECORDS_IN, list(rows))], TEXT))
    assert max(piece.count("\n") for piece in pieces) <= 502
    assert pieces.count("") == 10
    assert "".join(pieces).count("# TYPE") == 1


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", OPEN_METRICS),
        ("application/openmetrics-text; version=0.0.1; q=0.75, text/plain;version=0.0.4;q=0.5", OPEN_METRICS),
        ("application/openmetrics-text;version=2.0.0,text/plain", TEXT),
        ("application/openmetrics-text;q=0,text/plain", TEXT),
    ],
)
def test_the_accept_header_chooses(accept: str, expected: str) -> None:
    assert content_type(accept) == expected


def promtool() -> str:
    """Where promtool is, or a skip that says how to bring it."""
    found = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not found:
        pytest.skip("no promtool on PATH and no PROMTOOL=: it comes with Prometheus")
    return found


def test_promtool_has_nothing_to_say_about_any_metric() -> None:
    families = [
        Family(
            metric,
            [(labels_of(metric, *metric.labels), Histogram(metric.buckets) if metric.kind == "histogram" else 1)],
        )
        for metric in names.ALL.values()
    ]
    assert complaints_of_promtool("".join(render(families, TEXT))) == []


def complaints_of_promtool(text: str) -> list[str]:
    """What `promtool check metrics` says about our own metrics, or about a text that it cannot read."""
    done = subprocess.run(
        [promtool(), "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    lines = done.stderr.splitlines() + done.stdout.splitlines()
    return [line for line in lines if line.startswith("oncelog_") or "error" in line]
