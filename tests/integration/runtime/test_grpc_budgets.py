"""What one peer can take of a server: memory, links, calls. Others go on, and everything comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import grpc.aio
import pytest

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.link_codec import Frame
from oncelog.ports import Handler
from oncelog.types import Buffer
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener, ServerOptions
from oncelog_runtime.adapters.grpc.link.link_host import MAX_LINKS_PER_CONNECTION
from oncelog_runtime.core import reading_turn
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.serving.admission import ADMISSION
from oncelog_runtime.serving.call_context import CallInfo
from tests.contracts.transport_suite import FETCH, LONG_MS, PING, echo
from tests.hostile.half_messages import HalfMessages
from tests.integration.runtime import links
from tests.integration.runtime.links import HELLO, detail, frames

if TYPE_CHECKING:
    from oncelog_runtime.adapters.grpc.authentication import Authentication

MIB = 1 << 20
SMALL = ServerOptions(
    max_message_bytes=4 * MIB, request_bytes=16 * MIB, answer_bytes=16 * MIB, max_bytes_per_link=8 * MIB
)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


async def large(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    """Reads 1 MiB, when it is its turn."""
    admission = ADMISSION.get()
    assert admission is not None
    await admission.wait(MIB, 10_000)
    return b"", bytes(MIB)


async def unpaid(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    """Makes 1 MiB without asking."""
    return b"", bytes(MIB)


async def swallow(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    """Takes it and says nothing."""
    return b"", b""


class ByHeader:
    """In these tests all peers have one address, so they say who they are."""

    def __init__(self) -> None:
        self._policy = Policy()

    async def caller(self, context: Any, call: CallInfo) -> CallInfo:
        name = dict(context.invocation_metadata() or ()).get("authorization", "")
        return replace(call, access=self._policy.access(f"User:{name}" if name else ANONYMOUS, "127.0.0.1"))


def serving(
    handlers: dict[str, Handler], options: ServerOptions
) -> AbstractAsyncContextManager[tuple[GrpcServer, str]]:
    return links.serving(handlers, options, authentication=cast("Authentication", ByHeader()))


@contextlib.asynccontextmanager
async def link(address: str, name: str = "", *, hello: bool = True) -> AsyncIterator[Any]:
    """A raw stream, on a connection of its own."""
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 * MIB))
    metadata = (("authorization", name),) if name else ()
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        stream = channel.stream_stream("/oncelog.v1.PartitionLeader/Connect")(metadata=metadata)
        if hello:
            await stream.write(HELLO)
            await frames(stream)
        yield stream
        stream.cancel()


def requests(method: str, count: int, payload: bytes = b"") -> bytes:
    return link_codec.encode_envelope(
        [Frame(number + 1, link_codec.REQUEST, method, 15_000, payload=payload) for number in range(count)]
    )


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (counts have no event)
        await asyncio.sleep(0.01)


def test_a_peer_that_reads_no_answers_holds_its_connections_share_and_others_go_on() -> None:
    async def test() -> None:
        async with serving({FETCH: large, PING: echo}, SMALL) as (server, address):
            async with link(address) as greedy:
                await greedy.write(requests(FETCH, 100))
                await until(lambda: server.shares.answers.taken_bytes >= 4 * MIB)
                transport = GrpcTransport()
                for _ in range(20):
                    _, payload = await transport.call(address, FETCH, b"", b"", LONG_MS)
                    assert len(payload) == MIB
                    assert server.shares.answers.taken_bytes <= 5 * MIB + 4096
                await transport.close()
            await until(lambda: server.shares.answers.is_idle)
            await until(lambda: server.shares.peers == 0)

    run(test)


def test_answers_that_nobody_paid_for_are_refused_when_there_is_no_room() -> None:
    async def test() -> None:
        async with serving({PING: unpaid}, SMALL) as (server, address), link(address) as greedy:
            await greedy.write(requests(PING, 50))
            got: list[Frame] = []
            await until(lambda: server.running_requests == 0)
            while len(got) < 50:
                got += await frames(greedy)
            refused = [frame for frame in got if frame.kind == link_codec.ERROR]
            assert len(refused) > 20
            assert isinstance(detail(refused[0]), errors.ResourceExhaustedError)
            await until(lambda: server.shares.answers.is_idle)

    run(test)


def test_requests_above_the_budget_are_refused_and_one_peer_leaves_room_for_others() -> None:
    gate = asyncio.Event()

    async def wait(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        await gate.wait()
        return b"", b""

    async def test() -> None:
        async with serving({PING: wait}, SMALL) as (server, address), contextlib.AsyncExitStack() as stack:
            for _ in range(4):
                stream = await stack.enter_async_context(link(address, "greedy"))
                for number in range(1, 6):
                    envelope = [Frame(number, link_codec.REQUEST, PING, 15_000, payload=bytes(MIB))]
                    await stream.write(link_codec.encode_envelope(envelope))
            await until(lambda: server.shares.requests.taken_bytes == 8 * MIB)
            await asyncio.sleep(0.05)
            assert server.shares.requests.taken_bytes <= 8 * MIB, "half of it is for others"
            refused = (await frames(stream))[0]
            assert isinstance(detail(refused), errors.ResourceExhaustedError)
            assert server.open_links == 4, "a refused request costs nobody the link"
            transport = GrpcTransport(metadata=(("authorization", "quiet"),))
            quiet = asyncio.ensure_future(transport.call(address, PING, b"", bytes(2 * MIB), LONG_MS))
            await until(lambda: server.shares.requests.taken_bytes > 8 * MIB)
            gate.set()
            await quiet
            await transport.close()
            await until(lambda: server.shares.requests.is_idle)

    run(test)


def test_one_peer_cannot_take_all_links() -> None:
    options = ServerOptions(max_links=10, max_links_per_peer=3)

    async def test() -> None:
        async with serving({PING: echo}, options) as (server, address), contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                await stack.enter_async_context(link(address, "greedy"))
            fourth = await stack.enter_async_context(link(address, "greedy", hello=False))
            await fourth.write(HELLO)
            [refusal] = await frames(fourth)
            assert isinstance(detail(refusal), errors.ResourceExhaustedError)
            assert "from this address" in detail(refusal).message
            for who in ((("authorization", "quiet"),), ()):  # another principal, and somebody without a name
                quiet = GrpcTransport(metadata=who)
                await quiet.call(address, PING, b"", b"x", LONG_MS)
                assert server.shares.peers == 2
                await quiet.close()
                await until(lambda: server.open_links == 3)

    run(test)


def test_streams_without_a_hello_take_no_place_of_a_link() -> None:
    options = ServerOptions(max_links_per_peer=3)

    async def test() -> None:
        async with serving({PING: echo}, options) as (server, address), contextlib.AsyncExitStack() as stack:
            for _ in range(5):
                silent = await stack.enter_async_context(link(address, hello=False))
                await silent.wait_for_connection()
            await until(lambda: server.open_links == 5)
            transport = GrpcTransport()
            await transport.call(address, PING, b"", b"x", LONG_MS)
            await transport.close()

    run(test)


def test_a_connection_with_many_links_is_refused_further_ones_without_waiting_for_hellos() -> None:
    async def test() -> None:
        async with (
            serving({PING: echo}, ServerOptions()) as (server, address),
            grpc.aio.insecure_channel(address) as channel,
        ):
            streams = [channel.stream_stream("/oncelog.v1.PartitionLeader/Connect")() for _ in range(30)]
            codes = [asyncio.ensure_future(stream.code()) for stream in streams]
            await until(lambda: sum(code.done() for code in codes) == 30 - MAX_LINKS_PER_CONNECTION)
            assert {code.result() for code in codes if code.done()} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            assert server.open_links == MAX_LINKS_PER_CONNECTION
            transport = GrpcTransport()
            await transport.call(address, PING, b"", b"x", LONG_MS)
            await transport.close()
            for stream in streams:
                stream.cancel()

    run(test)


def test_a_crowd_of_streams_of_one_peer_is_ended_without_waiting_for_hellos() -> None:
    options = ServerOptions(max_links_per_peer=3)

    async def test() -> None:
        async with serving({PING: echo}, options) as (server, address):
            async with grpc.aio.insecure_channel(address) as channel:
                streams = [channel.stream_stream("/oncelog.v1.PartitionLeader/Connect")() for _ in range(30)]
                await asyncio.gather(*(stream.wait_for_connection() for stream in streams), return_exceptions=True)
                await until(lambda: 0 < server.open_links <= 6)
                ended: list[Any] = []
                for stream in streams:
                    asyncio.ensure_future(stream.code()).add_done_callback(ended.append)
                await until(lambda: len(ended) == 24)
                assert {code.result() for code in ended} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
                for stream in streams:
                    stream.cancel()
            await until(lambda: server.open_links == 0)

    run(test)


def test_unary_calls_are_bounded_per_peer_and_give_back_what_they_held() -> None:
    options = ServerOptions(max_unary_calls=10, max_unary_calls_per_peer=2)

    async def slow(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        await asyncio.sleep(0.2)
        return header, payload

    async def test() -> None:
        has_room, goes_on = asyncio.Event(), asyncio.Event()

        async def held(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
            answer = await large(header, payload)
            has_room.set()
            await goes_on.wait()
            return answer

        async with (
            serving({PING: slow, FETCH: held}, options) as (server, address),
            grpc.aio.insecure_channel(address) as channel,
        ):
            ping = channel.unary_unary("/oncelog.v1.PartitionLeader/Ping")
            fetch = channel.unary_unary("/oncelog.v1.PartitionLeader/Fetch")
            results = await asyncio.gather(*(ping(b"") for _ in range(5)), return_exceptions=True)
            refused = [result for result in results if isinstance(result, grpc.aio.AioRpcError)]
            assert len(refused) == 3
            assert all(error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED for error in refused)
            given_up = fetch(b"")
            await has_room.wait()
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            goes_on.set()
            assert len(await fetch(b"")) > MIB
            await until(lambda: server.shares.answers.is_idle)
            await until(lambda: server.shares.peers == 0)

    run(test)


@contextlib.asynccontextmanager
async def one_is_read(options: ServerOptions | None = None) -> AsyncIterator[str]:
    """A client's listener where of twenty half requests of one connection just one is read; yields its address."""
    server = GrpcServer(Listener.internal("127.0.0.1", 0), Listener("client", "127.0.0.1", 0), options=options)
    server.register(PING, echo)
    await server.start()
    try:
        half = await HalfMessages.connect(server.listening["client"])
        sent = await half.send(streams=20, size=MIB, patience_s=1.0, at_least=MIB - 1)
        assert MIB - 1 <= sent <= MIB + 19 * 16_384, "all of the one that is read, and one window of each other"
        yield server.listening["client"]
        half.close()
    finally:
        await server.stop(0)


