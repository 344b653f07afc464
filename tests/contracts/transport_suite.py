"""What every `Transport` with its `RpcServer` must do, whatever is in between.

Each check is a coroutine that takes a `TransportWorld`; an implementation gives one and a loop to run the check on
(`RUNNERS` in test_transport.py). No check waits for time to pass, except for the time-outs that it is about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import pytest

from oncelog import errors
from oncelog.ports import Handler, Transport
from oncelog.types import Buffer
from oncelog_runtime.serving.call_context import CALL

PING: Final = "PartitionLeader.Ping"
FETCH: Final = "PartitionLeader.Fetch"
LONG_MS: Final = 20_000


class TransportWorld(Protocol):
    """One caller, and as many servers as a check starts."""

    @property
    def transport(self) -> Transport:
        """The caller's."""
        ...

    async def serve(self, handlers: dict[str, Handler]) -> str:
        """Starts a server; returns its address."""
        ...

    async def serve_doors(self, handlers: dict[str, Handler]) -> dict[str, str]:
        """Starts a server with an internal, a client and an external listener; returns their addresses by name."""
        ...

    async def stop(self, address: str, grace_ms: int) -> None:
        """Stops a server in peace."""
        ...

    async def crash(self, address: str) -> None:
        """The server is gone in the middle of everything: its links break, its port is refused."""
        ...

    def deaf_address(self) -> str:
        """An address at which nobody listens."""
        ...


