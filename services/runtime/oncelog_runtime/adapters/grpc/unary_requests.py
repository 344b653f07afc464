"""Reads the request of a unary call, and refuses the call before that where too many requests have not arrived.

gRPC's own way asks for no permission before the whole request is there: ten thousand calls whose requests never end are ten
thousand tasks, each with its bytes. So unary methods are served like methods with a stream of requests, of which
the first one is read. On the wire these are the same.

Rule 1: `core.arriving_calls` decides, of all calls without a request and of those whose request is being read. A refused call
        costs an answer, and gRPC throws away the rest of its request.
Rule 2: a request arrives within a time limit, however small it is, and keeps its place no longer.
Rule 3: the requests of one connection begin to be read one after the other (`reading_turns`), since what one client sends at
        once stops the bytes of all others. The time limit counts from the beginning of the call.
Rule 4: a call that ends without a request is refused by name; one whose connection is gone ends silently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import grpc.aio

from oncelog import errors
from oncelog_runtime.adapters.grpc import grpc_status
from oncelog_runtime.adapters.grpc.reading_turns import ReadingTurns
from oncelog_runtime.adapters.grpc.server_context import ServerContext
from oncelog_runtime.core.arriving_calls import ArrivingCalls
from oncelog_runtime.serving.peer_key import address_of

Serve = Callable[[bytes, ServerContext], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Shared by the calls of one listener while their requests arrive. `all` bounds the calls without a request, with those
    that wait for their turn; `read` those whose request is being read.
    """

    all: ArrivingCalls
    read: ArrivingCalls
    turns: ReadingTurns = field(default_factory=ReadingTurns)


def reads_request(
    serve: Serve, arrivals: Arrivals, timeout_ms: int
) -> Callable[[object, ServerContext], Awaitable[bytes]]:
    """Returns the handler of a `stream_unary` method that serves the first request. `timeout_ms` 0 = unlimited."""
    timeout_s = timeout_ms / 1000 if timeout_ms else None

    async def unary(_requests: object, context: ServerContext) -> bytes:
        try:
            with arrivals.all.place(address_of(context.peer())):
                data = await _read(context, arrivals, timeout_s)
        except errors.OncelogError as error:
            return grpc_status.refusal(context, error)
        return await serve(data, context)

    return unary


async def _read(context: ServerContext, arrivals: Arrivals, timeout_s: float | None) -> bytes:
    peer = context.peer()
    try:
        async with asyncio.timeout(timeout_s), arrivals.turns.turn(peer):
            with arrivals.read.place(address_of(peer)):
                data = await context.read()
    except TimeoutError:
        raise errors.RequestTimedOutError("the request did not arrive in time", limit_s=timeout_s) from None
    if data is grpc.aio.EOF:
        await asyncio.sleep(0)  # gRPC cancels the handler of a call that is gone, now that it gets a turn
        raise errors.InvalidRequestError("the call has no request")
    return data
