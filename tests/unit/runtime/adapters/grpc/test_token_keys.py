"""The keys of tokens: public ones alone, from a place that nobody on the way can change, renewed while we serve."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from oncelog.errors import ConfigError, MetadataUnavailableError
from oncelog_runtime.adapters.grpc import token_keys
from oncelog_runtime.adapters.grpc.token_keys import TokenKeys, check_url, keys_of
from tests.unit.runtime.adapters.grpc.key_sets import OTHER, Clock, public


def test_a_set_of_keys_has_public_keys_alone() -> None:
    secret = {"kty": "oct", "kid": "s", "k": "c2VjcmV0"}
    encryption = {**public("e"), "use": "enc"}
    nameless = {name: value for name, value in public("x").items() if name != "kid"}
    broken = {"kty": "RSA", "kid": "b", "n": "!", "e": "AQAB"}
    symmetric = {**public("h"), "alg": "HS256"}
    data = json.dumps({"keys": [secret, encryption, nameless, broken, symmetric, "x", public("k1")]}).encode()
    assert list(keys_of(data)) == ["k1"]


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"keys": 7}', json.dumps({"keys": [{}] * 101}).encode()]
)
def test_what_is_no_set_of_keys(data: bytes) -> None:
    with pytest.raises(ValueError):
        keys_of(data)


@pytest.mark.parametrize(
    "url", ["http://issuer/keys", "ftp://x/y", "https://", "file:///etc/passwd", "http://127.0.0.1.evil/"]
)
def test_a_url_that_somebody_on_the_way_could_answer(url: str) -> None:
    with pytest.raises(ConfigError):
        check_url(url)


class World:
    """A file of keys, a steady clock, and how often the file was read."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.clock, self.looks = tmp_path / "jwks.json", Clock(), 0
        self.keys = TokenKeys(str(self.file), self.clock)
        read = TokenKeys._read

        def counted(keys: TokenKeys) -> bytes:
            self.looks += 1
            return read(keys)

        monkeypatch.setattr(TokenKeys, "_read", counted)

    def publish(self, *keys: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({"keys": keys}))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_a_key_that_is_not_known_is_looked_for_once_by_all_who_wait(world: World) -> None:
    async def test() -> None:
        found = await asyncio.gather(*(world.keys.find(name) for name in ("k1", "k1", "k2")))
        assert [key is not None for key in found] == [True, True, False]
        assert world.looks == 1
        assert await world.keys.find("k2") is None
        assert world.looks == 1, "no stranger's token costs another look so soon"
        world.clock.steady_ms += 1_000
        assert await world.keys.find("k2") is None
        assert world.looks == 2

    world.publish(public("k1"))
    asyncio.run(test())


def test_who_asks_while_the_set_is_read_waits_for_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker had just started, and refused the second client for good (seen on Kubernetes)."""
    begun, may_end = threading.Event(), threading.Event()
    read = TokenKeys._read

    def slow(keys: TokenKeys) -> bytes:
        begun.set()
        assert may_end.wait(10)
        return read(keys)

    async def test() -> None:
        first = asyncio.ensure_future(world.keys.find("k1"))
        assert await asyncio.to_thread(begun.wait, 10)
        others = [asyncio.ensure_future(world.keys.find(name)) for name in ("k1", "k2")]
        await asyncio.sleep(0)
        may_end.set()
        found = await asyncio.gather(first, *others)
        assert [key is not None for key in found] == [True, True, False]
        assert world.looks == 1

    monkeypatch.setattr(TokenKeys, "_read", slow)
    world.publish(public("k1"))
    asyncio.run(test())


def test_until_a_url_was_read_once_it_is_tried_each_second_and_then_rarely(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, looks, data = TokenKeys("https://issuer/keys", world.clock), 0, b""

    def answered(_keys: TokenKeys) -> bytes:
        nonlocal looks
        looks += 1
        return data

    async def test() -> None:
        nonlocal data
        for looked in (1, 2):
            for _ in range(2):
                with pytest.raises(MetadataUnavailableError):
                    await keys.find("k1")
            assert looks == looked
            world.clock.steady_ms += token_keys.RETRY_MIN_MS
        data = json.dumps({"keys": [public("k1")]}).encode()
        assert await keys.find("k1") is not None
        world.clock.steady_ms += token_keys.RENEW_MIN_MS - 1
        assert await keys.find("k2") is None
        assert looks == 3
        world.clock.steady_ms += 1
        assert await keys.find("k2") is None
        assert looks == 4

    monkeypatch.setattr(TokenKeys, "_read", answered)
    asyncio.run(test())


@pytest.mark.parametrize("answer", [b"no http\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", b""])
def test_a_url_that_does_not_answer_in_http_is_a_source_that_is_away(answer: bytes) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def test() -> None:
        async with await asyncio.start_server(other, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            keys = TokenKeys(f"http://127.0.0.1:{port}/keys", Clock())
            with pytest.raises(MetadataUnavailableError):
                await keys.find("k1")

    asyncio.run(test())


def test_a_set_that_is_old_is_read_again_and_a_key_that_stays_is_the_same_object(world: World) -> None:
    async def test() -> None:
        first = await world.keys.find("k1")
        assert first is not None
        world.publish(public("k1"), public("k2", OTHER))
        assert await world.keys.find("k1") is first
        assert world.looks == 1
        world.clock.steady_ms += token_keys.FILE_EVERY_MS
        assert await world.keys.find("k1") is first
        assert world.looks == 2
        assert world.keys.has("k1", first)
        world.publish(public("k1", OTHER))
        world.clock.steady_ms += token_keys.FILE_EVERY_MS
        assert await world.keys.find("k1") is not first
        assert not world.keys.has("k1", first)

    world.publish(public("k1"))
    asyncio.run(test())


@pytest.mark.parametrize("damage", ["gone", "nonsense", "too large"])
def test_while_the_source_is_away_the_last_keys_count_and_before_the_first_read_none_is_called_unknown(
    world: World, damage: str
) -> None:
    def spoil() -> None:
        if damage == "gone":
            world.file.unlink(missing_ok=True)
        else:
            world.file.write_bytes(b"no keys" if damage == "nonsense" else b" " * (token_keys.BYTES_MAX + 1))

    async def test() -> None:
        spoil()
        with pytest.raises(MetadataUnavailableError):
            await world.keys.find("k1")
        world.publish(public("k1"))
        world.clock.steady_ms += 1_000
        assert await world.keys.find("k1") is not None
        spoil()
        world.clock.steady_ms += 10 * token_keys.FILE_EVERY_MS
        assert await world.keys.find("k1") is not None
        assert world.looks == 3

    asyncio.run(test())