class Gate:
    """A handler that answers with its own request, when it is told to. `started` is the order of first steps."""

    def __init__(self) -> None:
        self.started: list[bytes] = []
        self._open: dict[bytes, asyncio.Event] = {}
        self._changed = asyncio.Event()

    async def __call__(self, header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        self.started.append(header)
        self._changed.set()
        await self._open.setdefault(header, asyncio.Event()).wait()
        return header, payload

    def release(self, header: bytes) -> None:
        """Lets this request be answered, now or when it comes."""
        self._open.setdefault(header, asyncio.Event()).set()

    async def wait_started(self, count: int) -> None:
        """Until so many requests have begun."""
        while len(self.started) < count:
            self._changed.clear()
            await self._changed.wait()


async def echo(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
    """Answers with its request."""
    return header, payload


def _task(world: TransportWorld, address: str, header: bytes, timeout_ms: int = LONG_MS) -> asyncio.Task[bytes]:
    async def call() -> bytes:
        return (await world.transport.call(address, PING, header, b"", timeout_ms))[0]

    return asyncio.create_task(call())


# ---------------------------------------------------------------- checks


async def header_and_payload_come_back_as_they_were(world: TransportWorld) -> None:
    address = await world.serve({PING: echo})
    payloads: list[Buffer] = [b"", b"x", bytes(range(256)) * 100, memoryview(b"abcdef")[2:5]]
    for payload in payloads:
        header, answer = await world.transport.call(address, PING, b"h", payload, LONG_MS)
        assert header == b"h"
        assert bytes(answer) == bytes(payload)
    assert await world.transport.call(address, PING, b"", b"", LONG_MS) == (b"", b"")


async def handlers_start_in_the_order_of_the_calls(world: TransportWorld) -> None:
    gate = Gate()
    address = await world.serve({PING: gate})
    names = [b"%d" % n for n in range(50)]
    called: list[bytes] = []  # tasks themselves may start in any order: what counts is the order of the calls

    async def call(name: bytes) -> bytes:
        called.append(name)
        return (await world.transport.call(address, PING, name, b"", LONG_MS))[0]

    calls = [asyncio.create_task(call(name)) for name in names]
    await gate.wait_started(50)
    assert gate.started == called
    for name in reversed(names):
        gate.release(name)
    assert await asyncio.gather(*calls) == names


async def answers_may_overtake_each_other(world: TransportWorld) -> None:
    gate = Gate()
    address = await world.serve({PING: gate})
    first, second = _task(world, address, b"first"), _task(world, address, b"second")
    await gate.wait_started(2)
    gate.release(b"second")
    assert await second == b"second"
    assert not first.done()
    gate.release(b"first")
    assert await first == b"first"


async def an_error_arrives_with_its_class_and_context(world: TransportWorld) -> None:
    async def refuse(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        raise errors.FencedLeaderEpochError("an older epoch", retry_after_ms=70, current=7, given=5)

    address = await world.serve({PING: refuse})
    with pytest.raises(errors.FencedLeaderEpochError) as caught:
        await world.transport.call(address, PING, b"", b"", LONG_MS)
    assert caught.value.message == "an older epoch"
    assert caught.value.context == {"current": "7", "given": "5"}
    assert caught.value.retry_after_ms == 70


async def an_unknown_method_is_the_callers_mistake(world: TransportWorld) -> None:
    address = await world.serve({PING: echo})
    with pytest.raises(errors.InvalidRequestError):
        await world.transport.call(address, FETCH, b"", b"", LONG_MS)


async def a_time_out_ends_one_call_and_nothing_else(world: TransportWorld) -> None:
    gate = Gate()
    address = await world.serve({PING: gate, FETCH: echo})
    patient = _task(world, address, b"patient")
    with pytest.raises(errors.RequestTimedOutError):
        await world.transport.call(address, PING, b"impatient", b"", 50)
    gate.release(b"impatient")  # the late answer must reach nobody
    assert (await world.transport.call(address, FETCH, b"next", b"", LONG_MS))[0] == b"next"
    gate.release(b"patient")
    assert await patient == b"patient"


async def a_cancelled_caller_disturbs_nobody(world: TransportWorld) -> None:
    gate = Gate()
    address = await world.serve({PING: gate})
    calls = [_task(world, address, b"%d" % n) for n in range(5)]
    await gate.wait_started(5)
    calls[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[2]
    for n in range(5):
        gate.release(b"%d" % n)
    assert [await calls[n] for n in (0, 1, 3, 4)] == [b"0", b"1", b"3", b"4"]
    gate.release(b"after")
    assert await _task(world, address, b"after") == b"after"


async def a_cancelled_call_is_not_cancelled_in_the_handler(world: TransportWorld) -> None:
    gate, ended = Gate(), asyncio.Event()

    async def mutate(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        await gate(header, payload)
        ended.set()
        return b"", b""

    address = await world.serve({PING: mutate})
    call = _task(world, address, b"1")
    await gate.wait_started(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    gate.release(b"1")
    await ended.wait()


async def a_broken_link_fails_open_calls_with_unknown_outcome(world: TransportWorld) -> None:
    gate = Gate()
    address = await world.serve({PING: gate})
    calls = [_task(world, address, b"%d" % n) for n in range(3)]
    await gate.wait_started(3)
    await world.crash(address)
    for call in calls:
        with pytest.raises(errors.NetworkError) as caught:
            await call
        assert "refused" not in caught.value.context


async def nobody_listening_is_refused_at_once(world: TransportWorld) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for _ in range(3):
        with pytest.raises(errors.NetworkError) as caught:
            await world.transport.call(world.deaf_address(), PING, b"", b"", LONG_MS)
        assert caught.value.context["refused"] == "true"
    assert loop.time() - begin < LONG_MS / 2000


async def a_crashed_server_is_refused(world: TransportWorld) -> None:
    address = await world.serve({PING: echo})
    await world.transport.call(address, PING, b"", b"", LONG_MS)
    await world.crash(address)
    for attempt in range(3):
        with pytest.raises(errors.NetworkError) as caught:
            await world.transport.call(address, PING, b"", b"", LONG_MS)
        if "refused" in caught.value.context:
            return
        assert attempt < 2, "the first call may still have met the broken link, a later one may not"


async def eight_mebibytes_go_and_come_back(world: TransportWorld) -> None:
    address = await world.serve({PING: echo})
    payload = bytes(range(256)) * (8 << 12)
    header, answer = await world.transport.call(address, PING, b"big", payload, LONG_MS)
    assert header == b"big"
    assert bytes(answer) == payload


async def a_thousand_calls_at_once(world: TransportWorld) -> None:
    address = await world.serve({PING: echo})
    headers = [b"%d" % n for n in range(1000)]
    assert await asyncio.gather(*(_task(world, address, header) for header in headers)) == headers


async def a_stopping_server_finishes_what_runs(world: TransportWorld) -> None:
    gate = Gate()
    address = await world.serve({PING: gate})
    running = _task(world, address, b"running")
    await gate.wait_started(1)
    begun = asyncio.Event()

    async def stop() -> None:
        begun.set()
        await world.stop(address, grace_ms=LONG_MS)

    stopping = asyncio.create_task(stop())
    await begun.wait()  # `stop` has taken its first step
    late = _task(world, address, b"late")
    with pytest.raises((errors.ShuttingDownError, errors.NetworkError)):
        await late
    gate.release(b"running")
    assert await running == b"running"
    await stopping
    assert gate.started == [b"running"]


async def closing_fails_open_calls(world: TransportWorld) -> None:
    gate = Gate()
    address = await world.serve({PING: gate})
    call = _task(world, address, b"open")
    await gate.wait_started(1)
    await world.transport.close()
    with pytest.raises(errors.NetworkError):
        await call
    await world.transport.close()


Check = Callable[[TransportWorld], Awaitable[None]]


async def each_listener_of_a_server_knows_its_name(world: TransportWorld) -> None:
    async def tell(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        call = CALL.get()
        return (call.listener if call is not None else "none").encode(), b""

    doors = await world.serve_doors({FETCH: tell})
    assert sorted(doors) == ["client", "external", "internal"]
    for name, address in doors.items():
        assert await world.transport.call(address, FETCH, b"", b"", LONG_MS) == (name.encode(), b"")


async def methods_of_services_are_served_at_the_internal_listener_only(world: TransportWorld) -> None:
    gate = Gate()
    doors = await world.serve_doors({PING: gate})
    for name in ("client", "external"):
        with pytest.raises(errors.ClusterAuthorizationError, match=name):
            await world.transport.call(doors[name], PING, b"", b"", LONG_MS)
    assert gate.started == []
    gate.release(b"served")
    assert await world.transport.call(doors["internal"], PING, b"served", b"", LONG_MS) == (b"served", b"")


ALL_CHECKS: Final[tuple[Check, ...]] = (
    each_listener_of_a_server_knows_its_name,
    methods_of_services_are_served_at_the_internal_listener_only,
    header_and_payload_come_back_as_they_were,
    handlers_start_in_the_order_of_the_calls,
    answers_may_overtake_each_other,
    an_error_arrives_with_its_class_and_context,
    an_unknown_method_is_the_callers_mistake,
    a_time_out_ends_one_call_and_nothing_else,
    a_cancelled_caller_disturbs_nobody,
    a_cancelled_call_is_not_cancelled_in_the_handler,
    a_broken_link_fails_open_calls_with_unknown_outcome,
    nobody_listening_is_refused_at_once,
    a_crashed_server_is_refused,
    eight_mebibytes_go_and_come_back,
    a_thousand_calls_at_once,
    a_stopping_server_finishes_what_runs,
    closing_fails_open_calls,
)
