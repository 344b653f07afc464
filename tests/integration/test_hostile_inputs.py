"""Every bad input of the list that has a form on the wire, against real processes: one cluster for all, with TLS, tokens and
rules of access, and a healthy client between any two inputs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from oncelog import errors
from oncelog.client.client import Client
from oncelog.link.credentials import Credentials
from oncelog.link.grpc_tls import ClientTls
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.tls_check import PemPaths
from oncelog.link.tls_files import TlsFiles
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalTls
from tests.certificates import Authority
from tests.conformance.names import Place
from tests.hostile_inputs.hands import ClientHands, nothing_comes_of_it
from tests.hostile_inputs.rows import Kind, Row, rows_of

jwt = pytest.importorskip("jwt")

KEY = rsa.generate_private_key(65537, 2048)
T = TypeVar("T")


def make_token(sub: Any, lives_s: float = 3600, headers: dict[str, Any] | None = None, **changes: Any) -> str:
    """As the issuer of the cluster signs them, but for the changes; None leaves a claim out."""
    claims = {"iss": "https://issuer", "aud": "oncelog", "sub": sub, "exp": int(time.time() + lives_s), **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    given = (
        _b64(json.dumps({"alg": "RS256", "kid": "k1", **(headers or {})}).encode())
        + "."
        + _b64(json.dumps(claims).encode())
    )
    signature: bytes = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(given.encode(), KEY)
    return f"{given}.{_b64(signature)}"


def _b64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


class Guarded:
    """A cluster with everything on, and its authority."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.other = Authority(folder, "other")
        key = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
        (folder / "jwks.json").write_text(json.dumps({"keys": [{**key, "kid": "k1"}]}))
        flags = {
            "authorization": "acl",
            "super-users": "User:root",
            "jwt-issuer": "https://issuer",
            "jwt-audience": "oncelog",
            "jwt-jwks": str(folder / "jwks.json"),
        }
        tls = LocalTls(
            inside=self.authority.issue("inside", "127.0.0.1"), clients=self.authority.issue("clients", "127.0.0.1")
        )
        words = tuple(word for name, value in flags.items() for word in (f"--{name}", value))
        self.cluster = LocalCluster(
            folder / "cluster",
            brokers=1,
            coordinators=1,
            doors=True,
            tls=tls,
            serving_flags=words,
            identity={"token": make_token("root", 36_000)},
            **options,
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("hostile"))
    with made.cluster:
        yield made


class WireHands(ClientHands):
    """The same hands over real sockets. A node is the address of its clients' door."""

    def __init__(self, guarded: Guarded, transport: GrpcTransport, stranger: GrpcTransport) -> None:
        self.guarded = guarded
        self.running = guarded.cluster
        self.transport = transport  # type: ignore[assignment]
        self._stranger = stranger
        self._bulk = b""
        self.root_token = str(self.running.identity["token"])
        self.ca = str(guarded.authority.ca_path)

    # ------------------------------------------------------------ who is who

    @property
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def client(self, **config: Any) -> Client:
        options = {"default_api_timeout_ms": 60_000, **self.running.client_options, **config}
        return Client(self.running.bootstrap_servers, **options)

    def door(self, node: str) -> str:
        return node

    def any_broker(self) -> str:
        return self.running.processes["broker-0"].doors["client"]

    def inside_address(self) -> str:
        return self.running.processes["broker-0"].address

    def leader(self, place: Place) -> str:
        return self.any_broker()

    async def controller(self) -> str:
        return self.any_broker()

    def owner(self, transactional_id: str) -> str:
        return self.running.processes["coordinator-0"].doors["client"]

    group_owner = owner

    async def retry(self, attempt: Callable[[], Awaitable[T]], within_s: float = 30) -> T:
        deadline = time.monotonic() + within_s
        while True:
            try:
                return await attempt()
            except errors.OncelogError as error:
                if not error.retriable or time.monotonic() >= deadline:
                    raise
                await asyncio.sleep(0.05)

    @property
    def stranger(self) -> GrpcTransport:
        return self._stranger

    async def sent(self, call: Callable[[], Awaitable[T]]) -> T:
        """A machine that is busy takes its time for a handshake; nothing was sent before that."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return await call()
            except errors.NetworkError as error:
                if error.context.get("unsent") != "true" or time.monotonic() >= deadline:
                    raise

    # ------------------------------------------------------------ the way

    def channel(self, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(Path(self.ca).read_bytes())
        return grpc.aio.secure_channel(self.any_broker(), credentials, options)

    def transport_of(self, credentials: Credentials) -> contextlib.AbstractAsyncContextManager[GrpcTransport]:
        return transport_of(self.ca, credentials)

    token = staticmethod(make_token)

    @staticmethod
    def hmac_token(sub: str) -> str:
        """Signed with the public key as if it were a password."""
        public = KEY.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        claims = {"iss": "https://issuer", "aud": "oncelog", "sub": sub, "exp": int(time.time()) + 600}
        given = _b64(json.dumps({"alg": "HS256", "kid": "k1"}).encode()) + "." + _b64(json.dumps(claims).encode())
        return f"{given}.{_b64(hmac.new(public, given.encode(), hashlib.sha256).digest())}"

    def certificate(self) -> PemPaths:
        """Of a service, as bytes in the places of paths."""
        cert, key = self.guarded.authority.pem("127.0.0.1")
        return PemPaths(cert, key, Path(self.ca).read_bytes())  # type: ignore[arg-type]

    def bad_certificates(self) -> dict[str, tuple[bytes | None, bytes | None]]:
        """Name -> (key, certificate)."""
        strange_cert, strange_key = self.guarded.other.pem("127.0.0.1")
        over = self.guarded.authority.issue("over", "127.0.0.1", expires_in=timedelta(hours=-1))
        return {
            "none": (None, None),
            "another authority's": (strange_key, strange_cert),
            "over": (Path(over.key).read_bytes(), Path(over.cert).read_bytes()),
        }

    def rss_mib(self) -> int:
        """Of the broker."""
        popen = self.running.processes["broker-0"].popen
        assert popen is not None
        return int(Path(f"/proc/{popen.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    def log_lines(self) -> list[str]:
        """Of all services."""
        names = [name for name in self.running.processes if name != "etcd"]
        return [
            line for name in names for line in self.running.processes[name].log_path.read_text().split("\n") if line
        ]


@contextlib.asynccontextmanager
async def transport_of(ca: str, credentials: Credentials | None) -> AsyncIterator[GrpcTransport]:
    """A client's way into the cluster."""
    transport = GrpcTransport(tls=ClientTls(TlsFiles(PemPaths("", "", ca))), credentials=credentials)
    try:
        yield transport
    finally:
        await transport.close()


@pytest.mark.parametrize("row", [*rows_of(Kind.CLUSTER), *rows_of(Kind.DOOR)], ids=lambda row: row.name)
def test_over_real_sockets(guarded: Guarded, row: Row) -> None:
    async def main() -> None:
        ca, token = str(guarded.authority.ca_path), str(guarded.cluster.identity["token"])
        async with (
            transport_of(ca, Credentials(token=token)) as transport,
            transport_of(ca, Credentials(token=make_token("stranger"))) as stranger,
        ):
            await nothing_comes_of_it(WireHands(guarded, transport, stranger), row)
        assert not guarded.cluster.dead()

    asyncio.run(main())
