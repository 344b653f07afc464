"""Quotas on real links: who is above one waits, in order, or is told to; services and others never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.link_codec import Frame
from oncelog.ports import Handler
from oncelog.types import Buffer
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener
from oncelog_runtime.core.listeners import CLIENT, INTERNAL
from oncelog_runtime.core.quota import QuotaKind
from oncelog_runtime.core.security.quotas import Quota
from oncelog_runtime.serving.quotas import Quotas
from tests.contracts.transport_suite import FETCH
from tests.integration.runtime import links
from tests.integration.runtime.links import HELLO, detail, frames, raw_stream

PRODUCE = "PartitionLeader.Produce"
METADATA = "PartitionLeader.GetMetadata"
KIB = 1 << 10
ME = "Address:127.0.0.1"


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def serving(
    handlers: dict[str, Handler], limits: dict[QuotaKind, int], subject: str = ME
) -> AsyncIterator[tuple[GrpcServer, str]]:
    """A server with a door for clients, and the address of that one."""
    quotas = Quotas()
    quotas.replace([Quota(subject, limits)])
    async with links.serving(handlers, doors=(Listener(CLIENT, "127.0.0.1", 0),), quotas=quotas) as (server, _):
        yield server, server.listening[CLIENT]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (counts have no event)
            await asyncio.sleep(0.01)


class Written:
    """What a handler was given, in its order."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    async def __call__(self, header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        self.numbers.append(int(header))
        return header, b""


