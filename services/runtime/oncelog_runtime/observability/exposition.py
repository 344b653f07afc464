"""Formats metrics as text: Prometheus 0.0.4, or OpenMetrics 1.0.0 for clients that accept it.

Rule 1: text comes in pieces of at most `_LINES` series (and their head), with an empty piece wherever the caller may
        yield to the loop; nothing here waits.
Rule 2: a family appears once: all its series together, after its HELP and TYPE.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from oncelog_runtime.observability.metric_names import Metric
from oncelog_runtime.observability.metrics import Family, Histogram, Row

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_LINES: Final = 500


def content_type(accept: str) -> str:
    """Returns `OPEN_METRICS` when the Accept header allows it, else `TEXT`."""
    for choice in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in choice.split(";"))
        version = next((p.partition("=")[2] for p in parameters if p.startswith("version=")), "1.0.0")
        refused = any(p in ("q=0", "q=0.0") for p in parameters)
        if kind == "application/openmetrics-text" and version in ("0.0.1", "1.0.0") and not refused:
            return OPEN_METRICS
    return TEXT


def render(families: Iterable[Family | None], content: str) -> Iterator[str]:
    """Yields the text piece by piece; "" = the caller may yield to the loop. `content` is one of the two content types."""
    seen: set[str] = set()
    is_open = content == OPEN_METRICS
    for family in families:
        if family is None:
            yield ""
            continue
        name = family.metric.name
        assert name not in seen, f"two collectors tell of {name}"
        seen.add(name)
        yield from _family(family, is_open)
    if is_open:
        yield "# EOF\n"


def _family(family: Family, is_open: bool) -> Iterator[str]:
    metric = family.metric
    shown = metric.name.removesuffix("_total") if is_open and metric.kind == "counter" else metric.name
    head = f"# HELP {shown} {_help(metric.help)}\n# TYPE {shown} {metric.kind}\n"
    rows = iter(family.rows)
    per_row = len(metric.buckets) + 3 if metric.kind == "histogram" else 1
    while text := "".join(_lines(metric, row) for row in islice(rows, max(1, _LINES // per_row))):
        yield head + text
        yield ""
        head = ""


def _lines(metric: Metric, row: Row) -> str:
    labels, value = row
    if isinstance(value, Histogram):
        return _histogram(metric.name, labels, value)
    return f"{metric.name}{{{labels}}} {_number(value)}\n" if labels else f"{metric.name} {_number(value)}\n"


def _histogram(name: str, labels: str, histogram: Histogram) -> str:
    before = f"{labels}," if labels else ""
    lines: list[str] = []
    count = 0
    for bound, inside in zip((*histogram.bounds, math.inf), histogram.counts, strict=True):
        count += inside
        lines.append(f'{name}_bucket{{{before}le="{_number(float(bound))}"}} {count}\n')
    braces = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_count{braces} {count}\n{name}_sum{braces} {_number(histogram.total)}\n")
    return "".join(lines)


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