def test_of_a_request_that_a_server_does_not_read_a_client_sends_little() -> None:
    async def test() -> None:
        async with one_is_read(ServerOptions(max_arriving_calls=1, max_arriving_calls_per_address=1)):
            pass

    run(test)


def test_of_the_requests_of_one_connection_one_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_turn, "TURN_S", 60.0)

    async def test() -> None:
        async with one_is_read() as address:
            another = await HalfMessages.connect(address)
            assert await another.send(streams=1, size=MIB, at_least=MIB - 1) == MIB - 1, (
                "its connection has its own turns"
            )
            another.close()

    run(test)


def test_a_connection_does_not_gather_half_requests_as_fast_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn of the first one lasts as long as its bytes may take, so the others are not read within this test."""
    monkeypatch.setattr(reading_turn, "UNFINISHED_BYTES_PER_S", MIB // 64)

    async def test() -> None:
        async with one_is_read():
            pass

    run(test)


def test_half_messages_end_their_connection_and_nobody_elses() -> None:
    """Raw HTTP/2: streams that promise 4 MiB each and stop one byte before the end."""
    options = ServerOptions(max_message_bytes=4 * MIB, message_timeout_ms=60_000)

    async def test() -> None:
        async with serving({PING: echo}, options) as (server, address):
            quiet = GrpcTransport()
            await quiet.call(address, PING, b"", b"x", LONG_MS)
            half = await HalfMessages.connect(address)
            sent = await half.send(streams=20, size=4 * MIB)
            assert sent < 80 * MIB
            await half.ended()
            assert server.half_messages is not None
            assert server.half_messages.ended == 1
            _, payload = await quiet.call(address, PING, b"", b"y", LONG_MS)
            assert payload == b"y"
            await quiet.close()

    run(test)


def test_one_half_message_ends_after_its_time() -> None:
    options = ServerOptions(max_message_bytes=4 * MIB, message_timeout_ms=1_000)

    async def test() -> None:
        async with serving({PING: echo}, options) as (_, address):
            quiet = GrpcTransport()
            half = await HalfMessages.connect(address)
            assert await half.send(streams=1, size=4 * MIB, at_least=4 * MIB - 1) >= 4 * MIB - 1
            await quiet.call(address, PING, b"", bytes(3 * MIB), LONG_MS)
            await half.ended()
            await quiet.call(address, PING, b"", b"y", LONG_MS)
            await quiet.close()

    run(test)


def test_who_sends_much_and_finishes_it_is_never_ended() -> None:
    """Far more than a connection may have unfinished, for longer than a message may take."""
    options = ServerOptions(max_message_bytes=4 * MIB, message_timeout_ms=1_000)

    async def test() -> None:
        async with serving({PING: swallow}, options) as (server, address):
            transport = GrpcTransport()
            loop = asyncio.get_running_loop()
            began = loop.time()
            while loop.time() < began + 3:
                calls = [transport.call(address, PING, b"", bytes(3 * MIB), LONG_MS) for _ in range(4)]
                await asyncio.gather(*calls)  # a link that breaks is a NetworkError
            half_messages = server.half_messages
            assert half_messages is not None
            assert half_messages.ended == 0
            assert half_messages.arriving.unfinished_bytes < 8 * MIB
            [connection] = half_messages.watched
            assert connection.startswith("127.0.0.1:")
            await transport.close()

    run(test)
