"""The spans of one batch, or one marker, in its leader: `log.append`, then `replicate` until it is committed.

Rule 1: made by the handler for calls of a recorded trace alone; who appends looks at `command.trace` and sees None else.
Rule 2: they end with the command's future, whatever becomes of it.
Rule 3: what is pushed to followers for it belongs to `context`, until the high watermark has passed it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from oncelog.trace import span_names, tracing
from oncelog.types import PartitionId

_KEPT: Final = 1_024
"""While nothing is committed; what is forgotten only lacks the spans of its replication."""


class AppendTrace:
    """See the module. `parent` is the context of the call that brought it."""

    __slots__ = ("_append", "_parent", "_replicate", "_tracer", "context")

    def __init__(
        self, tracer: tracing.Tracer, parent: str, topic: str, partition: PartitionId, attributes: tracing.Attributes
    ) -> None:
        self._tracer = tracer
        self._parent = parent
        self._replicate: tracing.Span | None = None
        self.context = parent
        named = {span_names.DESTINATION: topic, span_names.PARTITION: str(partition.partition), **attributes}
        self._append = tracer.start(span_names.LOG_APPEND, tracing.Kind.INTERNAL, parent, named)

    def appended(self, base_offset: int, batches: int, *, leader_epoch: int, followers: int) -> None:
        """It is in the leader's log; `batches` went with it in the same write. Now `followers` must have it."""
        self._append.set(
            {
                span_names.OFFSET: base_offset,
                span_names.APPEND_BATCHES: batches,
                span_names.LEADER_EPOCH: leader_epoch,
            }
        )
        self._append.end()
        self._replicate = self._tracer.start(
            span_names.REPLICATE, tracing.Kind.INTERNAL, self._parent, {span_names.FOLLOWERS: followers}
        )
        self.context = self._replicate.traceparent

    def done(self, answer: asyncio.Future[Any]) -> None:
        """The command is answered. For `add_done_callback`."""
        error = asyncio.CancelledError() if answer.cancelled() else answer.exception()
        tracing.end_with(self._append, error)
        if self._replicate is not None:
            tracing.end_with(self._replicate, error)


class TracedAppends:
    """What was appended here for recorded traces, and is not committed yet: `waiting`, for a look without a call."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, int, str]] = deque(maxlen=_KEPT)

    def add(self, base_offset: int, next_offset: int, context: str) -> None:
        """In the order of offsets."""
        self.waiting.append((base_offset, next_offset, context))

    def committed(self, high_watermark: int) -> None:
        """Forgets what lies below."""
        while self.waiting and self.waiting[0][1] <= high_watermark:
            self.waiting.popleft()

    def contexts(self, start: int, end: int) -> list[str]:
        """Of what reaches into these offsets."""
        return [context for base, after, context in self.waiting if base < end and after > start]
