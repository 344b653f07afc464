"""The spans of a producer: `create` where a record comes from, `send` while its batch is on its way.

Rule 1: nothing here exists unless the client is traced, and nothing is kept for records that are not recorded.
Rule 2: the context of `create` goes into the record's headers before the record is batched, since header bytes count in the
        batch; a `traceparent` that the user has set stays, and is linked instead.
Rule 3: a batch has one `send` from its first try to its outcome, below whoever sent its first recorded record, with links
        to all others. It is started from what was noted then: the task that sends is nobody's child.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from oncelog.core.batch.record import HeaderList
from oncelog.core.produce.accumulator import Batch
from oncelog.errors import OncelogError
from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.trace.tracing import Kind, Span, Tracer


class Created:
    """Where records come from. `links` are contexts that the user has set in their headers."""

    __slots__ = ("links", "parent", "span")

    def __init__(self, span: Span, parent: str) -> None:
        self.span = span
        self.parent = parent
        self.links: list[str] = []

    def end(self, error: BaseException | None, count: int = 0) -> None:
        """The records are queued, or refused."""
        if count:
            self.span.set({span_names.MESSAGE_COUNT: count})
        tracing.end_with(self.span, error)


class _Sending:
    """What is known of one batch."""

    __slots__ = ("links", "parent", "span")

    def __init__(self, parent: str) -> None:
        self.parent = parent
        self.links: dict[str, None] = {}
        self.span: Span | None = None


class SendTraces:
    """All that is on its way from one producer or participant. `scope` gives the parent of what is sent."""

    def __init__(self, tracer: Tracer, client_id: str) -> None:
        self._tracer = tracer
        self._client_id = client_id
        self._sending: dict[Batch, _Sending] = {}
        self.scope: Callable[[], str] = tracer.current

    # ------------------------------------------------------------ records

    def create(self, topic: str) -> Created | None:
        """Begins a `create` span; None when it is not recorded."""
        parent = self.scope()
        if not self._tracer.wants(parent):
            return None
        named = span_names.messaging(span_names.CREATE, topic, client_id=self._client_id)
        span = self._tracer.record(span_names.messaging_span(span_names.CREATE, topic), Kind.PRODUCER, parent, named)
        return Created(span, parent) if span.sampled else None

    def headers(self, created: Created, given: HeaderList, room: int) -> HeaderList:
        """A record's headers with the context in them; at most `room` headers in all."""
        for name, value in given:
            if name.lower() == span_names.TRACEPARENT_HEADER:
                created.links.append((value or b"").decode("ascii", "replace"))
                return given
        mine = self._tracer.headers(created.span.traceparent)
        taken = {name for name, _ in given}
        added = tuple(item for item in mine if item[0] not in taken)
        return (*given, *added) if len(given) + len(added) <= room else given

    def queued(self, batch: Batch, created: Created) -> None:
        """A record, or Arrow rows, of `created` are in this batch now."""
        context = created.span.traceparent
        sending = self._sending.get(batch)
        if sending is None:
            parent = created.parent if tracing.is_sampled(created.parent) else context
            sending = self._sending[batch] = _Sending(parent)
        for link in (context, *created.links):
            if len(sending.links) < tracing.MAX_LINKS:
                sending.links[link] = None

    # ------------------------------------------------------------ batches

    def calling(self, batches: Iterable[Batch]) -> None:
        """This task makes a call with these batches now. With nobody's, else the broker would begin a trace of its own."""
        if not self._sending:
            TRACEPARENT.set(tracing.NOBODY)
            return
        contexts: list[str] = []
        for batch in batches:
            sending = self._sending.get(batch)
            if sending is not None:
                sending.span = sending.span or self._start(batch, sending)
                contexts.append(sending.span.traceparent)
        tracing.work_for(contexts)

    def resolved(self, batch: Batch, error: OncelogError | None) -> None:
        """The outcome of a batch is known."""
        sending = self._sending.pop(batch, None)
        if sending is None:
            return
        span = sending.span or self._start(batch, sending)
        if error is None and batch.base_offset >= 0:
            span.set({span_names.OFFSET: batch.base_offset})
        tracing.end_with(span, error)

    def _start(self, batch: Batch, sending: _Sending) -> Span:
        named = span_names.messaging(
            span_names.SEND,
            batch.topic,
            partition=str(batch.partition.partition),
            count=batch.record_count,
            client_id=self._client_id,
        )
        links: Sequence[str] = [link for link in sending.links if link != sending.parent]
        name = span_names.messaging_span(span_names.SEND, batch.topic)
        return self._tracer.start(name, Kind.CLIENT, sending.parent, named, links)
