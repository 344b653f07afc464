"""Makes the spans of appends and of replication; passes what is counted on to another observer.

Rule 1: a call whose trace is not recorded pays for one look at its context; names and attributes are made after it.
Rule 2: data that is sent to a follower belongs to the traces whose appends it carries. A high watermark alone belongs to
        none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.core.replication.replica_set import Isr
from oncelog_partition_leader.replication.feed import Feed
from oncelog_partition_leader.replication.observe.metrics_observer import NOTHING
from oncelog_partition_leader.replication.observe.observer import BrokerObserver


def observed_by(tracer: tracing.Tracer | None, counting: BrokerObserver) -> BrokerObserver:
    """Returns the observer of a broker: with a tracer it traces, and counts too."""
    return counting if tracer is None else TraceObserver(tracer, counting)


class TraceObserver:
    """A `BrokerObserver` over a tracer. `counting` gets the events that make no span."""

    def __init__(self, tracer: tracing.Tracer, counting: BrokerObserver) -> None:
        self._tracer = tracer
        self._counting = counting

    def sends(self, request: pb.ReplicateRequest, feeds: Sequence[Feed]) -> None:
        """Has the request belong to the traces whose data it carries."""
        contexts = contexts_of(request, feeds)
        if contexts or TRACEPARENT.get()[-3:] != tracing.UNRECORDED:
            tracing.work_for(contexts)

    def follows(self, size_bytes: int, partitions: int) -> AbstractContextManager[None]:
        """Makes the span of a follower's append, if the request carries data of a recorded trace."""
        parent = TRACEPARENT.get()
        if not size_bytes or not tracing.is_sampled(parent):
            return NOTHING
        named = {span_names.APPEND_BYTES: size_bytes, span_names.APPEND_BATCHES: partitions}
        return _Ends(self._tracer.start(span_names.LOG_APPEND, tracing.Kind.INTERNAL, parent, named))

    def fetched(self, topic: str, records: int, size_bytes: int, *, by_follower: bool) -> None:
        """Makes no span: the call has its own."""
        self._counting.fetched(topic, records, size_bytes, by_follower=by_follower)

    def leads(self) -> None:
        """Makes no span."""
        self._counting.leads()

    def isr_changed(self, before: Isr, after: Isr) -> None:
        """Makes no span."""
        self._counting.isr_changed(before, after)


class _Ends:
    """Ends a span with the outcome of a block."""

    __slots__ = ("_span",)

    def __init__(self, span: tracing.Span) -> None:
        self._span = span

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        tracing.end_with(self._span, error)


def contexts_of(request: pb.ReplicateRequest, feeds: Sequence[Feed]) -> list[str]:
    """Returns the traces for which data is sent."""
    found: list[str] = []
    for place, feed in enumerate(feeds):
        if feed.leadership.traced.waiting and (item := request.partitions[place]).length:
            found += feed.leadership.traced.contexts(item.base_offset, feed.session.next_offset)
    return found
