"""The metrics of delayed records that a scrape reads from a broker.

Rule: one series for each topic of which a waiting partition is led here, and for the first `TOPICS_MAX` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from oncelog_partition_leader.partition.delays.delay_host import DelayHost
from oncelog_partition_leader.partition.delays.troubles import Troubles
from oncelog_runtime.metadata.waiting_topics import topic_of
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import Family, labels_of

TOPICS_MAX: Final = 1_000


class DelayCollector:
    """Collects the metrics of delayed records; `collect` is a `metrics.Collector`."""

    def __init__(self, host: DelayHost, troubles: Troubles, cluster_now_ms: Callable[[], int]) -> None:
        self._host = host
        self._troubles = troubles
        self._cluster_now_ms = cluster_now_ms

    def collect(self) -> Iterator[Family | None]:
        """Yields the metrics."""
        now_ms = self._cluster_now_ms()
        waiting: dict[str, int] = {}
        refused: dict[str, int] = {}
        overdue_s: dict[str, float] = {}
        for waiting_topic, found in self._host.summaries():
            topic = topic_of(waiting_topic)
            if topic not in waiting and len(waiting) >= TOPICS_MAX:
                continue
            late_ms = max(now_ms - found.next_due_ms, 0) if found.next_due_ms >= 0 else 0
            waiting[topic] = waiting.get(topic, 0) + found.waiting
            refused[topic] = refused.get(topic, 0) + found.refused
            overdue_s[topic] = max(overdue_s.get(topic, 0.0), late_ms / 1000)
        for metric, values in (
            (names.DELAYED_WAITING, waiting),
            (names.DELAYED_REFUSED, refused),
            (names.DELAYED_OVERDUE, overdue_s),
        ):
            yield Family(metric, [(labels_of(metric, topic), value) for topic, value in values.items()])
        yield Family(names.DELAYED_FAILURES, [(labels_of(names.DELAYED_FAILURES), self._troubles.total)])
