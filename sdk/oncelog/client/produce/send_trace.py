"""The observer that makes the spans of a producer: `create` where a record comes from, `send` while its batch is on its way.

Rule 1: no such observer exists unless the client is traced, and it keeps nothing for records that are not recorded.
Rule 2: the context of `create` goes into the record's headers before the record is batched, since header bytes count in the
        batch; a `traceparent` that the user has set stays, and is linked instead.
Rule 3: a batch has one `send` from its first try to its outcome, below the call that sent its first recorded record, with links
        to all others. It is started from what was noted then: the task that sends is the child of no span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

from oncelog.client.home.context import Context
from oncelog.client.produce.observer import UNRECORDED, Origin, SendObserver, TransactionObserver
from oncelog.core.batch.record import MAX_RECORD_HEADERS, HeaderList
from oncelog.core.produce.accumulator import Batch
from oncelog.errors import OncelogError
from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.trace.tracing import Kind, Span, Tracer
from oncelog.trace.transaction_span import Scope


class Created:
    """The `create` span of one call, around it. `links` are contexts that the user has set in the headers of its records."""

    __slots__ = ("_rows", "_traces", "links", "parent", "span")

    def __init__(self, traces: SendTraces, span: Span, parent: str) -> None:
        self._traces = traces
        self.span = span
        self.parent = parent
        self.links: list[str] = []
        self._rows = 0

    def __enter__(self) -> Created:
        """The span has begun already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The records are queued, or refused."""
        if self._rows:
            self.span.set({span_names.MESSAGE_COUNT: self._rows})
        tracing.end_with(self.span, error)

    def headers(self, given: HeaderList) -> HeaderList:
        """The headers of a record with the context in them, where there is room for it."""
        return self._traces.headers(self, given, MAX_RECORD_HEADERS)

    def queued(self, batch: Batch) -> None:
        """A record, or Arrow rows, are in this batch now."""
        self._traces.queued(batch, self)

    def counted(self, records: int) -> None:
        """How many records a call of many has queued."""
        self._rows = records


class _Sending:
    """The span of one batch, or what it will be made from."""

    __slots__ = ("links", "parent", "span")

    def __init__(self, parent: str) -> None:
        self.parent = parent
        self.links: dict[str, None] = {}
        self.span: Span | None = None


class SendTraces(SendObserver):
    """See the module. One per producer or participant."""

    records_origins = True

    def __init__(self, tracer: Tracer, client_id: str) -> None:
        self._tracer = tracer
        self._client_id = client_id
        self._sending: dict[Batch, _Sending] = {}
        self._parent: Callable[[], str] = tracer.current

    def belong_to(self, parent: Callable[[], str]) -> None:
        """The parent of all spans from now on."""
        self._parent = parent

    # ------------------------------------------------------------ records

    def origin(self, topic: str) -> Origin:
        """`create`, for the writer."""
        return self.create(topic) or UNRECORDED

    def create(self, topic: str) -> Created | None:
        """Begins a `create` span; None when it is not recorded."""
        parent = self._parent()
        if not self._tracer.wants(parent):
            return None
        named = span_names.messaging(span_names.CREATE, topic, client_id=self._client_id)
        span = self._tracer.record(span_names.messaging_span(span_names.CREATE, topic), Kind.PRODUCER, parent, named)
        return Created(self, span, parent) if span.sampled else None

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

    def sent(self, batches: Iterable[Batch]) -> None:
        """The task's calls belong to the batches from now on; to no span where none is recorded, because the broker would
        begin a trace of its own.
        """
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

    def acknowledged(self, batch: Batch) -> None:
        """Ends the batch's span."""
        span = self._ended(batch)
        if span is not None:
            if batch.base_offset >= 0:
                span.set({span_names.OFFSET: batch.base_offset})
            tracing.end_with(span, None)

    def failed(self, batch: Batch, error: OncelogError) -> None:
        """Ends the batch's span with the error."""
        span = self._ended(batch)
        if span is not None:
            tracing.end_with(span, error)

    def _ended(self, batch: Batch) -> Span | None:
        sending = self._sending.pop(batch, None)
        return None if sending is None else sending.span or self._start(batch, sending)

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


def observer_of(context: Context) -> SendObserver:
    """The observer of a producer of this client."""
    return SendObserver() if context.tracer is None else SendTraces(context.tracer, context.config.client_id)


def transaction_observer_of(context: Context, name: str) -> TransactionObserver | Scope:
    """The observer of a transaction, or a participant, that begins now; `name` is that of its span."""
    return TransactionObserver() if context.tracer is None else Scope(context.tracer, name)
