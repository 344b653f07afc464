"""Makes the span of each unary call that is served, however the call ends.

Rule 1: it ends with the answer, with an unexpected exception (UNKNOWN, an error of the server), with the caller's
        deadline (DEADLINE_EXCEEDED), when the caller gives up (CANCELLED), and when the server stops.
Rule 2: health checks, reflection and links have no span: a link is open for days, and each of its frames has its own.
Rule 3: calls made by the handler belong to the span (`TRACEPARENT`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import grpc
import grpc.aio

from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog_runtime.adapters.grpc.server_context import CallDetails, ServerContext

Serve = Callable[[object, ServerContext], Awaitable[object]]

_METHOD_PREFIX: Final = "/oncelog.v1."
_DEADLINE_SLACK_S: Final = 0.005
"""gRPC cancels a handler a moment before its deadline has passed by the clock."""


class ServerTracing(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """The outermost interceptor, which makes the spans. Unary methods are served as `unary_requests` says."""

    def __init__(self, tracer: tracing.Tracer) -> None:
        self._tracer = tracer

    async def intercept_service(
        self, continuation: Callable[[CallDetails], Awaitable[grpc.RpcMethodHandler]], details: CallDetails
    ) -> grpc.RpcMethodHandler:
        """See `grpc.aio.ServerInterceptor`."""
        handler = await continuation(details)
        if handler is None or handler.stream_unary is None or details.method.startswith(span_names.UNTRACED_SERVICES):
            return handler
        metadata = dict(details.invocation_metadata or ())
        parent = str(metadata.get(span_names.TRACEPARENT_HEADER, ""))
        return grpc.stream_unary_rpc_method_handler(
            self._wrapped(handler.stream_unary, method_name(details.method), parent),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _wrapped(self, serve: Serve, method: str, parent: str) -> Serve:
        async def traced(request: object, context: ServerContext) -> object:
            span, traceparent = tracing.start_server_call(self._tracer, method, parent)
            TRACEPARENT.set(traceparent)
            if span is None:
                return await serve(request, context)
            try:
                answer = await serve(request, context)
            except BaseException as error:
                _end_failed(span, context, error)
                raise
            tracing.end_server_call(span, _status(context) or "OK")
            return answer

        return traced


def _end_failed(span: tracing.Span, context: ServerContext, error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        left_s = context.time_remaining()
        late = left_s is not None and left_s <= _DEADLINE_SLACK_S
        status = "DEADLINE_EXCEEDED" if late else span_names.CANCELLED
        tracing.end_server_call(span, status, status, "the caller no longer waits")
        return
    status = _status(context)  # set by `context.abort`
    if status:
        tracing.end_server_call(span, status, status, str(context.details() or ""))
    else:
        tracing.end_server_call(span, "UNKNOWN", type(error).__qualname__, str(error))


def _status(context: ServerContext) -> str:
    """Returns the status that the handler has set; empty = none."""
    code = context.code()
    if isinstance(code, int):
        code = next((known for known in grpc.StatusCode if known.value[0] == code), None) if code else None
    return code.name if code is not None else ""


def method_name(path: str) -> str:
    """Returns `/oncelog.v1.Service/Method` as `Service.Method`."""
    return path.removeprefix(_METHOD_PREFIX).replace("/", ".")
