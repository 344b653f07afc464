"""One trace for a micro-batch, or a batch job: its context is chosen on the driver and travels with the pickled writer.

Rule 1: driver, tasks and commit are different processes, so the process that commits or aborts writes the root span,
        with the ids and the start that were chosen when the batch was planned.
Rule 2: a batch that is not recorded loads no OpenTelemetry anywhere, and its context keeps brokers from recording
        anything either.
Rule 3: Spark ends workers without a word, so a task and a commit send their spans before they return, and wait for that a
        second at most.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from pyspark_oncelog.options.read_write_options import ConnectionOptions, SinkOptions

if TYPE_CHECKING:
    from oncelog.trace.tracing import Attributes, Span, Tracer

TracerOf = Callable[[], "Tracer | None"]
"""Returns the tracer of a client, which may have to be made first; None = it traces nothing."""
_FLUSH_MS: Final = 1_000


class BatchTrace(NamedTuple):
    """The context of a batch's root span, and when it began (ns since 1970). Empty: nothing is traced."""

    context: str = ""
    begin_ns: int = 0


NO_TRACE: Final = BatchTrace()


def begin(options: SinkOptions, now_ns: int, trace_id: int, span_id: int) -> BatchTrace:
    """A batch begins; the ids are random. Raises `ConfigError` for a wrong sampler."""
    if not options.otlp_endpoint:
        return NO_TRACE
    wanted = tracing.Sampler(options.trace_sampler, options.trace_sampler_arg).wants(trace_id, "")
    return BatchTrace(tracing.format_traceparent(trace_id or 1, span_id or 1, int(wanted)), now_ns)


def connection_of(options: SinkOptions, trace: BatchTrace) -> ConnectionOptions:
    """How to reach the cluster from a task or a commit of this batch: traced, if the batch is recorded."""
    return options.connection.traced(options.otlp_endpoint) if tracing.is_sampled(trace.context) else options.connection


@contextlib.contextmanager
def part(
    trace: BatchTrace, tracer_of: TracerOf, name: str, attributes: Attributes, is_last: bool = True
) -> Iterator[Span]:
    """Makes what this block does, and asks of the cluster, one span below the batch's root.

    Without a context this does nothing, asks for no tracer, and the span forgets what is set. `is_last`: the spans are
    sent afterwards.
    """
    span: Span = tracing.Unsampled(trace.context)
    if not trace.context:
        yield span
        return
    tracer = tracer_of()
    if tracer is not None:
        span = tracer.start(name, tracing.Kind.INTERNAL, trace.context, attributes)
    token = TRACEPARENT.set(span.traceparent)
    try:
        yield span
    except BaseException as error:
        tracing.end_with(span, error)
        raise
    finally:
        TRACEPARENT.reset(token)
        span.end()
        if tracer is not None and is_last:
            tracer.flush(_FLUSH_MS)


@contextlib.contextmanager
def last_part(
    trace: BatchTrace, tracer_of: TracerOf, name: str, app_id: str, batch_id: int, tasks: int
) -> Iterator[None]:
    """Makes this block, a commit or an abort, the last span below the root, and then writes the root itself.

    Without a context this does nothing, and asks for no tracer.
    """
    if not trace.context:
        yield
        return
    tracer = tracer_of()
    named: Attributes = {
        span_names.SPARK_APP_ID: app_id,
        span_names.SPARK_BATCH_ID: str(batch_id),
        span_names.SPARK_TASKS: tasks,
    }
    failed = "aborted" if name == span_names.SPARK_ABORT else ""
    try:
        with part(trace, lambda: tracer, name, named, is_last=False):
            yield
    except BaseException as error:
        failed = type(error).__name__
        raise
    finally:
        if tracer is not None:
            tracer.emit(span_names.SPARK_BATCH, trace.context, trace.begin_ns, named, failed)
            tracer.flush(_FLUSH_MS)
