"""What is heard on a link when a server fails, stops, comes back, or cannot begin."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.types import Buffer
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener
from oncelog_runtime.adapters.grpc.link import handler_faults
from oncelog_runtime.config.startup_error import AddressInUseError
from tests.contracts.transport_suite import FETCH, LONG_MS, PING, Gate, echo
from tests.integration.runtime.links import Loop, client, serving


def test_a_fault_of_the_server_tells_the_caller_nothing_but_its_name(
    run: Loop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_faults, "_reported", {})  # a process reports a kind of fault once a minute

    async def fail(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        raise KeyError("/secret/path")

    async def cancelled_inside(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        return b"", b""

    async def test() -> None:
        async with serving({PING: fail, FETCH: cancelled_inside}) as (_, address), client() as transport:
            for method in (PING, FETCH):
                with pytest.raises(errors.UnknownServerError) as caught:
                    await transport.call(address, method, b"", b"", LONG_MS)
                assert "secret" not in str(caught.value)

    run(test)
    assert any(record.exc_info and "secret" in str(record.exc_info[1]) for record in caplog.records)


def test_a_server_that_comes_back_is_found_at_once(run: Loop) -> None:
    async def test() -> None:
        async with client() as transport:
            async with serving({PING: echo}) as (_, address):
                await transport.call(address, PING, b"", b"", LONG_MS)
            for _ in range(3):
                with pytest.raises(errors.NetworkError):
                    await transport.call(address, PING, b"", b"", LONG_MS)
            async with serving({PING: echo}, port=int(address.rpartition(":")[2])):
                begin = asyncio.get_running_loop().time()
                await transport.call(address, PING, b"", b"", LONG_MS)
                assert asyncio.get_running_loop().time() - begin < 1.0

    run(test)


def test_a_stopped_server_says_goodbye_and_the_client_hangs_up(run: Loop) -> None:
    async def test() -> None:
        async with serving({PING: echo}) as (server, address), client() as transport:
            await transport.call(address, PING, b"", b"", LONG_MS)
            begin = asyncio.get_running_loop().time()
            await server.stop(10_000)
            assert asyncio.get_running_loop().time() - begin < 0.4
            with pytest.raises(errors.NetworkError) as caught:
                await transport.call(address, PING, b"", b"", LONG_MS)
            assert caught.value.context["refused"] == "true"

    run(test)


def test_a_stopping_server_waits_for_slow_requests_but_not_for_ever(run: Loop) -> None:
    async def test() -> None:
        begun = asyncio.Event()

        async def slow(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
            begun.set()
            await asyncio.sleep(int(header) / 1000)
            return header, payload

        async with client() as transport:
            for time_ms, grace_ms in ((700, 5000), (30_000, 100)):
                async with serving({PING: slow}) as (server, address):
                    call = asyncio.create_task(transport.call(address, PING, b"%d" % time_ms, b"", LONG_MS))
                    await begun.wait()
                    begun.clear()
                    await server.stop(grace_ms)
                    if grace_ms > time_ms:
                        assert (await call)[0] == b"700"
                    else:
                        with pytest.raises(errors.NetworkError):
                            await call
                    assert not server._host.running

    run(test)


def test_the_last_answers_of_a_stopping_server_all_arrive(run: Loop) -> None:
    async def test() -> None:
        gate = Gate()
        async with serving({PING: gate}) as (server, address), client() as transport:
            names = [b"%d" % n for n in range(200)]
            payload = b"x" * 50_000
            calls = [asyncio.create_task(transport.call(address, PING, name, payload, LONG_MS)) for name in names]
            await gate.wait_started(200)
            stopping = asyncio.create_task(server.stop(LONG_MS))
            for name in names:
                gate.release(name)
            assert [header for header, _ in await asyncio.gather(*calls)] == names
            await stopping

    run(test)


def test_a_taken_port_is_an_error_that_says_what_to_do(run: Loop) -> None:
    async def test() -> None:
        async with serving({PING: echo}) as (_, address):
            port = int(address.rpartition(":")[2])
            with pytest.raises(AddressInUseError, match=f"port {port} .* --listen-port"):
                await GrpcServer(Listener.internal("127.0.0.1", port)).start()
        with pytest.raises(errors.ConfigError, match="no address of this machine"):
            await GrpcServer(Listener.internal("192.0.2.1", 0)).start()

    run(test)
