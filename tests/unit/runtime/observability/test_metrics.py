"""Counting, and what a collector owes the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from oncelog.errors import NotLeaderError
from oncelog.types import Buffer
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import Counter, Family, Histogram, NodeMetrics, labels_of, one


def test_a_histogram_counts_a_value_in_the_first_bucket_that_holds_it() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 1.0, 7.0):
        histogram.observe(value)
    histogram.observe(0.5, times=2)
    assert histogram.counts == [2, 4, 1]
    assert histogram.total == pytest.approx(9.65)


def test_a_label_set_has_one_child() -> None:
    metrics = NodeMetrics()
    metrics.counter(names.APPEND_ERRORS, "A").inc()
    metrics.counter(names.APPEND_ERRORS, "A").inc(2)
    metrics.counter(names.APPEND_ERRORS, "B")
    [family] = [family for family in metrics.families() if family is not None]
    assert list(family.rows) == [('code="A"', 3), ('code="B"', 0)]


def test_labels_are_escaped() -> None:
    assert labels_of(names.GROUP_LAG_MAX, 'a"b\\c\nd', "t") == r'group="a\"b\\c\nd",topic="t"'


def test_a_scrape_asks_the_collectors_and_turns_the_loop_between_them() -> None:
    metrics = NodeMetrics()
    level = Counter()

    def collect() -> Iterator[Family | None]:
        yield one(names.TXN_OPEN, level.value)

    metrics.collect_with(collect)
    level.inc(5)
    assert list(metrics.families()) == [one(names.TXN_OPEN, 5), None]


def test_a_timed_handler_counts_its_outcome_under_its_code() -> None:
    clock = iter((1.0, 1.003, 2.0, 2.2))
    metrics = NodeMetrics(lambda: next(clock))
    refuse = False

    async def handler(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        if refuse:
            raise NotLeaderError
        return header, payload

    timed = metrics.timed("PartitionLeader.Ping", handler)
    assert asyncio.run(timed(b"h", b"p")) == (b"h", b"p")  # type: ignore[arg-type]
    refuse = True
    with pytest.raises(NotLeaderError):
        asyncio.run(timed(b"h", b"p"))  # type: ignore[arg-type]
    [family] = [family for family in metrics.families() if family is not None]
    found = {labels: value.total for labels, value in family.rows if isinstance(value, Histogram)}
    assert found == pytest.approx(
        {
            'method="PartitionLeader.Ping",code="OK"': 0.003,
            'method="PartitionLeader.Ping",code="NOT_LEADER_OR_FOLLOWER"': 0.2,
        }
    )
