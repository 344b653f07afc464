"""The span of each unary call that is served ends once, whatever becomes of the call, and says what became of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from oncelog.trace import tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog_runtime.adapters.grpc.grpc_tracing import ServerTracing, method_name
from tests.spans import Recorder, error_type, failed, recording_tracer, status

PATH, NAME = "/oncelog.v1.PartitionLeader/CreateTopic", "oncelog.v1.PartitionLeader/CreateTopic"
PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


class Context:
    """Of one call, as its handler left it."""

    def __init__(self, code: Any = None, details: str = "", left_s: float | None = None) -> None:
        self._code, self._details, self._left_s = code, details, left_s

    def code(self) -> Any:
        return self._code

    def details(self) -> str:
        return self._details

    def time_remaining(self) -> float | None:
        return self._left_s


class Aborted(Exception):
    """What `context.abort` raises."""


def serve(
    context: Context, error: BaseException | None = None, parent: str = PARENT, path: str = PATH
) -> tuple[Recorder, list[str]]:
    """One call, and in which context its handler ran."""
    tracer, spans = recording_tracer()
    seen: list[str] = []

    async def handler(_request: Any, _context: Any) -> bytes:
        seen.append(TRACEPARENT.get())
        if error is not None:
            raise error
        return b"answer"

    async def continuation(_details: Any) -> grpc.RpcMethodHandler:
        return grpc.stream_unary_rpc_method_handler(handler)

    async def call() -> None:
        details = SimpleNamespace(method=path, invocation_metadata=(("traceparent", parent),))
        traced = await ServerTracing(tracer).intercept_service(continuation, details)
        if error is None:
            assert await traced.stream_unary(b"", context) == b"answer"
            return
        with pytest.raises(type(error)):
            await traced.stream_unary(b"", context)

    asyncio.run(call())
    assert not spans.open
    return spans, seen


def test_an_answer_ends_it_and_what_the_handler_does_belongs_to_it() -> None:
    spans, [seen] = serve(Context())
    span = spans.one(NAME, "SERVER")
    assert (status(span), failed(span)) == ("OK", False)
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b" * 16
    context = tracing.parse_traceparent(seen)
    assert context is not None
    assert context[1] == span.context.span_id


@pytest.mark.parametrize(
    ("context", "error", "says", "is_failed"),
    [
        (Context(grpc.StatusCode.NOT_FOUND, "no such topic"), Aborted(), "NOT_FOUND", False),
        (Context(grpc.StatusCode.UNAVAILABLE.value[0], "away"), Aborted(), "UNAVAILABLE", True),
        (Context(), KeyError("a bug"), "UNKNOWN", True),
        (Context(0), KeyError("a bug"), "UNKNOWN", True),
        (Context(left_s=None), asyncio.CancelledError(), "CANCELLED", False),
        (Context(left_s=3.0), asyncio.CancelledError(), "CANCELLED", False),
        (Context(left_s=0.001), asyncio.CancelledError(), "DEADLINE_EXCEEDED", True),
        (Context(left_s=-1.0), asyncio.CancelledError(), "DEADLINE_EXCEEDED", True),
    ],
)
def test_a_call_that_failed_says_how_and_reddens_the_server_if_it_is_its_fault(
    context: Context, error: BaseException, says: str, is_failed: bool
) -> None:
    spans, _ = serve(context, error)
    span = spans.one(NAME)
    assert (status(span), failed(span)) == (says, is_failed)
    assert error_type(span) == ("KeyError" if isinstance(error, KeyError) else says)


def test_what_is_not_recorded_makes_no_span_and_says_so_to_whom_it_calls() -> None:
    unrecorded = PARENT[:-1] + "0"
    spans, [seen] = serve(Context(), parent=unrecorded)
    assert (spans.names(), seen) == ([], unrecorded)


@pytest.mark.parametrize(
    "path", ["/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"]
)
def test_probes_and_tools_make_none(path: str) -> None:
    spans, seen = serve(Context(), path=path)
    assert (spans.names(), seen) == ([], [""])


@pytest.mark.parametrize("handler", [None, grpc.stream_stream_rpc_method_handler(lambda _requests, _context: None)])
def test_a_link_and_an_unknown_method_are_left_as_they_are(handler: Any) -> None:
    async def continuation(_details: Any) -> Any:
        return handler

    tracer, _ = recording_tracer()
    details = SimpleNamespace(method="/oncelog.v1.PartitionLeader/Connect", invocation_metadata=None)
    assert asyncio.run(ServerTracing(tracer).intercept_service(continuation, details)) is handler


def test_a_method_has_the_name_of_its_service() -> None:
    assert method_name(PATH) == "PartitionLeader.CreateTopic"
