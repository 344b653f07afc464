"""Who comes in at a listener, over real sockets: by token, by password, by certificate, as nobody, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from oncelog import errors
from oncelog.core.scram import make_credential
from oncelog.link import credentials as credentials_module
from oncelog.link.credentials import Credentials
from oncelog.link.grpc_tls import ClientTls
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.tls_files import TlsFiles
from oncelog.types import Buffer
from oncelog_cli.laptop.local_cluster import free_ports
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener
from oncelog_runtime.adapters.grpc.link import server_link
from oncelog_runtime.adapters.grpc.tls import load_tls
from oncelog_runtime.adapters.system import SystemClock, build_ports, close_ports
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.core.listeners import CLIENT
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.security.stored import StoredUser, user_key
from oncelog_runtime.serving.call_context import CALL
from tests.certificates import Authority

jwt = pytest.importorskip("jwt")

from oncelog_runtime.adapters.grpc import token_keys  # noqa: E402
from oncelog_runtime.adapters.grpc.authentication import Authentication  # noqa: E402
from oncelog_runtime.adapters.grpc.token_keys import TokenKeys  # noqa: E402
from oncelog_runtime.adapters.grpc.tokens import TokenVerifier  # noqa: E402

FETCH = "PartitionLeader.Fetch"
KEY = rsa.generate_private_key(65537, 2048)
CREDENTIAL = make_credential("pencil", b"0123456789abcdef", 4096)


def token(lives_s: float = 600, sub: str = "ann", **changes: Any) -> str:
    claims = {"iss": "i", "aud": "a", "sub": sub, "exp": time.time() + lives_s, **changes}
    made: str = jwt.encode(claims, KEY, algorithm="RS256", headers={"kid": "k1"})
    return made


class Audit:
    def __init__(self) -> None:
        self.failures: list[str] = []

    def record(self, **line: Any) -> None:
        raise AssertionError(line)

    def unauthenticated(self, *, peer: str, listener: str, code: str, reason: str) -> None:
        self.failures.append(code)


class World:
    """A server with a client listener, and clients of it."""

    def __init__(self, tmp_path: Path) -> None:
        jwks = tmp_path / "jwks.json"
        key = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
        jwks.write_text(json.dumps({"keys": [{**key, "kid": "k1"}]}))
        self.audit = Audit()
        policy = Policy()
        policy.audit = self.audit
        self.authorizer = Authorizer(policy)
        self.authorizer.is_loaded = True
        self.set_user("ann", CREDENTIAL)
        self.keys = TokenKeys(str(jwks), SystemClock())
        tokens = TokenVerifier(self.keys, SystemClock(), "i", "a")
        self.server = GrpcServer(
            Listener.internal("127.0.0.1", 0),
            Listener(CLIENT, "127.0.0.1", 0),
            authentication=Authentication(self.authorizer, SystemClock(), tokens=tokens),
        )
        self.server.register(FETCH, self.tell)

    def set_user(self, name: str, credential: Any, revision: int = 1) -> None:
        self.authorizer.stored.users[user_key(name)] = StoredUser(name, credential, revision)

    async def tell(self, _header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        call = CALL.get()
        assert call is not None
        return (f"{call.principal}@{call.access.host}" if call.access is not None else "a service").encode(), b""

    @property
    def address(self) -> str:
        return self.server.listening[CLIENT]


@contextlib.asynccontextmanager
async def client(credentials: Credentials | None = None) -> AsyncIterator[GrpcTransport]:
    transport = GrpcTransport(credentials=credentials)
    try:
        yield transport
    finally:
        await transport.close()


async def who(transport: GrpcTransport, address: str, method: str = FETCH) -> str:
    """Tries again when no connection came up in time: this machine may be busy."""
    for _ in range(20):
        with contextlib.suppress(errors.NetworkError):
            return (await transport.call(address, method, b"", b"", 10_000))[0].decode()
    return (await transport.call(address, method, b"", b"", 10_000))[0].decode()


def run(tmp_path: Path, check: Any) -> World:
    async def main() -> World:
        world = World(tmp_path)
        await world.server.start()
        try:
            await check(world)
        finally:
            await world.server.stop(0)
        return world

    return asyncio.run(main())


async def ask(world: World, credentials: Credentials | None = None) -> str:
    async with client(credentials) as transport:
        return await who(transport, world.address)


def test_each_way_of_saying_who_one_is(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        assert await ask(world) == "User:ANONYMOUS@127.0.0.1"
        assert await ask(world, Credentials(token=token())) == "User:ann@127.0.0.1"
        assert await ask(world, Credentials(token_provider=lambda: token(sub="bob"))) == "User:bob@127.0.0.1"
        assert await ask(world, Credentials(username="ann", password="pencil")) == "User:ann@127.0.0.1"
        async with client() as transport:
            assert await who(transport, world.server.listening["internal"]) == "a service"

    assert run(tmp_path, check).audit.failures == []


def test_what_is_shown_and_is_not_good_makes_nobody_anonymous(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        for credentials in (
            Credentials(token="x.y.z"),
            Credentials(token=token(aud="other")),
            Credentials(username="ann", password="pencils"),
            Credentials(username="bob", password="pencil"),
        ):
            with pytest.raises(errors.AuthenticationError) as caught:
                await ask(world, credentials)
            assert "pencil" not in str(caught.value)
        with pytest.raises(errors.TokenExpiredError):
            await ask(world, Credentials(token=token(-5)))

    assert run(tmp_path, check).audit.failures == ["AUTHENTICATION_FAILED"] * 4 + ["TOKEN_EXPIRED"]


def test_before_the_rules_are_read_callers_are_asked_to_come_again(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        world.authorizer.is_loaded = False
        with pytest.raises(errors.MetadataUnavailableError) as caught:
            await ask(world)
        assert caught.value.retriable

    run(tmp_path, check)


def test_a_link_ends_with_its_token_and_the_next_one_has_a_new_one(tmp_path: Path) -> None:
    """What a call is told just when a token ends may be repeated, and then it is served."""
    given = []

    def provide() -> str:
        given.append(token(1.5, sub=f"ann{len(given)}"))
        return given[-1]

    async def check(world: World) -> None:
        async with client(Credentials(token_provider=provide)) as transport:
            seen: set[str] = set()
            while len(seen) < 3:
                with contextlib.suppress(errors.TokenExpiredError):
                    seen.add(await who(transport, world.address))
                await asyncio.sleep(0.02)
            assert len(given) >= 3

    run(tmp_path, check)


def test_who_stays_on_a_link_whose_token_is_over_is_told_so_and_then_shown_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_link, "_EXPIRED_LINGER_S", 2.0)

    async def check(world: World) -> None:
        async with client(Credentials(token=token(1.0))) as transport:
            assert await who(transport, world.address)
            transport.forget = lambda *_args, **_more: None  # type: ignore[method-assign]
            link = next(iter(transport._links.values()))
            link.core._leave = lambda _error: None  # type: ignore[method-assign]
            await asyncio.sleep(1.2)
            with pytest.raises(errors.TokenExpiredError):
                await who(transport, world.address)
            async with asyncio.timeout(20):
                await world.server._host.no_links.wait()

    run(tmp_path, check)


def test_who_proves_himself_by_a_key_that_was_taken_back_goes_on_with_another_one(tmp_path: Path) -> None:
    """The link that stands is left at once, and not when its token would have ended."""
    other = rsa.generate_private_key(65537, 2048)
    signs_with = [(KEY, "k1")]

    def provide() -> str:
        key, key_id = signs_with[-1]
        claims = {"iss": "i", "aud": "a", "sub": key_id, "exp": time.time() + 600}
        made: str = jwt.encode(claims, key, algorithm="RS256", headers={"kid": key_id})
        return made

    async def check(world: World) -> None:
        async with client(Credentials(token_provider=provide)) as transport:
            assert await who(transport, world.address) == "User:k1@127.0.0.1"
            signs_with.append((other, "k2"))
            key = jwt.algorithms.RSAAlgorithm.to_jwk(other.public_key(), as_dict=True)
            (tmp_path / "jwks.json").write_text(json.dumps({"keys": [{**key, "kid": "k2"}]}))
            world.keys._looked_ms = -token_keys.FILE_EVERY_MS  # it is time to look again
            seen = ""
            async with asyncio.timeout(20):
                while seen != "User:k2@127.0.0.1":
                    with contextlib.suppress(errors.TokenExpiredError):
                        seen = await who(transport, world.address)
                    await asyncio.sleep(0.01)

    run(tmp_path, check)


def test_a_changed_password_ends_what_the_old_one_let_in(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        async with client(Credentials(username="ann", password="pencil")) as transport:
            assert await who(transport, world.address)
            world.set_user("ann", replace(CREDENTIAL), revision=2)
            with pytest.raises(errors.AuthenticationError, match="was changed"):
                await who(transport, world.address)

    run(tmp_path, check)


def test_a_cluster_that_asks_for_no_password_is_not_given_a_proof(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        async with client(Credentials(username="ann", password="pencil")) as transport:
            with pytest.raises(errors.AuthenticationError, match="asks for no password"):
                await who(transport, world.server.listening["internal"])

    run(tmp_path, check)


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ([("authorization", "Bearer GOOD")], None),
        ([("authorization", "bearer GOOD")], None),
        ([], None),
        ([("principal", "User:root"), ("x-principal", "User:root")], None),
        ([("authorization", "Bearer GOOD"), ("authorization", "Bearer GOOD")], grpc.StatusCode.UNAUTHENTICATED),
        ([("authorization", "Basic YTpi")], grpc.StatusCode.UNAUTHENTICATED),
        ([("authorization", "Bearer ")], grpc.StatusCode.UNAUTHENTICATED),
        ([("authorization", "Bearer " + "x" * 13_000)], grpc.StatusCode.UNAUTHENTICATED),
    ],
    ids=lambda value: str(value)[:50],
)
def test_unary_calls_say_it_in_their_metadata(tmp_path: Path, metadata: Any, code: Any) -> None:
    async def check(world: World) -> None:
        shown = [(key, value.replace("GOOD", token())) for key, value in metadata]
        async with grpc.aio.insecure_channel(world.address) as channel:
            call = channel.unary_unary("/oncelog.v1.PartitionLeader/Fetch")
            if code is not None:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(b"", metadata=shown, timeout=10)
                assert caught.value.code() == code
                assert "xxx" not in (caught.value.details() or "")
                return
            expected = b"User:ann" if "GOOD" in str(metadata) else b"User:ANONYMOUS"
            assert (await call(b"", metadata=shown, timeout=10)).startswith(expected)

    run(tmp_path, check)


def test_a_secret_goes_to_nobody_over_a_way_that_anybody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials_module, "is_this_machine", lambda _address: False)

    async def main() -> None:
        for credentials in (Credentials(token="secret"), Credentials(username="ann", password="secret")):
            async with client(credentials) as transport:
                with pytest.raises(errors.AuthenticationError, match="TLS") as caught:
                    await who(transport, "127.0.0.1:1")
                assert "secret" not in f"{caught.value} {credentials!r}"

    asyncio.run(main())


def test_a_token_file_is_read_again_and_complaints_do_not_show_it(tmp_path: Path) -> None:
    file = tmp_path / "token"

    async def main() -> None:
        credentials = Credentials(token_file=str(file))
        with pytest.raises(errors.AuthenticationError, match="No such file"):
            await credentials.metadata()
        for content in ("one\n", "two"):
            file.write_text(content)
            assert await credentials.metadata() == (("authorization", f"Bearer {content.strip()}"),)
        for content in ("", "a b", "x\ny", "z" * 20_000):
            file.write_text(content)
            with pytest.raises(errors.AuthenticationError, match="holds no token"):
                await credentials.metadata()

    asyncio.run(main())


def test_certificates_name_clients_and_services(tmp_path: Path) -> None:
    """The whole way from settings: mutual TLS at both doors, one rule for each kind of service."""
    inside, outside = Authority(tmp_path, "inside"), Authority(tmp_path, "outside")
    own, shown = inside.issue("broker", "127.0.0.1", "broker-0"), outside.issue("shown", "127.0.0.1")
    (client_port,) = free_ports(1)
    config = ServingConfig(
        client_listen_port=client_port,
        tls_cert_file=own.cert,
        tls_key_file=own.key,
        tls_ca_file=own.ca,
        client_tls_cert_file=shown.cert,
        client_tls_key_file=shown.key,
        client_tls_ca_file=shown.ca,
        client_tls_require_certificate=True,
        authorization="acl",
        principal_rules="dns:(.+)[.]clients=>$1",
        service_rules="dns:broker-.+=>partition_leader; dns:co-.+=>coordinator",
    )

    async def tell(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        call = CALL.get()
        assert call is not None
        return (call.principal or "a service").encode(), b""

    async def asked(paths: Any, address: str, method: str = FETCH) -> str:
        transport = GrpcTransport(tls=ClientTls(TlsFiles(paths)))
        try:
            return await who(transport, address, method)
        finally:
            await transport.close()

    async def main() -> None:
        ports = build_ports(config, "toy", load_tls(config))
        assert ports.security is not None
        ports.security.is_loaded = True
        for method in (FETCH, "PartitionLeader.WriteTxnMarkers", "PartitionLeader.Replicate"):
            ports.server.register(method, tell)
        try:
            internal = await ports.server.start()
            door = ports.server.listening["client"]
            assert await asked(outside.issue("ann", "ann.clients"), door) == "User:ann"
            with pytest.raises(errors.AuthenticationError, match="names nobody"):
                await asked(outside.issue("eve", "eve.strangers"), door)
            coordinator = inside.issue("co", "co-0")
            assert await asked(coordinator, internal, "PartitionLeader.WriteTxnMarkers") == "a service"
            for paths, method in (
                (coordinator, "PartitionLeader.Replicate"),
                (own, "PartitionLeader.WriteTxnMarkers"),
                (inside.issue("other", "other"), FETCH),
            ):
                with pytest.raises(errors.ClusterAuthorizationError, match="nothing that a service"):
                    await asked(paths, internal, method)
            assert await asked(own, internal, "PartitionLeader.Replicate") == "a service"
        finally:
            await close_ports(ports)

    asyncio.run(main())
