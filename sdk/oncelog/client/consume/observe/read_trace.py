"""The spans of a consumer: `poll` and `process`, linked to where each record was created, and `commit`.

Rule 1: links, not parents: one poll returns the records of many traces, and none of them owns it.
Rule 2: a poll that returned nothing leaves no span, and neither do the long polls behind it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Protocol

from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.consume.observe.read_observer import ReadObserver
from oncelog.client.consume.offsets import Offsets, as_partition
from oncelog.config import ConsumerConfig
from oncelog.trace import span_names, tracing
from oncelog.trace.tracing import Kind, Tracer
from oncelog.trace.transaction_span import inside_of


def read_observer(tracer: Tracer | None, config: ConsumerConfig, client_id: str) -> ReadObserver:
    """Returns the consumer's observer, which makes spans if there is a tracer."""
    return ReadObserver() if tracer is None else ReadTraces(tracer, config, client_id)


class ReadTraces(ReadObserver):
    """Makes the spans of one consumer."""

    sees_each_poll: ClassVar[bool] = True

    def __init__(self, tracer: Tracer, config: ConsumerConfig, client_id: str) -> None:
        self._tracer = tracer
        self._config = config
        self._client_id = client_id

    def poll_begins(self) -> int:
        """Nanoseconds since 1970."""
        return self._tracer.now_ns()

    def polled(self, records: Sequence[ConsumerRecord], begun: int) -> None:
        """A poll that began at `begun` has returned these records."""
        if not records or not self._tracer.wants(parent := self._tracer.current()):
            return
        topic = _one(record.topic for record in records)
        named = self._named(span_names.POLL, topic, count=len(records))
        links = list(dict.fromkeys(context for context in map(creation_context, records) if context))
        name = span_names.messaging_span(span_names.POLL, topic)
        self._tracer.record(name, Kind.CLIENT, parent, named, links[: tracing.MAX_LINKS], begun).end()

    @contextlib.contextmanager
    def processing(self, record: ConsumerRecord) -> Iterator[None]:
        """See `Consumer.processing`."""
        of_message = self._config.trace_consumer_parent == "message"
        parent = (creation_context(record) if of_message else "") or self._tracer.current()
        span = self._process(record, parent) if self._tracer.wants(parent) else self._tracer.skip(parent)
        try:
            with self._tracer.use(span):
                yield
        except BaseException as error:
            tracing.end_with(span, error)
            raise
        span.end()

    @contextlib.contextmanager
    def committing(self, offsets: Offsets) -> Iterator[None]:
        """A commit of offsets."""
        topic = _one(as_partition(partition).topic for partition in offsets)
        tracer, named = self._tracer, self._named(span_names.COMMIT, topic)
        span = tracer.start(span_names.messaging_span(span_names.COMMIT, topic), Kind.CLIENT, tracer.current(), named)
        try:
            with inside_of(span.traceparent):
                yield
        except BaseException as error:
            tracing.end_with(span, error)
            raise
        span.end()

    def _process(self, record: ConsumerRecord, parent: str) -> tracing.Span:
        origin = creation_context(record)
        named = self._named(span_names.PROCESS, record.topic, partition=str(record.partition))
        named[span_names.OFFSET] = record.offset
        name = span_names.messaging_span(span_names.PROCESS, record.topic)
        links = (origin,) if origin and origin != parent else ()
        return self._tracer.record(name, Kind.CONSUMER, parent, named, links)

    def _named(self, operation: str, topic: str, **more: str | int) -> dict[str, tracing.AttributeValue]:
        group = self._config.group_id or ""
        return span_names.messaging(operation, topic, group=group, client_id=self._client_id, **more)


class HasHeaders(Protocol):
    """A record of a consumer, or a message of a worker."""

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """Names and values, in order."""
        ...


def creation_context(record: HasHeaders) -> str:
    """The context in a record's headers; empty: there is none."""
    for name, value in record.headers:
        if name == span_names.TRACEPARENT_HEADER and value is not None:
            text = value.decode("ascii", "replace")
            return text if tracing.parse_traceparent(text) is not None else ""
    return ""


def _one(topics: Iterable[str]) -> str:
    """The topic, if it is one."""
    found = set(topics)
    return found.pop() if len(found) == 1 else ""
