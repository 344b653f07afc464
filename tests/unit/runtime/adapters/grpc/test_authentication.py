"""Who the caller is: a service by its certificate, a client by token, password or certificate, or nobody in particular."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from oncelog.core.scram import ITERATIONS, MECHANISM, ScramClient, make_credential, salted
from oncelog.errors import AuthenticationError, MetadataUnavailableError, TokenExpiredError
from oncelog_runtime.adapters.grpc.authentication import Authentication, bearer_of, host_of
from oncelog_runtime.adapters.grpc.tokens import (
    Verified,
)
from oncelog_runtime.adapters.system import SystemClock
from oncelog_runtime.core.listeners import CLIENT
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.core.security.certificate_rules import parse_service_rules
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.security.stored import StoredUser, encode_user, user_key
from oncelog_runtime.serving.call_context import CallInfo
from oncelog_runtime.sim import SimClock, SimLoop


class Context:
    """Of a call without certificate; without headers unless some are given."""

    def __init__(self, metadata: Any = ()) -> None:
        self._metadata = metadata

    def auth_context(self) -> dict[str, Any]:
        return {}

    def invocation_metadata(self) -> Any:
        return self._metadata


def caller(authentication: Authentication, call: CallInfo) -> CallInfo:
    return asyncio.run(authentication.caller(Context(), call))


def test_a_service_may_ask_for_a_client_and_a_client_may_not() -> None:
    authorizer = Authorizer(Policy())
    authentication = Authentication(authorizer, SystemClock())
    service = caller(authentication, CallInfo("ipv4:10.0.0.1:1"))
    assert service.access is None
    assert service.access_of is not None
    with pytest.raises(MetadataUnavailableError):
        service.access_of("User:ann", "10.0.0.7")
    with pytest.raises(MetadataUnavailableError):
        caller(authentication, CallInfo("ipv4:10.0.0.7:1", listener=CLIENT))
    authorizer.is_loaded = True
    ann = service.access_of("User:ann", "10.0.0.7")
    assert (ann.principal, ann.host) == ("User:ann", "10.0.0.7")
    client = caller(authentication, CallInfo("ipv4:10.0.0.7:1", listener=CLIENT))
    assert (client.principal, client.access_of) == (ANONYMOUS, None)


def test_whoever_shows_no_services_certificate_is_none() -> None:
    rules = parse_service_rules("dns:.+[.]brokers=>partition_leader", "service_rules")
    stranger = caller(Authentication(None, SystemClock(), service_rules=rules), CallInfo("ipv4:10.0.0.1:1"))
    assert (stranger.methods, stranger.access_of) == (frozenset(), None)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.1:5", "10.0.0.1"),
        ("ipv6:%5B::1%5D:5", "::1"),
        ("ipv6:[::ffff:10.0.0.1]:5", "10.0.0.1"),
        ("unix:/x", ""),
        ("", ""),
        ("ipv4:x:5", ""),
    ],
)
def test_the_host_of_a_peer(peer: str, host: str) -> None:
    assert host_of(peer) == host


@pytest.mark.parametrize(
    ("metadata", "token"),
    [
        ((), None),
        ((("other", "x"),), None),
        ((("authorization", "Bearer a.b.c"),), "a.b.c"),
        ((("Authorization", "bearer  a.b.c "),), "a.b.c"),
    ],
)
def test_a_bearer_token_stands_in_one_header(metadata: Any, token: str | None) -> None:
    assert bearer_of(metadata) == token


@pytest.mark.parametrize(
    "metadata",
    [
        (("authorization", "Basic YTpi"),),
        (("authorization", "a.b.c"),),
        (("authorization", b"Bearer a.b.c"),),
        (("authorization", "Bearer a"), ("authorization", "Bearer a")),
    ],
)
def test_what_is_no_one_bearer_token_is_refused(metadata: Any) -> None:
    with pytest.raises(AuthenticationError, match="stands there once"):
        bearer_of(metadata)


def loaded(**more: Any) -> tuple[Authorizer, Authentication]:
    authorizer = Authorizer(Policy())
    authorizer.is_loaded = True
    return authorizer, Authentication(authorizer, SystemClock(), **more)


AT_THE_DOOR = CallInfo("ipv4:10.0.0.7:1", listener=CLIENT)


def test_a_token_is_no_way_in_where_no_issuer_is_configured() -> None:
    _, authentication = loaded()
    shown = Context((("authorization", "Bearer a.b.c"),))
    with pytest.raises(AuthenticationError, match="jwt_issuer is not set"):
        asyncio.run(authentication.caller(shown, AT_THE_DOOR))
    service = asyncio.run(authentication.caller(shown, CallInfo("ipv4:10.0.0.1:1")))
    assert service.access is None, "inside, the certificate alone counts"


class Tokens:
    """Stands in for `TokenVerifier`."""

    over = False

    async def verify(self, token: str) -> Verified:
        if token != "good":
            raise AuthenticationError("no such token")
        return Verified("User:ann", 5_000, "k1", None)  # type: ignore[arg-type]

    def is_over(self, _verified: Verified) -> bool:
        return self.over


def test_who_shows_a_good_token_is_its_principal_until_it_is_over() -> None:
    tokens = Tokens()
    _, authentication = loaded(tokens=tokens)
    ann = asyncio.run(authentication.caller(Context((("authorization", "Bearer good"),)), AT_THE_DOOR))
    assert (ann.principal, ann.expires_ms) == ("User:ann", 5_000)
    assert ann.over is not None
    assert ann.over() is None
    tokens.over = True
    assert isinstance(ann.over(), TokenExpiredError)


class Trail:
    """Stands in for the audit log."""

    def __init__(self) -> None:
        self.refused: list[tuple[str, str]] = []

    def unauthenticated(self, *, peer: str, listener: str, code: str, reason: str) -> None:
        self.refused.append((code, reason))


def test_a_refused_proof_is_recorded() -> None:
    authorizer, authentication = loaded(tokens=Tokens())
    trail = Trail()
    authorizer.policy.audit = trail  # type: ignore[assignment]
    with pytest.raises(AuthenticationError):
        asyncio.run(authentication.caller(Context((("authorization", "Bearer bad"),)), AT_THE_DOOR))
    assert trail.refused == [("AUTHENTICATION_FAILED", "no such token")]


def with_user(name: str, password: str) -> tuple[Authorizer, Authentication]:
    authorizer, authentication = loaded()
    user = StoredUser(name, make_credential(password, bytes(16), ITERATIONS))
    authorizer.stored.enter(user_key(name), encode_user(user), 7)
    return authorizer, authentication


def prove(authentication: Authentication, name: str, password: str, call: CallInfo = AT_THE_DOOR) -> CallInfo:
    client = ScramClient(name, "nonce-of-the-client")

    async def exchange(server_first: bytes) -> bytes:
        return client.final(server_first, salted(password, *client.challenge(server_first)))

    found, proof = asyncio.run(authentication.by_password(MECHANISM, client.first(), call, exchange))
    client.check(proof)
    return found


def test_who_proves_a_password_is_that_user_until_it_is_changed() -> None:
    authorizer, authentication = with_user("ann", "secret")
    ann = prove(authentication, "ann", "secret")
    assert ann.principal == "User:ann"
    assert ann.over is not None
    assert ann.over() is None
    stored = authorizer.stored.user("ann")
    assert stored is not None
    authorizer.stored.enter(user_key("ann"), encode_user(stored), 8)
    assert isinstance(ann.over(), AuthenticationError)
    authorizer.stored.enter(user_key("ann"), None, 9)
    assert isinstance(ann.over(), AuthenticationError)


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong"), ("nobody", "secret")])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(name: str, password: str) -> None:
    _, authentication = with_user("ann", "secret")
    with pytest.raises(AuthenticationError) as caught:
        prove(authentication, name, password)
    assert "ann" not in str(caught.value)
    assert "nobody" not in str(caught.value)


def test_a_password_beside_a_token_and_another_mechanism_are_refused() -> None:
    _, authentication = with_user("ann", "secret")
    with pytest.raises(AuthenticationError, match="give one of them"):
        prove(authentication, "ann", "secret", replace(AT_THE_DOOR, expires_ms=5_000))
    with pytest.raises(AuthenticationError, match=MECHANISM):
        asyncio.run(authentication.by_password("PLAIN", b"", AT_THE_DOOR, asyncio.sleep))


def test_passwords_are_asked_of_clients_alone_and_where_rules_are_on() -> None:
    _, authentication = loaded()
    assert authentication.wants_password(AT_THE_DOOR)
    assert not authentication.wants_password(CallInfo("x"))
    assert not Authentication(None, SystemClock()).wants_password(AT_THE_DOOR)


def test_a_link_is_left_a_little_before_its_token_ends() -> None:
    with SimLoop() as loop:  # type: ignore[abstract]
        clock = SimClock(loop)
        authentication = Authentication(None, clock)
        for lives_ms, left_ms in ((600_000, 10_000), (10_000, 1_000)):
            ends_ms = clock.now_ms() + lives_ms
            loop.run(authentication.nearly_over(replace(AT_THE_DOOR, expires_ms=ends_ms)))
            assert ends_ms - clock.now_ms() == pytest.approx(left_ms, abs=2)
