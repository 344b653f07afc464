"""The spans of a worker: `poll`, `process`, and `ack`, `nack`, `touch`, `reject`, linked to where each record was created.

Rule 1: links, not parents, as for a consumer: one poll returns the records of many traces.
Rule 2: a poll that returned nothing leaves no span; neither do the requests that stand at brokers, nor what the worker settles
        by itself (touches of `auto_touch`, records that have expired).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from oncelog.client.consume.observe.read_trace import creation_context
from oncelog.client.work.message import ChannelMessage
from oncelog.client.work.observe.work_observer import WorkObserver
from oncelog.config import WorkerConfig
from oncelog.core.work.settlements import Verdict
from oncelog.trace import span_names, tracing
from oncelog.trace.tracing import Kind, Tracer
from oncelog.trace.transaction_span import inside_of

_NAMES: Final = {
    Verdict.ACK: span_names.ACK,
    Verdict.NACK: span_names.NACK,
    Verdict.TOUCH: span_names.TOUCH,
    Verdict.REJECT: span_names.REJECT,
}


def work_observer(
    tracer: Tracer | None, config: WorkerConfig, topic: str, channel: str, client_id: str
) -> WorkObserver:
    """Returns the worker's observer, which makes spans if there is a tracer."""
    return WorkObserver() if tracer is None else WorkTraces(tracer, config, topic, channel, client_id)


class WorkTraces(WorkObserver):
    """Makes the spans of one worker."""

    def __init__(self, tracer: Tracer, config: WorkerConfig, topic: str, channel: str, client_id: str) -> None:
        self._tracer = tracer
        self._of_message = config.trace_consumer_parent == "message"
        self._topic = topic
        self._channel = channel
        self._client_id = client_id

    def poll_begins(self) -> int:
        """Nanoseconds since 1970."""
        return self._tracer.now_ns()

    def polled(self, messages: Sequence[ChannelMessage], begun: int) -> None:
        """A poll that began at `begun` has returned these messages."""
        if not messages or not self._tracer.wants(parent := self._tracer.current()):
            return
        named = self._named(span_names.POLL, count=len(messages))
        self._tracer.record(
            self._name(span_names.POLL), Kind.CLIENT, parent, named, _links_of(messages, parent), begun
        ).end()

    @contextlib.contextmanager
    def processing(self, message: ChannelMessage) -> Iterator[None]:
        """See `Worker.processing`."""
        tracer = self._tracer
        parent = (creation_context(message) if self._of_message else "") or tracer.current()
        span = self._process(message, parent) if tracer.wants(parent) else tracer.skip(parent)
        try:
            with tracer.use(span):
                yield
        except BaseException as error:
            tracing.end_with(span, error)
            raise
        span.end()

    @contextlib.contextmanager
    def settling(self, messages: Sequence[ChannelMessage], verdict: Verdict) -> Iterator[None]:
        """The calls to brokers that settle these messages belong to the span."""
        operation = _NAMES[verdict]
        parent = self._tracer.current()
        if self._tracer.wants(parent):
            named = self._named(operation, count=len(messages))
            links = _links_of(messages, parent)
            span = self._tracer.record(self._name(operation), Kind.CLIENT, parent, named, links)
        else:
            span = self._tracer.skip(parent)
        try:
            with inside_of(span.traceparent):
                yield
        except BaseException as error:
            tracing.end_with(span, error)
            raise
        span.end()

    def _process(self, message: ChannelMessage, parent: str) -> tracing.Span:
        named = self._named(span_names.PROCESS, partition=str(message.partition))
        named[span_names.OFFSET] = message.offset
        named[span_names.DELIVERIES] = message.deliveries
        name = self._name(span_names.PROCESS)
        return self._tracer.record(name, Kind.CONSUMER, parent, named, _links_of((message,), parent))

    def _name(self, operation: str) -> str:
        return span_names.messaging_span(operation, self._topic)

    def _named(self, operation: str, **more: str | int) -> dict[str, tracing.AttributeValue]:
        return span_names.messaging(operation, self._topic, channel=self._channel, client_id=self._client_id, **more)


def _links_of(messages: Sequence[ChannelMessage], parent: str) -> list[str]:
    """The contexts in which these records were created, each once."""
    found = dict.fromkeys(context for context in map(creation_context, messages) if context not in ("", parent))
    return list(found)[: tracing.MAX_LINKS]
