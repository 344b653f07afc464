"""What gRPC links do beyond the transport contract: hello, credit, bounds, cancellation, context."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import grpc.aio
import pytest

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.client_link import GrpcOptions
from oncelog.link.link_codec import Frame
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import Buffer
from oncelog.v1 import link_pb2
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener, ServerOptions
from oncelog_runtime.core import listeners
from oncelog_runtime.serving.call_context import CALL
from tests.contracts.grpc_world import TcpProxy
from tests.contracts.transport_suite import FETCH, LONG_MS, PING, Gate, echo
from tests.integration.runtime.links import HELLO, Loop, client, detail, frames, raw_stream, serving

# ---------------------------------------------------------------- hello


def test_a_peer_of_another_cluster_is_refused_by_name(run: Loop) -> None:
    async def test() -> None:
        async with serving({PING: echo}, cluster_id="ours") as (_, address), client("theirs") as transport:
            with pytest.raises(errors.WrongClusterError) as caught:
                await transport.call(address, PING, b"", b"", LONG_MS)
            assert caught.value.context["unsent"] == "true"

    run(test)


def test_a_client_learns_its_cluster_from_the_first_peer(run: Loop) -> None:
    async def test() -> None:
        async with (
            serving({PING: echo}, cluster_id="one") as (_, first),
            serving({PING: echo}, cluster_id="two") as (_, second),
            client() as transport,
        ):
            await transport.call(first, PING, b"", b"", LONG_MS)
            assert transport.cluster_id == "one"
            with pytest.raises(errors.WrongClusterError):
                await transport.call(second, PING, b"", b"", LONG_MS)
            await transport.call(first, PING, b"", b"", LONG_MS)

    run(test)


def test_two_clusters_met_at_the_same_moment_are_told_apart_too(run: Loop) -> None:
    async def test() -> None:
        async with (
            serving({PING: echo}, cluster_id="one") as (_, first),
            serving({PING: echo}, cluster_id="two") as (_, second),
            client() as transport,
        ):
            calls = [transport.call(address, PING, b"", b"", LONG_MS) for address in (first, second)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sorted(type(result).__name__ for result in results) == ["WrongClusterError", "tuple"]

    run(test)


def test_no_common_protocol_version_is_refused_by_name(run: Loop) -> None:
    async def test() -> None:
        async with serving({PING: echo}) as (_, address), raw_stream(address) as stream:
            await stream.write(link_codec.hello_envelope(link_pb2.Hello(protocol_min=8, protocol_max=9)))
            [answer] = await frames(stream)
            assert answer.correlation_id == 0
            assert isinstance(detail(answer), errors.UnsupportedVersionError)

    run(test)


@pytest.mark.parametrize("first", [b"\xff\xff", b"", link_codec.encode_envelope([Frame(1, link_codec.REQUEST, PING)])])
def test_a_link_that_begins_without_a_hello_runs_nothing(run: Loop, first: bytes) -> None:
    async def test() -> None:
        gate = Gate()
        async with serving({PING: gate}) as (_, address):
            async with raw_stream(address) as stream:
                await stream.write(first)
                answers = await frames(stream)
                assert all(isinstance(detail(frame), errors.InvalidRequestError) for frame in answers)
            assert gate.started == []

    run(test)


# ---------------------------------------------------------------- bounds


def test_callers_wait_for_room_in_order(run: Loop) -> None:
    async def test() -> None:
        gate = Gate()
        async with (
            serving({PING: gate}) as (_, address),
            client(options=GrpcOptions(max_calls_in_flight=2)) as transport,
        ):
            calls = [asyncio.create_task(transport.call(address, PING, b"%d" % n, b"", LONG_MS)) for n in range(5)]
            await gate.wait_started(2)
            gate.release(b"1")
            await calls[1]
            await gate.wait_started(3)
            assert gate.started == [b"0", b"1", b"2"]
            calls[3].cancel()  # it gives its place in the queue away
            for n in (0, 2, 4):
                gate.release(b"%d" % n)
            await asyncio.gather(calls[0], calls[2], calls[4])
            assert gate.started == [b"0", b"1", b"2", b"4"]

    run(test)


def test_bytes_in_flight_are_bounded_but_a_large_call_still_goes_alone(run: Loop) -> None:
    async def test() -> None:
        gate = Gate()
        options = GrpcOptions(max_bytes_in_flight=1000)
        async with serving({PING: gate}) as (_, address), client(options=options) as transport:
            sizes = (5000, 600, 300, 200)
            calls = [
                asyncio.create_task(transport.call(address, PING, b"%d" % size, b"x" * size, LONG_MS)) for size in sizes
            ]
            await gate.wait_started(1)
            assert gate.started == [b"5000"]
            gate.release(b"5000")
            await gate.wait_started(3)
            assert gate.started == [b"5000", b"600", b"300"]
            for size in sizes:
                gate.release(b"%d" % size)
            await asyncio.gather(*calls)

    run(test)


def test_a_call_that_times_out_while_it_waits_for_room_was_never_sent(run: Loop) -> None:
    async def test() -> None:
        gate = Gate()
        async with (
            serving({PING: gate}) as (_, address),
            client(options=GrpcOptions(max_calls_in_flight=1)) as transport,
        ):
            first = asyncio.create_task(transport.call(address, PING, b"first", b"", LONG_MS))
            await gate.wait_started(1)
            with pytest.raises(errors.RequestTimedOutError) as caught:
                await transport.call(address, PING, b"second", b"", 30)
            assert caught.value.context["unsent"] == "true"
            gate.release(b"first")
            await first
            gate.release(b"third")
            await transport.call(address, PING, b"third", b"", LONG_MS)
            assert gate.started == [b"first", b"third"]

    run(test)


def test_a_server_over_its_bound_refuses_at_once(run: Loop) -> None:
    async def test() -> None:
        gate = Gate()
        async with (
            serving({PING: gate}, ServerOptions(max_requests_per_link=2)) as (_, address),
            client() as transport,
        ):
            calls = [asyncio.create_task(transport.call(address, PING, b"%d" % n, b"", LONG_MS)) for n in range(2)]
            await gate.wait_started(2)
            with pytest.raises(errors.ResourceExhaustedError) as caught:
                await transport.call(address, PING, b"", b"", LONG_MS)
            assert caught.value.retry_after_ms > 0
            gate.release(b"0")
            await calls[0]
            gate.release(b"2")
            await transport.call(address, PING, b"2", b"", LONG_MS)
            gate.release(b"1")
            await calls[1]

    run(test)


def test_a_message_too_large_fails_alone(run: Loop) -> None:
    async def inflate(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        return b"", b"x" * (2 << 20)

    async def test() -> None:
        small = 1 << 20
        gate = Gate()
        async with (
            serving({PING: gate, FETCH: inflate}, ServerOptions(max_message_bytes=small)) as (_, address),
            client(options=GrpcOptions(max_message_bytes=small)) as transport,
        ):
            neighbour = asyncio.create_task(transport.call(address, PING, b"1", b"", LONG_MS))
            with pytest.raises(errors.MessageTooLargeError):
                await transport.call(address, PING, b"", b"x" * small, LONG_MS)
            with pytest.raises(errors.MessageTooLargeError):
                await transport.call(address, FETCH, b"", b"", LONG_MS)
            gate.release(b"1")
            assert (await neighbour)[0] == b"1"
            largest = small - link_codec.FRAME_OVERHEAD_BYTES - 1
            gate.release(b"2")
            assert len((await transport.call(address, PING, b"2", b"x" * largest, LONG_MS))[1]) == largest

    run(test)


def test_no_envelope_outgrows_the_largest_message(run: Loop) -> None:
    async def test() -> None:
        small = 1 << 20
        TRACEPARENT.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        async with (
            serving({PING: echo}, ServerOptions(max_message_bytes=small)) as (_, address),
            client(options=GrpcOptions(max_message_bytes=small)) as transport,
        ):
            calls = [transport.call(address, PING, b"%d" % n, b"x" * 320, LONG_MS) for n in range(4000)]
            assert [header for header, _ in await asyncio.gather(*calls)] == [b"%d" % n for n in range(4000)]

    run(test)


def test_the_server_keeps_time_for_callers_that_do_not(run: Loop) -> None:
    async def test() -> None:
        gate = Gate()
        async with serving({PING: gate}) as (_, address), raw_stream(address) as stream:
            await stream.write(HELLO)
            await frames(stream)
            request = Frame(7, link_codec.REQUEST, PING, timeout_ms=20, header=b"1")
            await stream.write(link_codec.encode_envelope([request]))
            [answer] = await frames(stream)
            assert answer.correlation_id == 7
            assert isinstance(detail(answer), errors.RequestTimedOutError)
            gate.release(b"1")
            gate.release(b"2")
            await stream.write(link_codec.encode_envelope([request._replace(correlation_id=8, header=b"2")]))
            [answer] = await frames(stream)
            assert (answer.correlation_id, answer.kind) == (8, link_codec.REPLY)

    run(test)


def test_a_half_closed_link_still_gets_its_answers(run: Loop) -> None:
    async def test() -> None:
        gate = Gate()
        async with serving({PING: gate}) as (_, address), raw_stream(address) as stream:
            await stream.write(HELLO)
            await frames(stream)
            await stream.write(link_codec.encode_envelope([Frame(1, link_codec.REQUEST, PING, header=b"1")]))
            await gate.wait_started(1)
            await stream.done_writing()
            gate.release(b"1")
            [answer] = await frames(stream)
            assert answer.header == b"1"
            assert await frames(stream) == []

    run(test)


# ---------------------------------------------------------------- cancel


def test_a_cancelled_request_is_finished_but_not_answered(run: Loop) -> None:
    async def test() -> None:
        gate = Gate()
        async with serving({PING: gate}) as (_, address), raw_stream(address) as stream:
            await stream.write(HELLO)
            await frames(stream)
            first, second = (Frame(n, link_codec.REQUEST, PING, header=b"%d" % n) for n in (1, 2))
            await stream.write(link_codec.encode_envelope([first, second, Frame(1, link_codec.CANCEL)]))
            await gate.wait_started(2)
            gate.release(b"1")
            gate.release(b"2")
            [answer] = await frames(stream)
            assert answer.correlation_id == 2

    run(test)


def test_a_caller_that_gives_up_tells_the_server(run: Loop) -> None:
    heard: list[tuple[int, int, int]] = []

    async def test() -> None:
        async def connect(_requests: Any, context: Any) -> None:
            await context.read()
            await context.write(HELLO)
            while (data := await context.read()) is not grpc.aio.EOF:
                for frame in link_codec.decode_envelope(data):
                    heard.append((frame.kind, frame.correlation_id, frame.timeout_ms))
                    if frame.header == b"echo":
                        reply = frame._replace(kind=link_codec.REPLY)
                        await context.write(link_codec.encode_envelope([reply]))

        server = grpc.aio.server()
        handlers = {"Connect": grpc.stream_stream_rpc_method_handler(connect)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("oncelog.v1.PartitionLeader", handlers),))
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        async with client() as transport:
            with pytest.raises(errors.RequestTimedOutError) as caught:
                await transport.call(address, PING, b"1", b"", 50)
            assert "unsent" not in caught.value.context
            never_sent = asyncio.create_task(transport.call(address, PING, b"2", b"", LONG_MS))
            await asyncio.sleep(0)  # it stands in the outbox, and the writer has not run yet
            never_sent.cancel()
            assert (await transport.call(address, PING, b"echo", b"", LONG_MS))[0] == b"echo"
        await server.stop(0)

    run(test)
    assert heard == [
        (link_codec.REQUEST, 1, 50),
        (link_codec.CANCEL, 1, 0),
        (link_codec.REQUEST, 3, LONG_MS),
    ]


# ---------------------------------------------------------------- context


def test_the_trace_of_a_caller_reaches_the_handler_and_its_own_calls(run: Loop) -> None:
    seen: list[str] = []
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def test() -> None:
        async with client() as transport:

            async def relay(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
                if header == b"relay":
                    return await transport.call(address, PING, b"last", payload, LONG_MS)
                caller = CALL.get()
                assert caller is not None
                assert caller.peer
                seen.append(TRACEPARENT.get())
                return header, payload

            async with serving({PING: relay}) as (_, address):
                await transport.call(address, PING, b"untraced", b"", LONG_MS)
                TRACEPARENT.set(parent)
                await transport.call(address, PING, b"relay", b"", LONG_MS)
                TRACEPARENT.set("")
                await transport.call(address, PING, b"untraced", b"", LONG_MS)

    run(test)
    assert seen == ["", parent, ""]


def test_a_context_as_long_as_a_message_does_not_travel_on(run: Loop) -> None:
    seen: list[str] = []

    async def note(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        seen.append(TRACEPARENT.get())
        return header, payload

    async def test() -> None:
        async with serving({PING: note}) as (_, address), client() as transport:
            TRACEPARENT.set("0" * 100_000)
            await transport.call(address, PING, b"", b"", LONG_MS)

    run(test)
    assert seen == [""]


def test_a_crowd_at_the_clients_door_keeps_no_service_out(run: Loop) -> None:
    async def test() -> None:
        server = GrpcServer(
            Listener.internal("127.0.0.1", 0),
            Listener(listeners.CLIENT, "127.0.0.1", 0),
            options=ServerOptions(max_links=1),
        )
        server.register(FETCH, echo)
        internal = await server.start()
        try:
            async with client() as first, client() as second, client() as service:
                door = server.listening[listeners.CLIENT]
                await first.call(door, FETCH, b"", b"", LONG_MS)
                with pytest.raises(errors.ResourceExhaustedError, match="too many links"):
                    await second.call(door, FETCH, b"", b"", LONG_MS)
                await service.call(internal, FETCH, b"", b"", LONG_MS)
        finally:
            await server.stop(0)

    run(test)


def test_links_of_two_services_to_one_address_are_apart(run: Loop) -> None:
    async def test() -> None:
        allocate = "PidAllocator.AllocateProducerIds"
        async with serving({PING: echo, allocate: echo}) as (_, address), client() as transport:
            assert (await transport.call(address, PING, b"a", b"", LONG_MS))[0] == b"a"
            assert (await transport.call(address, allocate, b"b", b"", LONG_MS))[0] == b"b"
            async with raw_stream(address) as stream:
                await stream.write(HELLO)
                await frames(stream)
                await stream.write(link_codec.encode_envelope([Frame(1, link_codec.REQUEST, allocate)]))
                [answer] = await frames(stream)
                assert isinstance(detail(answer), errors.InvalidRequestError)

    run(test)


# ---------------------------------------------------------------- everything at once


def test_impatient_callers_and_broken_links_leave_nothing_behind(run: Loop) -> None:
    """Time-outs, cancels and cut connections, mixed: every call ends in a legal way and all credit comes back."""
    random = Random(5)
    legal = (errors.RequestTimedOutError, errors.NetworkError, errors.ResourceExhaustedError)

    async def test() -> None:
        async def handler(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
            await asyncio.sleep(int(header) / 1000)
            return header, payload

        options = GrpcOptions(max_calls_in_flight=20, max_bytes_in_flight=300_000)
        async with serving({PING: handler}) as (server, real), client(options=options) as transport:
            proxy = TcpProxy(real)
            address = await proxy.start()
            port = int(address.rpartition(":")[2])

            async def one() -> str:
                header = b"%d" % random.randrange(10)
                payload = b"x" * random.choice((0, 100, 50_000))
                try:
                    answer = await transport.call(address, PING, header, payload, random.choice((3, 8, 5000)))
                except legal as error:
                    return type(error).__name__
                assert (answer[0], len(answer[1])) == (header, len(payload))
                return "answered"

            async def caller() -> list[str]:
                results = []
                for _ in range(40):
                    task = asyncio.create_task(one())
                    if random.random() < 0.2:
                        await asyncio.sleep(random.random() / 200)
                        task.cancel()
                    [result] = await asyncio.gather(task, return_exceptions=True)
                    if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                        raise result
                    results.append(str(result))
                return results

            callers = [asyncio.create_task(caller()) for _ in range(30)]
            for _ in range(5):
                await asyncio.sleep(0.05)
                await proxy.cut()
                proxy = TcpProxy(real)
                await proxy.start(port)
            results = [result for done in await asyncio.gather(*callers) for result in done]
            assert {"answered", "RequestTimedOutError", "NetworkError"} <= set(results)
            for link in [*transport._links.values(), *transport._ending.values()]:
                assert (link.core.bytes_open, link.core.calls_open, link.core.calls_waiting) == (0, 0, 0)
            await transport.close()
            await server.stop(5000)
            assert not server._host.links
            assert not server._host.running
            await proxy.cut()

    run(test)
