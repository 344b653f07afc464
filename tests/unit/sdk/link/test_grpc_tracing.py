"""A call has one span, which ends with it, whatever becomes of it: over a link, or a unary one of generated stubs.

The same over real gRPC, with both sides: tests/contracts/test_tracing.py.
"""

from __future__ import annotations

import asyncio
from collections import namedtuple
from typing import Any

import grpc
import grpc.aio
import pytest

from oncelog import errors
from oncelog.link.grpc_tracing import ClientTracing, traced
from oncelog.trace.tracing import Kind
from tests.spans import Recorder, error_type, recording_tracer
from tests.unit.sdk.client.traced import context_of

CREATE = "/oncelog.v1.PartitionLeader/CreateTopic"
Details = namedtuple("Details", "method metadata")
SEEN = "traceparent"


class Call:
    """A call that ends with this status; `is_cancelled` says whether somebody gave it up."""

    def __init__(self, status: grpc.StatusCode = grpc.StatusCode.OK, waits: bool = False) -> None:
        self._status, self._waits = status, waits
        self.is_cancelled = False

    async def code(self) -> grpc.StatusCode:
        if self._waits:
            await asyncio.Event().wait()
        return self._status

    async def details(self) -> str:
        return "why"

    def cancel(self) -> None:
        self.is_cancelled = True


class Caller:
    """Makes one call through the interceptor, and keeps the details that went out."""

    def __init__(self, sampler: str = "parentbased_always_on") -> None:
        self.tracer, self.spans = recording_tracer(sampler)
        self.interceptor = ClientTracing(self.tracer)
        self.sent: dict[str, str] = {}

    async def call(self, call: Call, method: str | bytes = CREATE, metadata: Any = None) -> Any:
        async def go_on(details: Any, _request: Any) -> Any:
            self.sent = dict(details.metadata or ())
            return call

        return await self.interceptor.intercept_unary_unary(go_on, Details(method, metadata), None)

    def only(self) -> Any:
        spans: Recorder = self.spans
        assert spans.open == {}
        (span,) = spans.ended
        return span


def test_a_call_that_is_answered_is_one_span_whose_context_goes_along() -> None:
    caller, call = Caller(), Call()
    assert asyncio.run(caller.call(call)) is call
    span = caller.only()
    assert span.name == "oncelog.v1.PartitionLeader/CreateTopic"
    assert caller.sent == {SEEN: context_of(span)}
    assert span.attributes["rpc.response.status_code"] == "OK"


@pytest.mark.parametrize("method", [CREATE, CREATE.encode()], ids=["text", "bytes"])
def test_a_call_that_fails_ends_its_span_with_the_status(method: str | bytes) -> None:
    caller = Caller()
    asyncio.run(caller.call(Call(grpc.StatusCode.UNAVAILABLE), method))
    assert error_type(caller.only()) == "UNAVAILABLE"


def test_who_gives_up_waiting_leaves_neither_a_span_nor_a_call_open() -> None:
    caller, call = Caller(), Call(waits=True)

    async def work() -> None:
        waiting = asyncio.ensure_future(caller.call(call))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(work())
    assert call.is_cancelled
    assert error_type(caller.only()) == "CANCELLED"


def test_a_context_that_the_caller_has_set_stays() -> None:
    caller = Caller()
    asyncio.run(caller.call(Call(), metadata=((SEEN, "mine"), ("more", "x"))))
    assert caller.sent == {SEEN: "mine", "more": "x"}


@pytest.mark.parametrize("method", ["/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/Info"])
def test_what_looks_after_the_connection_is_not_traced(method: str) -> None:
    caller = Caller()
    asyncio.run(caller.call(Call(), method))
    assert (caller.spans.ended, caller.sent) == ([], {})


def test_what_is_not_sampled_makes_no_span_and_says_so() -> None:
    caller = Caller("always_off")
    asyncio.run(caller.call(Call()))
    assert caller.spans.ended == []
    assert caller.sent[SEEN].endswith("-00")


def test_the_span_is_below_the_applications() -> None:
    caller = Caller()

    async def work() -> None:
        app = caller.tracer.start("app", Kind.SERVER, "")
        with caller.tracer.use(app):
            await caller.call(Call())
        app.end()

    asyncio.run(work())
    inner, app = caller.spans.one("oncelog.v1.PartitionLeader/CreateTopic"), caller.spans.one("app")
    assert inner.parent.span_id == app.context.span_id


# ---------------------------------------------------------------- links


def over_a_link(sampler: str, error: Exception | None = None) -> tuple[Recorder, str]:
    """The spans of one call, and the context that the peer gets; a call that fails raises."""
    tracer, spans = recording_tracer(sampler)
    contexts: list[str] = []

    async def call(traceparent: str) -> str:
        contexts.append(traceparent)
        if error is not None:
            raise error
        return "answer"

    async def work() -> None:
        if error is None:
            assert await traced(tracer, "PartitionLeader.CreateTopic", "broker-1:9092", call) == "answer"
        else:
            with pytest.raises(type(error)):
                await traced(tracer, "PartitionLeader.CreateTopic", "broker-1:9092", call)

    asyncio.run(work())
    assert spans.open == {}
    return spans, contexts[0]


def test_a_call_over_a_link_is_one_span_whose_context_the_peer_gets() -> None:
    spans, sent = over_a_link("parentbased_always_on")
    span = spans.one("oncelog.v1.PartitionLeader/CreateTopic", "CLIENT")
    assert sent == context_of(span)
    assert error_type(span) is None


@pytest.mark.parametrize(
    ("error", "said"),
    [(errors.NotLeaderError("moved"), "NOT_LEADER_OR_FOLLOWER"), (RuntimeError("a bug"), "RuntimeError")],
    ids=["answer", "bug"],
)
def test_a_call_over_a_link_that_fails_ends_its_span_with_the_reason(error: Exception, said: str) -> None:
    spans, _ = over_a_link("parentbased_always_on", error)
    assert error_type(spans.one("oncelog.v1.PartitionLeader/CreateTopic")) == said


def test_a_call_over_a_link_that_is_not_sampled_makes_no_span_and_says_so() -> None:
    spans, sent = over_a_link("always_off")
    assert spans.ended == []
    assert sent.endswith("-00")
