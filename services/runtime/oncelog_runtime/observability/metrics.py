"""The counters of a process, and the values that it collects from itself at a scrape.

Rule 1: state is pulled: a collector reads replicas, shards and queues at the scrape. Only events are pushed, and a push
        is an addition on an object that was looked up before (no lock: all of it lives on the one event loop).
Rule 2: a collector yields `None` wherever it may yield to the loop, at least every few hundred items, so a scrape of
        10,000 partitions delays no request.
Rule 3: `now_s` is the clock for durations; a process passes a precise one, the simulation none (nothing depends on it).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ports import Handler
from oncelog.types import Buffer
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metric_names import Metric

OK: Final = "OK"
SLICE: Final = 250
"""Items that a collector may look at before it yields `None`."""


def _stopped() -> float:
    return 0.0


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, by: int = 1) -> None:
        """Adds to the counter."""
        self.value += by


class Histogram:
    """Counts how often a value fell into each bucket; `counts` has one more item than `bounds`, for values above all of
    them.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Counts a value `times` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


Row = tuple[str, float | Histogram]
"""(labels as `labels_of` writes them, value)."""


@dataclass(slots=True)
class Family:
    """All series of one metric in one process. `rows` are read once; without any, the metric is not exported."""

    metric: Metric
    rows: Iterable[Row] = ()


Collector = Callable[[], Iterator[Family | None]]


def labels_of(metric: Metric, *values: str) -> str:
    """Returns `name="value",...` in the order of the metric's labels, escaped; empty without labels."""
    return ",".join(f'{name}="{_escape(value)}"' for name, value in zip(metric.labels, values, strict=True))


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def one(metric: Metric, value: float) -> Family:
    """Returns a family with a single series without labels."""
    return Family(metric, [("", value)])


class NodeMetrics:
    """Holds the metrics of one process."""

    def __init__(self, now_s: Callable[[], float] = _stopped) -> None:
        self.now_s = now_s
        self._pushed: dict[Metric, dict[str, Counter | Histogram]] = {}
        self._collectors: list[Collector] = []

    def counter(self, metric: Metric, *labels: str) -> Counter:
        """Returns the counter with these labels, a new one at 0. Look it up once, not at each event."""
        assert metric.kind == "counter"
        known = self._pushed.setdefault(metric, {})
        key = labels_of(metric, *labels)
        found = known.get(key)
        if found is None:
            found = known[key] = Counter()
        assert isinstance(found, Counter)
        return found

    def histogram(self, metric: Metric, *labels: str) -> Histogram:
        """Returns the histogram with these labels, a new one if needed."""
        assert metric.kind == "histogram"
        known = self._pushed.setdefault(metric, {})
        key = labels_of(metric, *labels)
        found = known.get(key)
        if found is None:
            found = known[key] = Histogram(metric.buckets)
        assert isinstance(found, Histogram)
        return found

    def collect_with(self, collector: Collector) -> None:
        """Adds a collector that is called at each scrape. No two collectors may yield the same metric."""
        self._collectors.append(collector)

    def families(self) -> Iterator[Family | None]:
        """Yields everything at its current value; `None` = the caller may yield to the loop."""
        for metric, children in list(self._pushed.items()):
            rows: list[Row] = [(labels, c.value if isinstance(c, Counter) else c) for labels, c in children.items()]
            yield Family(metric, rows)
            yield None
        for collector in self._collectors:
            yield from collector()
            yield None

    # ------------------------------------------------------------ requests

    def timed(self, method: str, handler: Handler) -> Handler:
        """Wraps a handler so that the time of each call is counted under the outcome's code."""
        now_s = self.now_s
        ok = self.histogram(names.REQUEST_SECONDS, method, OK)

        async def timed(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
            start_s = now_s()
            try:
                answer = await handler(header, payload)
            except OncelogError as error:
                self._failed(method, error.code, now_s() - start_s)
                raise
            except Exception:
                self._failed(method, ErrorCode.UNKNOWN_ERROR, now_s() - start_s)
                raise
            ok.observe(now_s() - start_s)
            return answer

        return timed

    def _failed(self, method: str, code: ErrorCode, took_s: float) -> None:
        self.histogram(names.REQUEST_SECONDS, method, code.name).observe(took_s)
