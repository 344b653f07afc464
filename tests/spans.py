"""A tracer whose spans stay in memory, for tests: what was ended, and what was started and never ended."""

from __future__ import annotations

import asyncio

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import StatusCode

from oncelog.trace import span_names
from oncelog.trace.otel_tracer import ChosenIds, OtelTracer
from oncelog.trace.tracing import Sampler


class Recorder(SpanProcessor):
    """Keeps spans. `open`: those that somebody forgot to end."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []
        self.open: dict[int, str] = {}
        self.ended_one = asyncio.Event()

    def on_start(self, span: object, parent_context: object = None) -> None:
        """A span begins."""
        assert isinstance(span, ReadableSpan)
        self.open[span.context.span_id] = span.name

    def on_end(self, span: ReadableSpan) -> None:
        """It is over."""
        del self.open[span.context.span_id]
        self.ended.append(span)
        self.ended_one.set()

    def shutdown(self) -> None:
        """Nothing."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits."""
        return True

    # ------------------------------------------------------------ looking

    def names(self) -> list[str]:
        """Of the spans, in the order of their ends."""
        return [span.name for span in self.ended]

    def one(self, name: str, kind: str = "") -> ReadableSpan:
        """The only span of this name (and kind)."""
        found = [span for span in self.ended if span.name == name and (not kind or span.kind.name == kind)]
        assert len(found) == 1, f"{len(found)} spans {name} {kind} among {self.names()}"
        return found[0]

    def orphans(self) -> list[str]:
        """Names of spans whose parent was never seen."""
        known = {span.context.span_id for span in self.ended}
        return [s.name for s in self.ended if s.parent is not None and s.parent.span_id not in known]


def recording_tracer(sampler: str = "parentbased_always_on", ratio: float = 1.0) -> tuple[OtelTracer, Recorder]:
    """A tracer of its own provider, and what it recorded."""
    from random import Random

    recorder = Recorder()
    ids = ChosenIds(Random(1))
    provider = TracerProvider(ALWAYS_ON, id_generator=ids, shutdown_on_exit=False)  # type: ignore[arg-type]
    provider.add_span_processor(recorder)
    return OtelTracer(provider, sampler=Sampler(sampler, ratio), ids=ids, random=Random(2)), recorder


def failed(span: ReadableSpan) -> bool:
    """True for a span with status ERROR."""
    return span.status.status_code is StatusCode.ERROR


def error_type(span: ReadableSpan) -> object:
    """Its error.type, or None."""
    return (span.attributes or {}).get(span_names.ERROR_TYPE)


def status(span: ReadableSpan) -> object:
    """The status that the call was answered with."""
    return (span.attributes or {}).get(span_names.RPC_STATUS_CODE)
