"""The observer port of a marker sender, and its two implementations: a metric and spans.

A decided transaction is sent (its markers leave for the first time), each call to a leader or a group's owner works for
some transactions, and in the end the transaction is visible, or the sender is closed before that.
Rule 1: a span or a time belongs to one sender; what it has not finished when it is closed, the next one begins again.
Rule 2: a transaction whose context is not recorded costs one look at that context.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oncelog.errors import ErrorCode
from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog_coordinator.core.transactions.commands import BecameVisible, SendMarkers
from oncelog_coordinator.effects.marker_courier import MarkerKey
from oncelog_coordinator.shard.coordinator_metrics import CoordinatorMetrics


class GroupKey(NamedTuple):
    """Identifies the marker of one transaction for one group."""

    transactional_id: str
    txn_no: int
    group_id: str


class MarkerObserver:
    """Observes nothing. Implementations override what they are interested in, and neither raise nor block."""

    def sent(self, effect: SendMarkers) -> None:
        """The markers of a decided transaction are about to be sent, in the task that runs effects."""

    def calling(self, keys: Sequence[MarkerKey | GroupKey]) -> None:
        """The next call of this task carries these markers, and they are not committed yet."""

    def calling_later(self, keys: Sequence[MarkerKey]) -> None:
        """The next call of this task is about markers whose transactions have ended for their clients."""

    def visible(self, effect: BecameVisible) -> None:
        """Every marker of a transaction is committed."""

    def closed(self) -> None:
        """The sender has stopped; what is not visible yet is left to the next one."""


class MarkerObservers(MarkerObserver):
    """Several observers, called in their order."""

    def __init__(self, *observers: MarkerObserver) -> None:
        self._all = observers

    def sent(self, effect: SendMarkers) -> None:
        """See `MarkerObserver`."""
        for observer in self._all:
            observer.sent(effect)

    def calling(self, keys: Sequence[MarkerKey | GroupKey]) -> None:
        """See `MarkerObserver`."""
        for observer in self._all:
            observer.calling(keys)

    def calling_later(self, keys: Sequence[MarkerKey]) -> None:
        """See `MarkerObserver`."""
        for observer in self._all:
            observer.calling_later(keys)

    def visible(self, effect: BecameVisible) -> None:
        """See `MarkerObserver`."""
        for observer in self._all:
            observer.visible(effect)

    def closed(self) -> None:
        """See `MarkerObserver`."""
        for observer in self._all:
            observer.closed()


class MarkerTimes(MarkerObserver):
    """Measures how long it takes from a decision until all of its markers are committed."""

    def __init__(self, metrics: CoordinatorMetrics) -> None:
        self._metrics = metrics
        self._since_s: dict[tuple[str, int], float] = {}

    def sent(self, effect: SendMarkers) -> None:
        """Notes the time."""
        self._since_s[effect.transactional_id, effect.txn_no] = self._metrics.now_s()

    def visible(self, effect: BecameVisible) -> None:
        """Observes the time since."""
        since_s = self._since_s.pop((effect.transactional_id, effect.txn_no), None)
        if since_s is not None:
            self._metrics.mark.observe(self._metrics.now_s() - since_s)


class MarkerSpans(MarkerObserver):
    """Makes one span per recorded transaction, which lasts until all of its markers are committed."""

    def __init__(self, tracer: tracing.Tracer) -> None:
        self._tracer = tracer
        self._spans: dict[tuple[str, int], tracing.Span] = {}

    def sent(self, effect: SendMarkers) -> None:
        """Starts the span below the context of the task, if that is recorded."""
        context = TRACEPARENT.get()
        if not tracing.is_sampled(context):
            return
        named = {
            span_names.TXN_ID: effect.transactional_id,
            span_names.TXN_NO: str(effect.txn_no),
            span_names.PRODUCER_ID: str(effect.txn_producer_id),
            span_names.TXN_OUTCOME: "committed" if effect.committed else "aborted",
            span_names.TXN_PARTITIONS: len(effect.targets),
            span_names.TXN_GROUPS: len(effect.groups),
        }
        span = self._tracer.start(span_names.TXN_MARKERS, tracing.Kind.INTERNAL, context, named)
        self._spans[effect.transactional_id, effect.txn_no] = span

    def calling(self, keys: Iterable[MarkerKey | GroupKey]) -> None:
        """Links the spans of these transactions to the next call of this task."""
        found = [self._spans.get((key.transactional_id, key.txn_no)) for key in keys] if self._spans else []
        tracing.work_for([span.traceparent for span in found if span is not None])

    def calling_later(self, keys: Iterable[MarkerKey]) -> None:
        """Links no span to the next call: the traces of these transactions have ended."""
        tracing.work_for(())

    def visible(self, effect: BecameVisible) -> None:
        """Ends the span."""
        span = self._spans.pop((effect.transactional_id, effect.txn_no), None)
        if span is not None:
            span.end()

    def closed(self) -> None:
        """Ends all spans with an error."""
        spans, self._spans = self._spans, {}
        for span in spans.values():
            span.end(ErrorCode.NOT_COORDINATOR.name, "this life of the shard has ended; the next one sends the rest")
