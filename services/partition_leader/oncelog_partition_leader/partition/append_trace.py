"""The spans of one batch, or one marker, in its leader: `log.append`, then `replicate` until it is committed.

Rule 1: the handler makes one only for a call of a recorded trace; for other calls `command.trace` is None.
Rule 2: the spans end with the command's future, however that ends.
Rule 3: messages to followers that carry the batch belong to `context`, until the high watermark has passed it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from oncelog.trace import span_names, tracing
from oncelog.types import PartitionId

_KEPT: Final = 1_024
"""The most appends remembered while nothing is committed; older ones only lack the spans of their replication."""


class AppendTrace:
    """The spans of one command. `parent` is the context of the call that brought it."""

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
        """Notes that the batch is in the leader's log, written together with others; `followers` have to replicate it."""
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
        """Ends the spans when the command is answered. For `add_done_callback`."""
        error = asyncio.CancelledError() if answer.cancelled() else answer.exception()
        tracing.end_with(self._append, error)
        if self._replicate is not None:
            tracing.end_with(self._replicate, error)


class TracedAppends:
    """Appends of recorded traces that are not committed yet. `waiting` is public: to see that it is empty needs no call."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, int, str]] = deque(maxlen=_KEPT)

    def add(self, base_offset: int, next_offset: int, context: str) -> None:
        """Adds an append; the order is that of offsets."""
        self.waiting.append((base_offset, next_offset, context))

    def committed(self, high_watermark: int) -> None:
        """Forgets the appends below the high watermark."""
        while self.waiting and self.waiting[0][1] <= high_watermark:
            self.waiting.popleft()

    def contexts(self, start: int, end: int) -> list[str]:
        """Returns the contexts of the appends that overlap these offsets."""
        return [context for base, after, context in self.waiting if base < end and after > start]
