"""The events that a broker counts as they happen. All other metrics are read at the scrape, by `broker_collector`.

Rule: a count is an addition on an object that is at hand: nothing here looks up more than one dict.
"""

from __future__ import annotations

from typing import Final

from oncelog.errors import InvalidProducerEpochError, OncelogError, ProducerFencedError
from oncelog_partition_leader.core.replication.replica_set import Isr
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import NodeMetrics

_FENCED: Final = (ProducerFencedError, InvalidProducerEpochError)


class Traffic:
    """The counters of one topic on this broker."""

    __slots__ = ("bytes_in", "bytes_out", "records_in", "records_out")

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.records_out = 0
        self.bytes_out = 0


class BrokerMetrics:
    """The counters and histograms of one broker."""

    def __init__(self, metrics: NodeMetrics) -> None:
        self.now_s = metrics.now_s
        self.queue = metrics.histogram(names.PRODUCE_PHASE_SECONDS, "queue")
        self.append = metrics.histogram(names.PRODUCE_PHASE_SECONDS, "append")
        self.replicate = metrics.histogram(names.PRODUCE_PHASE_SECONDS, "replicate")
        self.leader_changes = metrics.counter(names.LEADER_CHANGES)
        self.traffic: dict[str, Traffic] = {}
        self._metrics = metrics
        self._isr_shrinks = metrics.counter(names.ISR_SHRINKS)
        self._isr_expands = metrics.counter(names.ISR_EXPANDS)
        self._fenced = metrics.counter(names.FENCED)

    def traffic_of(self, topic: str) -> Traffic:
        """Returns the counters of a topic; makes them, at 0, when the topic is new."""
        found = self.traffic.get(topic)
        if found is None:
            found = self.traffic[topic] = Traffic()
        return found

    def isr_changed(self, before: Isr, after: Isr) -> None:
        """Counts the replicas that left and joined the ISR of a partition that is led here."""
        self._isr_shrinks.inc(sum(ref not in after for ref in before))
        self._isr_expands.inc(sum(ref not in before for ref in after))

    def refused(self, error: OncelogError) -> None:
        """Counts a batch, a marker or a `GetProducerState` that was refused or could not be appended."""
        self._metrics.counter(names.APPEND_ERRORS, error.code.name).inc()
        if isinstance(error, _FENCED):
            self._fenced.inc()
