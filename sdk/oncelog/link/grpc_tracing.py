"""Makes the span of each call, whatever its outcome is: over a link (`traced`), or a unary one through generated stubs.

    channel = grpc.aio.insecure_channel(address, interceptors=[ClientTracing(tracer)])

Rule: the span ends with the answer, the error, the deadline, the cancellation of the task that waits, or the end of the
connection; none is ever left open, so nothing below it in a trace loses its parent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

import grpc.aio

from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import LINKS

T = TypeVar("T")


def traced(
    tracer: tracing.Tracer, method: str, address: str, call: Callable[[str], Coroutine[object, None, T]]
) -> Coroutine[object, None, T]:
    """Returns a call over a link, inside of a span if it has one. `call(traceparent)` makes it; the peer gets that context."""
    parent = tracer.current()
    unrecorded = tracing.unrecorded_call(tracer, method, parent)
    return _recorded(tracer, parent, method, address, call) if unrecorded is None else call(unrecorded)


async def _recorded(
    tracer: tracing.Tracer, parent: str, method: str, address: str, call: Callable[[str], Coroutine[object, None, T]]
) -> T:
    """The span ends however the call ends."""
    span = tracing.record_client_call(tracer, method, address, parent, LINKS.get())
    try:
        answer = await call(span.traceparent)
    except BaseException as error:
        tracing.end_with(span, error)
        raise
    span.end()
    return answer


class ClientTracing(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """An interceptor; the first in the list, so that it sees what the caller sees. `tracer`: see `oncelog.trace.tracing`."""

    def __init__(self, tracer: tracing.Tracer) -> None:
        self._tracer = tracer

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, object], Awaitable[grpc.aio.UnaryUnaryCall]],
        details: grpc.aio.ClientCallDetails,
        request: object,
    ) -> grpc.aio.UnaryUnaryCall:
        """See `grpc.aio.UnaryUnaryClientInterceptor`."""
        path = details.method.decode() if isinstance(details.method, bytes) else details.method
        if path.startswith(span_names.UNTRACED_SERVICES):
            return await continuation(details, request)
        method = path.removeprefix("/oncelog.v1.").replace("/", ".")
        parent = self._tracer.current()
        unrecorded = tracing.unrecorded_call(self._tracer, method, parent)
        if unrecorded is not None:
            if unrecorded == tracing.NOBODY:
                unrecorded = self._tracer.skip("").traceparent  # any server may read metadata: a W3C context
            return await continuation(_with_context(details, unrecorded), request)
        span = tracing.record_client_call(self._tracer, method, "", parent)
        call = None
        try:
            call = await continuation(_with_context(details, span.traceparent), request)
            code = await call.code()  # waits for the end, and raises nothing but the cancellation of this task
        except BaseException as error:
            tracing.end_with(span, error)
            if call is not None:
                call.cancel()
            raise
        span.set({span_names.RPC_STATUS_CODE: code.name})
        if code is grpc.StatusCode.OK:
            span.end()
        else:
            span.end(code.name, await call.details() or "")
        return call


def _with_context(details: grpc.aio.ClientCallDetails, traceparent: str) -> grpc.aio.ClientCallDetails:
    """The call's details with the context in its metadata, unless the caller has set one."""
    metadata = grpc.aio.Metadata(*(details.metadata or ()))
    if traceparent and span_names.TRACEPARENT_HEADER not in metadata:
        metadata.add(span_names.TRACEPARENT_HEADER, traceparent)
    return details._replace(metadata=metadata)
