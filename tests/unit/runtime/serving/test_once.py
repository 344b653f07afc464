"""A call is executed once in a term, whatever becomes of those who brought it."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from oncelog import errors
from oncelog.v1.types_pb2 import CallIdentity
from oncelog_runtime.serving.once import Once

CALL = CallIdentity(nonce="a", term=3)


class Work:
    """Counts its executions; ends when it may, with the outcomes it was given."""

    def __init__(self, *outcomes: int | Exception) -> None:
        self.outcomes = list(outcomes)
        self.started = 0
        self.has_started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self) -> int:
        self.started += 1
        self.has_started.set()
        await self.may_end.wait()
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def once(kept: int = 10) -> Once:
    return Once(lambda: errors.NotControllerError("of another term"), kept)


@pytest.mark.asyncio
async def test_a_copy_gets_the_first_answer() -> None:
    calls, work = once(), Work(7)
    assert [await calls.run(CALL, 3, work) for _ in range(2)] == [7, 7]
    assert work.started == 1


@pytest.mark.asyncio
async def test_a_definite_refusal_is_an_answer_too() -> None:
    calls, work = once(), Work(errors.InvalidRequestError("no"))
    for _ in range(2):
        with pytest.raises(errors.InvalidRequestError):
            await calls.run(CALL, 3, work)
    assert work.started == 1


@pytest.mark.asyncio
async def test_who_is_told_to_try_again_can() -> None:
    calls, work = once(), Work(errors.RequestTimedOutError("try again"), 7)
    with pytest.raises(errors.RequestTimedOutError):
        await calls.run(CALL, 3, work)
    assert await calls.run(CALL, 3, work) == 7


@pytest.mark.asyncio
async def test_a_call_goes_on_without_its_caller_and_the_next_try_joins_it() -> None:
    calls, work = once(), Work(7)
    work.may_end.clear()
    first = asyncio.ensure_future(calls.run(CALL, 3, work))
    await work.has_started.wait()
    first.cancel()
    second = asyncio.ensure_future(calls.run(CALL, 3, work))
    work.may_end.set()
    assert await second == 7
    assert work.started == 1


@pytest.mark.asyncio
async def test_a_call_of_another_term_is_refused_and_not_executed() -> None:
    calls, work = once(), Work(7)
    with pytest.raises(errors.NotControllerError):
        await calls.run(CALL, 4, work)
    assert work.started == 0


@pytest.mark.asyncio
async def test_an_older_clients_call_is_executed_as_it_comes() -> None:
    calls, work = once(), Work(7, 8)
    assert [await calls.run(CallIdentity(), 3, work) for _ in range(2)] == [7, 8]


@pytest.mark.asyncio
async def test_the_memory_is_bounded_and_a_nonce_too() -> None:
    calls, work = once(kept=2), Work(1, 2, 3, 4)
    for nonce in "abca":
        await calls.run(CallIdentity(nonce=nonce, term=3), 3, work)
    assert work.started == 4, "the first one was forgotten"
    with pytest.raises(errors.InvalidRequestError):
        await calls.run(CallIdentity(nonce="x" * 65, term=3), 3, work)


@pytest.mark.asyncio
async def test_a_refusal_that_is_kept_holds_nothing_of_its_request() -> None:
    """An exception holds the frames that it came through, and those hold the request, which may be large."""

    class Request(bytearray):
        pass

    kept, requests = once(), []

    async def handle() -> None:
        request = Request(16)
        requests.append(weakref.ref(request))

        async def refuse() -> int:
            raise errors.InvalidRequestError("too long", length=len(request))

        await kept.run(CALL, 3, refuse)

    for _ in range(2):  # the second one is a copy of the call
        with pytest.raises(errors.InvalidRequestError, match="too long"):
            await handle()
    gc.collect()
    assert [request() for request in requests] == [None, None]
