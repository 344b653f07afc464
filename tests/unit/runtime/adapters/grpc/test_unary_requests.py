"""A unary call is refused before its request is read where too many have not arrived, and waits for its own so long."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from oncelog_runtime.adapters.grpc.server_context import ServerContext
from oncelog_runtime.adapters.grpc.unary_requests import Arrivals, reads_request
from oncelog_runtime.core.arriving_calls import ArrivingCalls


class Context:
    """A call whose request arrives when the test says so."""

    def __init__(self, peer: str = "ipv4:10.0.0.1:41234") -> None:
        self._peer = peer
        self.request: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.was_read = False
        self.status: grpc.StatusCode | None = None

    def peer(self) -> str:
        return self._peer

    async def read(self) -> Any:
        self.was_read = True
        return await self.request

    def set_code(self, code: grpc.StatusCode) -> None:
        self.status = code

    def set_details(self, _details: str) -> None:
        pass

    def set_trailing_metadata(self, _metadata: Any) -> None:
        pass


async def echo(data: bytes, _context: ServerContext) -> bytes:
    return data


def arrivals_of(read: ArrivingCalls) -> Arrivals:
    return Arrivals(ArrivingCalls(limit=10, limit_per_address=5), read)


def begin(calls: ArrivingCalls, context: Context, timeout_ms: int = 0) -> asyncio.Task[bytes]:
    call = reads_request(echo, arrivals_of(calls), timeout_ms)(None, cast("ServerContext", context))
    return asyncio.ensure_future(call)


async def turn() -> None:
    await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_a_call_above_the_limit_is_refused_and_its_request_never_read() -> None:
    calls = ArrivingCalls(limit=2, limit_per_address=1)
    first, second, other = Context(), Context("ipv4:10.0.0.1:5"), Context("ipv4:10.0.0.2:41234")
    waiting = begin(calls, first)
    await turn()
    assert await begin(calls, second) == b""
    assert (second.was_read, second.status) == (False, grpc.StatusCode.RESOURCE_EXHAUSTED)
    other.request.set_result(b"other")
    assert await begin(calls, other) == b"other"
    first.request.set_result(b"first")
    assert await waiting == b"first"
    assert calls.count == 0


@pytest.mark.asyncio
async def test_a_request_that_has_arrived_takes_no_place_while_it_is_served() -> None:
    calls = ArrivingCalls(limit=1, limit_per_address=1)
    counts: list[int] = []

    async def serve(data: bytes, _context: ServerContext) -> bytes:
        counts.append(calls.count)
        return data

    context = Context()
    context.request.set_result(b"")
    assert await reads_request(serve, arrivals_of(calls), 0)(None, cast("ServerContext", context)) == b""
    assert counts == [0]


@pytest.mark.asyncio
async def test_a_request_that_does_not_end_gives_its_place_back_in_time() -> None:
    calls = ArrivingCalls(limit=1, limit_per_address=1)
    context = Context()
    assert await begin(calls, context, timeout_ms=1) == b""
    assert (calls.count, context.status) == (0, grpc.StatusCode.DEADLINE_EXCEEDED)


@pytest.mark.asyncio
async def test_a_call_that_ends_without_a_request_is_told_so() -> None:
    calls = ArrivingCalls(limit=1, limit_per_address=1)
    context = Context()
    context.request.set_result(grpc.aio.EOF)
    assert await begin(calls, context) == b""
    assert (calls.count, context.status) == (0, grpc.StatusCode.INVALID_ARGUMENT)


@pytest.mark.asyncio
async def test_a_call_whose_connection_is_gone_is_told_nothing() -> None:
    calls = ArrivingCalls(limit=1, limit_per_address=1)
    context = Context()
    call = begin(calls, context)
    await turn()
    context.request.set_result(grpc.aio.EOF)
    asyncio.get_running_loop().call_soon(call.cancel)  # as gRPC does: first the end of the messages, then of the call
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (calls.count, context.status) == (0, None)


@pytest.mark.asyncio
async def test_who_waits_for_the_turn_of_his_connection_takes_no_place_of_those_that_are_read() -> None:
    """Regression: three connections of one address with sixty calls each were refused, although nothing was slow."""
    arrivals = arrivals_of(ArrivingCalls(limit=2, limit_per_address=2))
    contexts = [Context(f"ipv4:10.0.0.1:{port}") for port in (1, 1, 1, 2)]
    serve = reads_request(echo, arrivals, 0)
    calls = [asyncio.ensure_future(serve(None, cast("ServerContext", context))) for context in contexts]
    await turn()
    assert [context.was_read for context in contexts] == [True, False, False, True]
    for context in contexts:
        context.request.set_result(b"there")
    assert await asyncio.gather(*calls) == [b"there"] * 4
    assert (arrivals.all.count, arrivals.read.count) == (0, 0)


@pytest.mark.asyncio
async def test_too_many_calls_that_wait_are_refused() -> None:
    arrivals = Arrivals(ArrivingCalls(limit=2, limit_per_address=2), ArrivingCalls(limit=1, limit_per_address=1))
    contexts = [Context() for _ in range(3)]
    serve = reads_request(echo, arrivals, 0)
    calls = [asyncio.ensure_future(serve(None, cast("ServerContext", context))) for context in contexts]
    assert await calls[2] == b""
    assert contexts[2].status == grpc.StatusCode.RESOURCE_EXHAUSTED
    for context in contexts:
        context.request.set_result(b"there")
    assert await asyncio.gather(*calls[:2]) == [b"there"] * 2
