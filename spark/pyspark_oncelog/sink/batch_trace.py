"""One trace for a micro-batch, or a batch job: its context is chosen on the driver and travels with the pickled writer.

Rule 1: driver, tasks and commit are different processes, so the root span is written by whoever commits or aborts, with the ids
        and the start that were chosen when the batch was planned.
Rule 2: a batch that is not recorded loads no OpenTelemetry anywhere; brokers are told, so that they record nothing either.
Rule 3: Spark ends workers without a word, so a task and a commit send their spans before they return, and wait for that a
        second at most.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from pyspark_oncelog.options.read_write_options import ConnectionOptions, SinkOptions

if TYPE_CHECKING:
    from oncelog.trace.tracing import Attributes, Span, Tracer

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
    trace: BatchTrace, tracer: Tracer | None, name: str, attributes: Attributes, is_last: bool = True
) -> Iterator[Span]:
    """What is done in this block, and asked of the cluster, is one span below the batch's root. Sent, if it `is_last` here."""
    span: Span = tracing.Unsampled(trace.context)
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
    trace: BatchTrace, tracer: Tracer | None, name: str, app_id: str, batch_id: int, tasks: int
) -> Iterator[None]:
    """Commit or abort: the last span below the root, and then the root itself."""
    named: Attributes = {
        span_names.SPARK_APP_ID: app_id,
        span_names.SPARK_BATCH_ID: str(batch_id),
        span_names.SPARK_TASKS: tasks,
    }
    failed = "aborted" if name == span_names.SPARK_ABORT else ""
    try:
        with part(trace, tracer, name, named, is_last=False):
            yield
    except BaseException as error:
        failed = type(error).__name__
        raise
    finally:
        if tracer is not None:
            tracer.emit(span_names.SPARK_BATCH, trace.context, trace.begin_ns, named, failed)
            tracer.flush(_FLUSH_MS)
