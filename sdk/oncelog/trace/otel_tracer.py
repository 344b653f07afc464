"""The tracing port on OpenTelemetry's API. Nothing imports this module while tracing is off.

Rule 1: with a sampler of ours the decision is made before OpenTelemetry is asked, so that a trace that is not recorded
        costs a random number. With the application's provider its own sampler decides.
Rule 2: a span is ended once; what comes afterwards is dropped in silence.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random, SystemRandom
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.trace.tracing import Attributes, Kind, Span, Unsampled

_KINDS: Final = {
    Kind.INTERNAL: SpanKind.INTERNAL,
    Kind.SERVER: SpanKind.SERVER,
    Kind.CLIENT: SpanKind.CLIENT,
    Kind.PRODUCER: SpanKind.PRODUCER,
    Kind.CONSUMER: SpanKind.CONSUMER,
}
_NO_CONTEXT: Final = Context()
_INVALID: Final = trace.INVALID_SPAN_CONTEXT

Flush = Callable[[int], object]


class OtelSpan:
    """A recorded span."""

    __slots__ = ("_is_over", "inner", "traceparent")
    sampled = True

    def __init__(self, inner: trace.Span) -> None:
        self.inner = inner
        self.traceparent = _text(inner.get_span_context())
        self._is_over = False

    def set(self, attributes: Attributes) -> None:
        """See `tracing.Span`."""
        if not self._is_over:
            self.inner.set_attributes(dict(attributes))

    def rename(self, name: str) -> None:
        """See `tracing.Span`."""
        if not self._is_over:
            self.inner.update_name(name)

    def end(self, error_type: str = "", message: str = "") -> None:
        """See `tracing.Span`."""
        if self._is_over:
            return
        if error_type:
            self.inner.set_attribute(span_names.ERROR_TYPE, error_type)
            self.inner.set_status(Status(StatusCode.ERROR, message or error_type))
        self._is_over = True
        self.inner.end()


class ChosenIds(threading.local):
    """Implements OpenTelemetry's `IdGenerator`: random ids, or those that this thread chose for its next root span."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.trace_id = 0
        self.span_id = 0

    def generate_trace_id(self) -> int:
        """128 bits, not 0."""
        chosen, self.trace_id = self.trace_id, 0
        return chosen or self._random.getrandbits(128) or 1

    def generate_span_id(self) -> int:
        """64 bits, not 0."""
        chosen, self.span_id = self.span_id, 0
        return chosen or self._random.getrandbits(64) or 1

    def is_trace_id_random(self) -> bool:
        """They are."""
        return True