async def answer(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    return b"", bytes(64 * KIB)


async def say_nothing(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    return b"", b""


def test_produce_above_the_quota_waits_in_order_and_others_on_the_link_do_not() -> None:
    async def test() -> None:
        written, done = Written(), []
        limits = {QuotaKind.PRODUCE_BYTES: 1000 * KIB}
        async with serving({PRODUCE: written, METADATA: say_nothing}, limits) as (_, at), links.client() as transport:

            async def call(method: str, name: str, payload: bytes) -> None:
                await transport.call(at, method, name.encode(), payload, 30_000)
                done.append(name)

            began = asyncio.get_running_loop().time()
            await asyncio.gather(
                *(call(PRODUCE, str(number), bytes(200 * KIB)) for number in range(9)), call(METADATA, "other", b"")
            )
            took_s = asyncio.get_running_loop().time() - began
        assert written.numbers == list(range(9))
        assert done.index("other") < done.index("8")
        assert took_s > 0.55  # the ninth starts when eight, less one second's worth, are paid for

    run(test)


def test_who_would_wait_too_long_is_refused_and_told_when_to_come_back() -> None:
    async def test() -> None:
        written = Written()
        async with (
            serving({PRODUCE: written}, {QuotaKind.PRODUCE_BYTES: 100 * KIB}) as (_, at),
            links.client() as transport,
        ):
            await transport.call(at, PRODUCE, b"1", bytes(500 * KIB), 30_000)
            now_ms = int(asyncio.get_running_loop().time() * 1000)
            told = transport.throttles.until_ms(at, PRODUCE, now_ms) - now_ms
            assert 2_000 < told <= 4_100
            with pytest.raises(errors.ThrottlingQuotaExceededError) as caught:
                await transport.call(at, PRODUCE, b"2", b"x", 30_000)
            assert 1_500 < caught.value.retry_after_ms <= 4_100
            assert caught.value.context["quota"] == "produce_bytes_per_s"
        assert written.numbers == [1]

    run(test)


def test_a_fetch_is_paid_by_the_next_one() -> None:
    async def test() -> None:
        async with serving({FETCH: answer}, {QuotaKind.FETCH_BYTES: 64 * KIB}) as (_, at), links.client() as transport:
            loop = asyncio.get_running_loop()
            began = loop.time()
            for _ in range(3):
                await transport.call(at, FETCH, b"", b"", 30_000)
            assert loop.time() - began > 0.9

    run(test)


def test_services_never_wait() -> None:
    async def test() -> None:
        written = Written()
        async with (
            serving({PRODUCE: written}, {QuotaKind.PRODUCE_BYTES: 1, QuotaKind.CONNECTIONS: 1}) as (server, _),
            links.client() as transport,
            links.client() as second,
        ):
            inside = server.listening[INTERNAL]
            for number in range(5):
                await transport.call(inside, PRODUCE, str(number).encode(), bytes(64 * KIB), 30_000)
                await second.call(inside, PRODUCE, str(number).encode(), bytes(64 * KIB), 30_000)
        assert len(written.numbers) == 10

    run(test)


def test_a_request_that_its_caller_gave_up_while_it_waited_is_never_started() -> None:
    async def test() -> None:
        written = Written()
        async with serving({PRODUCE: written}, {QuotaKind.PRODUCE_BYTES: 100 * KIB}) as (server, at):
            async with raw_stream(at) as stream:
                await stream.write(HELLO)
                await frames(stream)
                requests = [
                    Frame(n, link_codec.REQUEST, PRODUCE, 30_000, header=b"%d" % n, payload=bytes(size * KIB))
                    for n, size in ((1, 110), (2, 60), (3, 110), (4, 60))
                ]
                await stream.write(link_codec.encode_envelope([*requests[:2], Frame(2, link_codec.CANCEL)]))
                assert [frame.correlation_id for frame in await frames(stream)] == [1]
                await asyncio.sleep(1.2)  # the time at which the second would have started
                assert written.numbers == [1]
                assert server.shares.requests.taken_bytes == 0
                await stream.write(link_codec.encode_envelope(requests[2:]))
                await until(lambda: server.shares.requests.taken_bytes > 50 * KIB)
            await until(lambda: not server.shares.requests.taken_bytes and not server.shares.peers)
        assert written.numbers == [1, 3]

    run(test)


def test_links_above_the_quota_are_refused_by_name_and_one_that_ends_makes_room() -> None:
    async def test() -> None:
        async with (
            serving({METADATA: say_nothing}, {QuotaKind.CONNECTIONS: 2}) as (_, at),
            links.client() as first,
            links.client() as second,
            links.client() as third,
        ):
            for transport in (first, second):
                await transport.call(at, METADATA, b"", b"", 10_000)
            with pytest.raises(errors.ThrottlingQuotaExceededError, match="connections = 2"):
                await third.call(at, METADATA, b"", b"", 10_000)
            await second.close()
            async with asyncio.timeout(10):
                while True:
                    try:
                        await third.call(at, METADATA, b"", b"", 10_000)
                        break
                    except errors.ThrottlingQuotaExceededError:
                        await asyncio.sleep(0.05)

    run(test)


def test_requests_in_flight_and_their_rate_are_bounded_on_links_and_unary() -> None:
    async def test() -> None:
        gate = asyncio.Event()

        async def wait(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
            await gate.wait()
            return b"", b""

        async with (
            serving({METADATA: wait}, {QuotaKind.REQUESTS_IN_FLIGHT: 2, QuotaKind.REQUESTS: 4}) as (_, at),
            links.client() as transport,
        ):
            calls = [asyncio.ensure_future(transport.call(at, METADATA, b"", b"", 10_000)) for _ in range(3)]
            with pytest.raises(errors.ThrottlingQuotaExceededError, match="requests_in_flight = 2"):
                await calls[2]
            gate.set()
            await asyncio.gather(*calls[:2])
            loop = asyncio.get_running_loop()
            began = loop.time()
            for _ in range(6):
                await unary(at)
            assert loop.time() - began > 0.7  # two of the first four were used; four a second from then on

    run(test)


async def unary(address: str) -> None:
    import grpc.aio

    async with grpc.aio.insecure_channel(address) as channel:
        await channel.unary_unary(f"/oncelog.v1.{METADATA.replace('.', '/')}")(b"", timeout=10)


def test_quotas_change_under_links_that_stand() -> None:
    async def test() -> None:
        written = Written()
        async with serving({PRODUCE: written}, {QuotaKind.PRODUCE_BYTES: 1}, "Address:10.9.9.9") as (server, at):
            transport = GrpcTransport()
            await transport.call(at, PRODUCE, b"1", bytes(100), 10_000)
            server.quotas.replace([Quota("Address:*", {QuotaKind.PRODUCE_BYTES: 10})])
            await transport.call(at, PRODUCE, b"2", bytes(100), 10_000)
            with pytest.raises(errors.ThrottlingQuotaExceededError):
                await transport.call(at, PRODUCE, b"3", bytes(100), 10_000)
            server.quotas.replace([])
            await transport.call(at, PRODUCE, b"4", bytes(100), 10_000)
            await transport.close()
        assert written.numbers == [1, 2, 4]

    run(test)


def test_a_refused_frame_is_an_error_with_a_throttle() -> None:
    async def test() -> None:
        async with serving({METADATA: say_nothing}, {QuotaKind.REQUESTS: 1}) as (_, at), raw_stream(at) as stream:
            await stream.write(HELLO)
            await frames(stream)
            requests = [Frame(n, link_codec.REQUEST, METADATA, 100) for n in (1, 2, 3)]
            await stream.write(link_codec.encode_envelope(requests))
            got: list[Frame] = []
            while len(got) < 3:
                got += await frames(stream)
            refused = [frame for frame in got if frame.kind == link_codec.ERROR]
            assert refused
            assert all(frame.throttle_ms == detail(frame).retry_after_ms > 50 for frame in refused)

    run(test)
