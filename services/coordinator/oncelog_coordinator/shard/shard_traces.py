"""The traces of a shard runtime: one span per recorded command for its wait for the log.

Rule 1: a command whose context is not recorded costs one look at that context.
Rule 2: a span that was started is ended: when its command is committed, or when the life of the shard ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.errors import OncelogError
from oncelog.trace import span_names
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.trace.tracing import Kind, Tracer, end_with, is_sampled, work_for
from oncelog_coordinator.core.decision import Command
from oncelog_coordinator.shard.shard_observer import Observed, ShardObserver


class ShardTraces(ShardObserver):
    """Makes the spans of commands, and gives their contexts to the appends and effects that they cause."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def queued(self, seen: Observed) -> None:
        """Notes the context of the call, if it is recorded, and the time."""
        context = TRACEPARENT.get()
        if is_sampled(context):
            seen.context, seen.since_ns = context, self._tracer.now_ns()

    def decided(self, seen: Observed, shard: str, command: Command[object]) -> None:
        """Starts the span, which began when the command arrived."""
        if seen.context:
            named = {span_names.COMMAND: type(command).__name__, span_names.SHARD: shard}
            seen.span = self._tracer.start(
                span_names.GROUP_COMMIT, Kind.INTERNAL, seen.context, named, start_ns=seen.since_ns
            )
            seen.context = seen.span.traceparent

    def appending(self, observed: Sequence[Observed], commands: int, records: int) -> None:
        """Links the spans of these commands to the work of the log, which takes its context from this task."""
        spans = [seen.span for seen in observed if seen.span is not None]
        for span in spans:
            span.set({span_names.COMMANDS: commands, span_names.RECORDS: records})
        work_for([span.traceparent for span in spans])

    def causes(self, seen: Observed) -> None:
        """Makes the spans of the next effect part of the command's trace."""
        TRACEPARENT.set(seen.context)

    def committed(self, observed: Sequence[Observed]) -> None:
        """Ends the spans."""
        for seen in observed:
            if seen.span is not None:
                seen.span.end()

    def failed(self, observed: Sequence[Observed], error: OncelogError) -> None:
        """Ends the spans with the error that the callers get."""
        for seen in observed:
            if seen.span is not None:
                end_with(seen.span, error)