class OtelTracer:
    """Implements `tracing.Tracer`.

    `sampler` None: the provider's own decides. `ids`: of a provider that was made for this tracer. `on_flush(timeout_ms)`
    and `on_close(timeout_ms)` send what is finished. `ambient`: an application runs in this process, whose current span counts.
    """

    def __init__(
        self,
        provider: trace.TracerProvider,
        *,
        sampler: tracing.Sampler | None = None,
        ids: ChosenIds | None = None,
        on_flush: Flush | None = None,
        on_close: Flush | None = None,
        ambient: bool = True,
        random: Random | None = None,
    ) -> None:
        self._tracer = provider.get_tracer("oncelog")
        self._sampler = sampler
        if sampler is not None:
            self.follows_parents = sampler.follows_parent
        else:
            self.follows_parents = "ParentBased" in type(getattr(provider, "sampler", None)).__name__
        self._ids = ids
        self._on_flush = on_flush
        self._on_close = on_close
        self._ambient = ambient
        self._random = random or Random(SystemRandom().getrandbits(256))
        self.calls_begin_traces = ambient
        self.exports = on_flush is not None

    # ------------------------------------------------------------ contexts

    def current(self) -> str:
        """See `tracing.Tracer`. The application's own span counts for clients only: a server has no application."""
        own = TRACEPARENT.get()
        if own or not self._ambient or not get_current():
            return own
        context = trace.get_current_span().get_span_context()
        return _text(context) if context.is_valid else ""

    def headers(self, context: str) -> list[tuple[str, bytes | None]]:
        """See `tracing.Tracer`: by the propagator that the application has chosen."""
        carrier: dict[str, str] = {}
        span = NonRecordingSpan(_parsed(context) or _INVALID)
        propagate.inject(carrier, trace.set_span_in_context(span))
        return [(name, value.encode()) for name, value in carrier.items()]

    @contextlib.contextmanager
    def use(self, span: Span) -> Iterator[None]:
        """See `tracing.Tracer`."""
        inner = span.inner if isinstance(span, OtelSpan) else NonRecordingSpan(_parsed(span.traceparent) or _INVALID)
        with trace.use_span(inner, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield

    def now_ns(self) -> int:
        """See `tracing.Tracer`."""
        return time.time_ns()

    # ------------------------------------------------------------ spans

    def wants(self, parent: str) -> bool:
        """See `tracing.Tracer`. With the application's sampler: what is certain before it is asked."""
        if parent:
            if parent == tracing.NOBODY:
                return False
            if self.follows_parents:
                return tracing.is_sampled(parent)
        if self._sampler is None:
            return True
        return self._sampler.wants(
            _trace_id(parent) if parent else self._random.getrandbits(tracing.RATIO_BITS), parent
        )

    def record(
        self,
        name: str,
        kind: Kind,
        parent: str,
        attributes: Attributes | None = None,
        links: Sequence[str] = (),
        start_ns: int = 0,
    ) -> Span:
        """See `tracing.Tracer`. A root of our sampler's gets an id that every sampler of this share wants."""
        context = _NO_CONTEXT
        if parent:
            found = _parsed(parent)
            if found is None:
                return Unsampled(parent)
            context = trace.set_span_in_context(NonRecordingSpan(found), _NO_CONTEXT)
        elif self._sampler is not None and self._ids is not None:
            self._ids.trace_id = self._trace_id_of(0, self._sampler.bound)
        return self._started(name, kind, context, attributes, links, start_ns)

    def start(
        self,
        name: str,
        kind: Kind,
        parent: str,
        attributes: Attributes | None = None,
        links: Sequence[str] = (),
        start_ns: int = 0,
    ) -> Span:
        """See `tracing.Tracer`."""
        if self.wants(parent):
            return self.record(name, kind, parent, attributes, links, start_ns)
        return self.skip(parent)

    def skip(self, parent: str) -> Unsampled:
        """See `tracing.Tracer`. Roots get different ids, so that they can be told apart, in logs too."""
        if parent:
            return Unsampled(tracing.unrecorded(parent))
        bound = 0 if self._sampler is None else self._sampler.bound
        trace_id = self._trace_id_of(bound, 1 << tracing.RATIO_BITS)
        return Unsampled(tracing.format_traceparent(trace_id, self._span_id(), 0))

    def _trace_id_of(self, start: int, end: int) -> int:
        """One whose low bits lie here: so every sampler of the same share decides alike."""
        low = self._random.randrange(start, end) if start < end else start
        return self._random.getrandbits(64) << tracing.RATIO_BITS | low or 1

    def _span_id(self) -> int:
        return self._random.getrandbits(64) or 1

    def _started(
        self,
        name: str,
        kind: Kind,
        context: Context,
        attributes: Attributes | None,
        links: Sequence[str],
        start_ns: int,
    ) -> Span:
        inner = self._tracer.start_span(
            name,
            context,
            _KINDS[kind],
            attributes,
            [Link(found) for found in map(_parsed, links) if found is not None] if links else None,
            start_ns or None,
        )
        return OtelSpan(inner) if inner.is_recording() else Unsampled(_text(inner.get_span_context()))

    # ------------------------------------------------------------ roots of another process

    def choose_root(self) -> str:
        """See `tracing.Tracer`."""
        trace_id = self._random.getrandbits(128) or 1
        wanted = self._sampler is None or self._sampler.wants(trace_id, "")
        return tracing.format_traceparent(trace_id, self._span_id(), int(wanted))

    def emit(self, name: str, traceparent: str, start_ns: int, attributes: Attributes, error: str = "") -> None:
        """See `tracing.Tracer`."""
        ids = tracing.parse_traceparent(traceparent)
        if ids is None or self._ids is None or not tracing.is_sampled(traceparent):
            return
        self._ids.trace_id, self._ids.span_id = ids[:2]
        self._started(name, Kind.INTERNAL, _NO_CONTEXT, attributes, (), start_ns).end(error)

    # ------------------------------------------------------------ end

    def flush(self, timeout_ms: int) -> None:
        """See `tracing.Tracer`; the application's own provider is the application's to flush."""
        if self._on_flush is not None:
            self._on_flush(timeout_ms)

    def close(self, timeout_ms: int) -> None:
        """See `tracing.Tracer`."""
        if self._on_close is not None:
            self._on_close(timeout_ms)


def application_tracer() -> OtelTracer | None:
    """A tracer on the provider that the application has set up, if it has."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return OtelTracer(provider)


def _text(context: SpanContext) -> str:
    return tracing.format_traceparent(context.trace_id, context.span_id, context.trace_flags)


def _parsed(traceparent: str) -> SpanContext | None:
    ids = tracing.parse_traceparent(traceparent)
    return None if ids is None else SpanContext(ids[0], ids[1], is_remote=True, trace_flags=TraceFlags(ids[2]))


def _trace_id(traceparent: str) -> int:
    """Without looking at the rest; 0 for what is no context: a peer may say anything."""
    try:
        return int(traceparent[3:35], 16)
    except ValueError:
        return 0
