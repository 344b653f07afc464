"""The watch over unfinished messages goes on when a look fails, and remembers nobody while it does not look."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator

import pytest

from oncelog_runtime.adapters.grpc import half_messages as module
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener
from oncelog_runtime.adapters.grpc.half_messages import HalfMessages
from oncelog_runtime.core.arriving import ArrivingLimits, Verdict

LIMITS = ArrivingLimits(process_bytes=8 << 20, connection_bytes=4 << 20)


def test_a_look_that_fails_is_told_once_and_followed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when the process has no descriptor left: `listdir` needs one."""
    monkeypatch.setattr(module, "LOOK_S", 0.001)

    async def test() -> None:
        watch, looks = HalfMessages(LIMITS), 0
        looked = asyncio.Event()

        def received(_discover: bool) -> dict[str, int]:
            nonlocal looks
            looks += 1
            if looks < 4:
                raise OSError("too many open files")
            loop.call_soon_threadsafe(looked.set)
            return {}

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(watch, "_received", received)
        watch.start([])
        async with asyncio.timeout(10):
            await looked.wait()
        await watch.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(test())
    assert [record.getMessage() for record in caplog.records if "too many open files" in record.getMessage()] == [
        "connections cannot be looked at, and this is tried again: too many open files"
    ]


def test_nobody_is_remembered_while_nobody_looks() -> None:
    watch = HalfMessages(LIMITS)
    watch.meter("10.0.0.7:1").delivered_bytes += 100
    watch.meter("10.0.0.7:2").answered_bytes += 100
    assert not watch.arriving._connections


def test_looks_begin_before_the_first_link_so_that_it_counts_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a client that is quick loses its connection for messages that nobody counted."""
    happened: list[str] = []

    class Port:
        def add_insecure_port(self, _address: str) -> int:
            return 4711

        async def start(self) -> None:
            happened.append("links come")

    monkeypatch.setattr(GrpcServer, "_make_server", lambda *_: Port())
    monkeypatch.setattr(HalfMessages, "start", lambda *_: happened.append("looks begin"))
    asyncio.run(GrpcServer(Listener.internal("127.0.0.1", 0)).start())
    assert happened == ["looks begin", "links come"]


def test_between_the_ends_of_two_connections_others_have_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of one take milliseconds of the event loop, and a hundred of them would hold up everybody."""
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    happened: list[str] = []

    async def test() -> None:
        watch = HalfMessages(LIMITS)
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def end(name: str, _size: int, _reason: str) -> None:
            happened.append(name)
            loop.call_soon(happened.append, "another")
            if name == "c":
                ended.set()

        verdicts = [[Verdict(name, 1, "too much") for name in "abc"]]
        monkeypatch.setattr(watch, "_received", lambda _discover: {})
        monkeypatch.setattr(watch, "_end", end)
        monkeypatch.setattr(watch.arriving, "look", lambda _received: verdicts.pop() if verdicts else [])
        watch.start([])
        async with asyncio.timeout(10):
            await ended.wait()
        await watch.stop()

    asyncio.run(test())
    assert happened[:5] == ["a", "another", "b", "another", "c"]


def test_looks_are_rarer_while_hardly_anything_arrives() -> None:
    """An idle process pays for each look. What is large and incomplete ends the calm, so its time-out is as long as ever."""
    watch = HalfMessages(LIMITS)
    meter = watch.arriving.meter("10.0.0.7:1")
    pauses_s = []
    for arrived_bytes in (500_000, 500_100, 500_100, 4_000_000, 4_000_100, 4_000_200):
        watch.arriving.look({"10.0.0.7:1": arrived_bytes})
        watch._note_calm(arrived_bytes)
        pauses_s.append(watch._pause_s())
        if arrived_bytes == 500_000:
            meter.delivered_bytes += 500_000
        if arrived_bytes == 4_000_100:
            meter.delivered_bytes += 4_000_000
    assert pauses_s == [0.25, 0.5, 0.5, 0.25, 0.25, 0.5]


@contextlib.asynccontextmanager
async def watched_connection() -> AsyncIterator[tuple[HalfMessages, str, socket.socket]]:
    """A watch over a port, the name of an accepted connection, and its other end."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, (host, port) = server.accept()
        with accepted:
            watch = HalfMessages(LIMITS)
            watch.start([server.getsockname()[1]])
            try:
                yield watch, f"{host}:{port}", client
            finally:
                await watch.stop()


async def found(watch: HalfMessages, connection: str) -> int:
    """Asks until the connection is found."""
    async with asyncio.timeout(10):
        while (size := watch.unfinished_bytes(connection)) is None:  # noqa: ASYNC110 - it finds by being asked
            await asyncio.sleep(0.001)
    return size


@pytest.mark.asyncio
async def test_the_incomplete_bytes_of_a_new_connection_are_known_before_the_first_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 60.0)
    async with watched_connection() as (watch, name, client):
        client.sendall(bytes(3_000))
        assert watch.unfinished_bytes(name) is None, "it is looked for"
        assert await found(watch, name) == 3_000
        watch.meter(name).delivered_bytes += 1_000
        assert 1_900 < await found(watch, name) <= 2_000
        client.sendall(bytes(1_000))
        assert 2_900 < await found(watch, name) <= 3_000


@pytest.mark.asyncio
async def test_connections_are_not_looked_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 60.0)
    monkeypatch.setattr(module, "_BETWEEN_LISTS_S", 60.0)
    async with watched_connection() as (watch, name, _client):
        await found(watch, name)
        lists: list[None] = []
        monkeypatch.setattr(watch, "_discover", lambda: lists.append(None))
        for _ in range(20):
            assert watch.unfinished_bytes("10.0.0.7:1") is None
            await asyncio.sleep(0.001)
        assert not lists


@pytest.mark.asyncio
async def test_looks_go_on_when_a_connection_could_not_be_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    async with watched_connection() as (watch, name, _client):
        finds = watch._discover

        def fails() -> None:
            monkeypatch.setattr(watch, "_discover", finds)
            raise OSError("too many open files")

        monkeypatch.setattr(watch, "_discover", fails)
        assert watch.unfinished_bytes(name) is None
        assert await found(watch, name) == 0


def test_incomplete_bytes_are_unknown_while_nothing_is_watched() -> None:
    assert HalfMessages(LIMITS).unfinished_bytes("10.0.0.7:1") == 0


def test_a_connection_that_went_before_its_end_does_not_end_the_watch() -> None:
    HalfMessages(LIMITS)._end("10.0.0.7:1", 1, "too much")
