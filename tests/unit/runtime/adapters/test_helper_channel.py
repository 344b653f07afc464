"""Messages arrive whole or not at all; an end that is gone, or that says what makes no sense, is named."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from oncelog_runtime.adapters.helper_channel import MESSAGE_BYTES_MAX, SocketChannel
from oncelog_runtime.ports import HelperGoneError


async def talk(channel: SocketChannel) -> None:
    """Sends more than a dead end takes."""
    for _ in range(10):
        await channel.send(b"x" * 100_000)


def run(test: Callable[[SocketChannel, socket.socket], Awaitable[None]]) -> None:
    async def whole() -> None:
        one, other = socket.socketpair()
        channel = await SocketChannel.over(one)
        with other:
            await test(channel, other)
        channel.close()

    asyncio.run(asyncio.wait_for(whole(), 20))


def test_a_message_is_its_length_and_its_bytes() -> None:
    async def test(channel: SocketChannel, other: socket.socket) -> None:
        await channel.send(b"abc")
        assert other.recv(100) == b"\x03\x00\x00\x00abc"
        other.send(b"\x02\x00\x00\x00xy\x00\x00\x00\x00")
        assert [await channel.receive(), await channel.receive()] == [b"xy", b""]

    run(test)


@pytest.mark.parametrize("said", [b"", b"\x05\x00", b"\x05\x00\x00\x00abc", struct.pack("<I", MESSAGE_BYTES_MAX + 1)])
def test_an_end_that_stops_within_a_message_or_makes_no_sense_is_gone(said: bytes) -> None:
    async def test(channel: SocketChannel, other: socket.socket) -> None:
        other.send(said)
        other.shutdown(socket.SHUT_WR)
        with pytest.raises(HelperGoneError):
            await channel.receive()

    run(test)


def test_who_sends_to_an_end_that_is_gone_is_told() -> None:
    async def test(channel: SocketChannel, other: socket.socket) -> None:
        other.close()
        with pytest.raises(HelperGoneError):
            await talk(channel)

    run(test)
