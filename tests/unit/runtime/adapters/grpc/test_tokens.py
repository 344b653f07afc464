"""Bearer tokens: what an issuer signs for us, and everything that only looks like it (inputs 73, 74)."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from oncelog.errors import AuthenticationError, MetadataUnavailableError, OncelogError, TokenExpiredError
from tests.unit.runtime.adapters.grpc.key_sets import CURVE, KEY, OTHER, Clock, public

jwt = pytest.importorskip("jwt")

from oncelog_runtime.adapters.grpc import token_keys  # noqa: E402
from oncelog_runtime.adapters.grpc.token_keys import TokenKeys  # noqa: E402
from oncelog_runtime.adapters.grpc.tokens import TokenVerifier  # noqa: E402

ISSUER, AUDIENCE = "https://issuer", "oncelog"
PUBLIC_PEM = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    values = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now + 600, "iat": now, **changes}
    return {name: value for name, value in values.items() if value is not None}


def signed(values: dict[str, Any] | None = None, key: Any = KEY, alg: str = "RS256", **headers: Any) -> str:
    token: str = jwt.encode(values or claims(), key, algorithm=alg, headers={"kid": "k1", **headers})
    return token


def raw(header: dict[str, Any], values: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(values).encode(), signature]
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


class World:
    """A verifier over a file of keys."""

    def __init__(self, tmp_path: Path, *keys: dict[str, Any]) -> None:
        self.file = tmp_path / "jwks.json"
        self.clock = Clock()
        self.publish(*(keys or (public("k1"), public("e1", CURVE))))
        self.keys = TokenKeys(str(self.file), self.clock)
        self.verifier = TokenVerifier(self.keys, self.clock, ISSUER, AUDIENCE)

    def publish(self, *keys: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({"keys": keys}))

    def principal(self, token: str) -> str:
        return asyncio.run(self.verifier.verify(token)).principal

    def refusal(self, token: str) -> OncelogError:
        with pytest.raises(OncelogError) as caught:
            self.principal(token)
        assert token not in str(caught.value) or not token
        return caught.value


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_good_token_names_its_subject(world: World) -> None:
    assert world.principal(signed()) == "User:ann"
    assert world.principal(signed(key=CURVE, alg="ES256", kid="e1")) == "User:ann"
    account = "system:serviceaccount:shop:web"
    assert world.principal(signed(claims(sub=account, aud=[AUDIENCE, "other"]))) == f"User:{account}"


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"exp": 1}, TokenExpiredError, ""),
        ({"exp": None}, AuthenticationError, "does not say exp"),
        ({"exp": "soon"}, AuthenticationError, ""),
        ({"exp": 1e400}, AuthenticationError, ""),
        ({"aud": "other"}, AuthenticationError, "another audience"),
        ({"aud": None}, AuthenticationError, ""),
        ({"iss": "https://evil"}, AuthenticationError, "another issuer"),
        ({"iss": None}, AuthenticationError, ""),
        ({"sub": None}, AuthenticationError, "does not say sub"),
        ({"sub": 7}, AuthenticationError, ""),
        ({"sub": ""}, AuthenticationError, "no legal name"),
        ({"sub": "*"}, AuthenticationError, "no legal name"),
        ({"sub": "a\nb"}, AuthenticationError, "no legal name"),
        ({"nbf": 1 << 40}, AuthenticationError, "does not count yet"),
    ],
    ids=str,
)
def test_claims_that_are_refused(world: World, changes: dict[str, Any], error: type[OncelogError], words: str) -> None:
    refusal = world.refusal(signed(claims(**changes)))
    assert type(refusal) is error
    assert words in str(refusal)


@pytest.mark.parametrize(
    "token",
    [
        raw({"alg": "none", "kid": "k1"}, claims()),
        raw({"alg": "None", "kid": "k1"}, claims()),
        raw({"alg": "HS256", "kid": "k1"}, claims(), b"x"),
        raw({"alg": "RS256", "kid": "k1"}, claims(), b""),
        raw({"alg": "RS256", "kid": 7}, claims(), b"x"),
        raw({"alg": "RS256"}, claims(), b"x"),
        raw({"kid": "k1"}, claims(), b"x"),
        raw({"alg": "RS256", "kid": "k1", "crit": ["x"], "x": 1}, claims(), b"x"),
        signed(key=OTHER),
        signed(kid="unknown"),
        signed(key=CURVE, alg="ES256"),  # the key of another algorithm
        signed() + "x",
        signed()[:-20],
        "",
        "a.b.c",
        "a.b",
        "é" * 10,
        "{" * 5000,
        "x" * (13 << 10),
        "x" * (1 << 20),
    ],
    ids=lambda token: f"{token[:24]}...{len(token)}",
)
def test_what_only_looks_like_a_token(world: World, token: str) -> None:
    assert isinstance(world.refusal(token), AuthenticationError)


def test_the_public_key_is_no_secret_to_sign_with(world: World) -> None:
    """HS256 with the published key: the oldest trick."""
    import hashlib
    import hmac

    head = raw({"alg": "HS256", "kid": "k1"}, claims()).rpartition(".")[0]
    signature = hmac.new(PUBLIC_PEM, head.encode(), hashlib.sha256).digest()
    token = f"{head}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    assert "algorithm" in str(world.refusal(token))


def test_a_token_that_was_good_ends(world: World) -> None:
    token = signed()
    assert world.principal(token)
    world.clock.ahead_ms = 601_000
    assert isinstance(world.refusal(token), TokenExpiredError)


def test_keys_rotate_without_a_restart(world: World) -> None:
    old, new = signed(), signed(key=OTHER, kid="k2")
    assert world.principal(old)
    assert isinstance(world.refusal(new), AuthenticationError)
    world.publish(public("k2", OTHER))
    world.clock.steady_ms += 2_000
    assert world.principal(new)
    assert isinstance(world.refusal(old), OncelogError)  # its key was taken back


def test_another_key_under_the_old_name_ends_what_the_old_one_let_in(world: World) -> None:
    async def test() -> None:
        verified = await world.verifier.verify(signed())
        world.publish(public("k1"))
        world.clock.steady_ms += 20_000
        await world.verifier.verify(signed(claims(sub="bob")))
        assert not world.verifier.is_over(verified), "the same key was read again"
        world.publish(public("k1", OTHER))
        world.clock.steady_ms += 20_000
        await world.verifier.verify(signed(key=OTHER))
        assert world.verifier.is_over(verified)
        with pytest.raises(AuthenticationError):
            await world.verifier.verify(signed())

    asyncio.run(test())


def test_a_key_that_is_taken_back_ends_what_it_let_in_though_nobody_brings_a_new_token(world: World) -> None:
    async def test() -> None:
        verified = await world.verifier.verify(signed())
        world.publish(public("k2", OTHER))
        world.clock.steady_ms += 20_000
        while not world.verifier.is_over(verified):  # noqa: ASYNC110 (asked at each request)
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(test(), 30))


def test_an_end_given_as_text_is_that_second(world: World) -> None:
    soon = int(time.time()) + 100
    verified = asyncio.run(world.verifier.verify(signed(claims(exp=str(soon)))))
    assert verified.expires_ms == soon * 1000


def test_while_the_keys_are_away_the_last_ones_count(world: World) -> None:
    assert world.principal(signed())
    world.file.unlink()
    world.clock.steady_ms += 100_000
    assert world.principal(signed(claims(sub="bob"))) == "User:bob"


def test_strangers_keys_do_not_make_us_look_again_and_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    read = TokenKeys._read
    monkeypatch.setattr(TokenKeys, "_read", lambda keys: (looks.append(1), read(keys))[1])
    for number in range(50):
        world.refusal(signed(kid=f"unknown{number}"))
    assert len(looks) == 1


def test_what_is_verified_once_is_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = signed()
    assert world.principal(token)
    monkeypatch.setattr(jwt, "decode", None)
    assert world.principal(token)


def test_a_file_that_is_too_large_is_not_read(world: World) -> None:
    world.file.write_bytes(b" " * (token_keys.BYTES_MAX + 1))
    assert isinstance(world.refusal(signed()), MetadataUnavailableError)


def test_keys_from_a_url_follow_no_redirect_and_carry_the_token(tmp_path: Path) -> None:
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    asked: list[tuple[str, str | None]] = []

    class Issuer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["authorization"]))
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("location", "/keys")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"keys": [public("k1")]}).encode())

        def log_message(self, *_args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Issuer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        (tmp_path / "own").write_text("mine\n")
        url = f"http://127.0.0.1:{server.server_port}"
        clock = Clock()

        def principal(path: str) -> str:
            keys = TokenKeys(url + path, clock, token_file=str(tmp_path / "own"))
            return asyncio.run(TokenVerifier(keys, clock, ISSUER, AUDIENCE).verify(signed())).principal

        assert principal("/keys") == "User:ann"
        with pytest.raises(MetadataUnavailableError):
            principal("/moved")
        assert asked == [("/keys", "Bearer mine"), ("/moved", "Bearer mine")]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
