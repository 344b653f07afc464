"""The spans of one batch, or one marker, in its leader: `log.append`, then `replicate` until it is committed.

Rule 1: a command is traced when the call that brought it is recorded. All others cost one look at their context when they are
        queued, and one look at an empty dict for each group.
Rule 2: the spans end with the command's future, however that ends.
Rule 3: messages to followers that carry the batch belong to its context, until the high watermark has passed it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from oncelog.errors import OncelogError
from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import PartitionId
from oncelog_partition_leader.core.appends.commands import AppendBatch, AppendMarkerCommand, Command, Reply
from oncelog_partition_leader.log.partition_log import Appended

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

    def done(self, answer: Reply) -> None:
        """Ends the spans when the command is answered."""
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


class AppendTraces:
    """Implements `AppendObserver`: the spans of the commands of one leadership. `traced` remembers what is not committed."""

    __slots__ = ("_followers", "_open", "_partition", "_spans", "_topic", "_traced")

    def __init__(
        self, tracer: tracing.Tracer, topic: str, partition: PartitionId, followers: int, traced: TracedAppends
    ) -> None:
        self._spans = tracer
        self._topic = topic
        self._partition = partition
        self._followers = followers
        self._traced = traced
        self._open: dict[Command, AppendTrace] = {}

    def queued(self, command: Command) -> None:
        """Starts the spans of a batch or a marker whose call is recorded.

        Called only once the command waits: the future of a refused one is never resolved, and its span would stay open.
        """
        parent = TRACEPARENT.get()
        if tracing.is_sampled(parent) and (named := _named(command)) is not None:
            self._open[command] = AppendTrace(self._spans, parent, self._topic, self._partition, named)
            command.done.add_done_callback(partial(self._done, command))

    def _done(self, command: Command, answer: Reply) -> None:
        self._open.pop(command).done(answer)

    def writing(self) -> None:
        """See `AppendObserver.writing`."""

    def appended(self, commands: Sequence[Command], batches: Sequence[Appended]) -> None:
        """Ends the append's span, and starts that of its replication."""
        if not self._open:
            return
        for command, batch in zip(commands, batches, strict=True):
            trace = self._open.get(command)
            if trace is not None:
                trace.appended(
                    batch.base_offset,
                    len(batches),
                    leader_epoch=batch.header.leader_epoch,
                    followers=self._followers,
                )
                self._traced.add(batch.base_offset, batch.next_offset, trace.context)

    def committed(self, commands: Sequence[Command], high_watermark: int) -> None:
        """Forgets what is committed."""
        if self._traced.waiting:
            self._traced.committed(high_watermark)

    def failed(self, command: Command, error: OncelogError) -> None:
        """See `AppendObserver.failed`: the spans end with the command's future."""

    def context_of(self, command: Command) -> str:
        """Returns the context of a command's present span."""
        trace = self._open.get(command)
        return trace.context if trace is not None else ""


def _named(command: Command) -> tracing.Attributes | None:
    """Returns the attributes of a command's spans; None when it has none."""
    if isinstance(command, AppendBatch):
        return {span_names.APPEND_BYTES: len(command.data)}
    if isinstance(command, AppendMarkerCommand):
        name = command.name
        return {span_names.TXN_NO: str(name.txn_no), span_names.PRODUCER_ID: str(name.txn_producer_id)}
    return None
