"""The events that a broker counts as they happen. All other metrics are read at the scrape, by `broker_collector`.

Rule: a count is an addition on an object that is at hand: nothing here looks up more than one dict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog.errors import InvalidProducerEpochError, OncelogError, ProducerFencedError
from oncelog_partition_leader.core.appends.commands import AppendBatch, Command
from oncelog_partition_leader.core.replication.replica_set import Isr
from oncelog_partition_leader.log.partition_log import Appended
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import NodeMetrics

_FENCED: Final = (ProducerFencedError, InvalidProducerEpochError)


class Traffic:
    """The counters of one topic on this broker."""

    __slots__ = ("bytes_in", "bytes_out", "follower_bytes_out", "records_in", "records_out")

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.records_out = 0
        self.bytes_out = 0
        self.follower_bytes_out = 0


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


class AppendMetrics:
    """Implements `AppendObserver`: counts what the leadership of one partition appends, and times its phases."""

    __slots__ = ("_metrics", "_started_s", "_traffic")

    def __init__(self, metrics: BrokerMetrics, topic: str) -> None:
        self._metrics = metrics
        self._traffic = metrics.traffic_of(topic)
        self._started_s = 0.0

    def queued(self, command: Command) -> None:
        """Notes when the command began to wait."""
        command.since_s = self._metrics.now_s()

    def writing(self) -> None:
        """Notes when the group's write began."""
        self._started_s = self._metrics.now_s()

    def appended(self, commands: Sequence[Command], batches: Sequence[Appended]) -> None:
        """Counts clients' batches that are in the log, and the time that they took to get there."""
        metrics, traffic = self._metrics, self._traffic
        started_s, written_s = self._started_s, metrics.now_s()
        for command in commands:
            if isinstance(command, AppendBatch):
                traffic.records_in += command.header.record_count
                traffic.bytes_in += command.header.batch_length
                metrics.queue.observe(started_s - command.since_s)
                metrics.append.observe(written_s - started_s)
                command.since_s = written_s

    def committed(self, commands: Sequence[Command], high_watermark: int) -> None:
        """Counts the time until the followers had these commands' batches."""
        committed_s = self._metrics.now_s()
        for command in commands:
            if isinstance(command, AppendBatch):
                self._metrics.replicate.observe(committed_s - command.since_s)

    def failed(self, command: Command, error: OncelogError) -> None:
        """Counts a refusal by its code."""
        self._metrics.refused(error)

    def context_of(self, command: Command) -> str:
        """Returns nothing: metrics have no traces."""
        return ""
