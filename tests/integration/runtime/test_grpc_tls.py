"""TLS between real ends: who is refused and what he is told, and certificates that change while links stand."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from oncelog import errors
from oncelog.link.grpc_tls import ClientTls
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.tls_check import PemPaths
from oncelog.link.tls_files import TlsFiles
from oncelog.types import Buffer
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener
from oncelog_runtime.adapters.grpc.tls import server_credentials
from oncelog_runtime.serving.call_context import CALL
from tests.certificates import HOUR, Authority, trusting_only

PING = "PartitionLeader.Ping"
LONG_MS = 10_000
Runner = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Runner:
    runner: Runner = request.param
    return runner


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def who_calls(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    call = CALL.get()
    assert call is not None
    return ",".join(call.principals).encode(), b""


@asynccontextmanager
async def serving(paths: PemPaths | None, *, require_certificate: bool = True) -> AsyncIterator[str]:
    """A server's port on localhost."""
    files = TlsFiles(paths) if paths is not None else None
    credentials = server_credentials(files, require_certificate=require_certificate) if files else None
    server = GrpcServer(Listener.internal("127.0.0.1", 0, credentials))
    server.register(PING, who_calls)
    try:
        yield (await server.start()).rpartition(":")[2]
    finally:
        await server.stop(0)


async def ask(paths: PemPaths | None, address: str) -> str:
    """The names by which the server knows a caller with these files."""
    transport = GrpcTransport(tls=ClientTls(TlsFiles(paths)) if paths is not None else None)
    try:
        return (await transport.call(address, PING, b"", b"", LONG_MS))[0].decode()
    finally:
        await transport.close()


async def refused(paths: PemPaths | None, address: str, says: str) -> None:
    with pytest.raises(errors.NetworkError, match=says) as caught:
        await ask(paths, address)
    assert caught.value.context.get("unsent") == "true"


@contextmanager
def spoiling(path: str) -> Iterator[None]:
    """The file has another content for a while."""
    file = Path(path)
    before = file.read_bytes()
    file.write_text("a bad day")
    try:
        yield
    finally:
        file.write_bytes(before)


def copy_of(path: Path) -> str:
    """The path of a copy."""
    copy = path.with_name("copy.crt")
    copy.write_bytes(path.read_bytes())
    return str(copy)


def test_a_peer_of_the_same_authority_is_known_by_his_names(run: Runner, authority: Authority) -> None:
    async def main() -> None:
        async with serving(authority.issue("server", "localhost")) as port:
            assert (
                await ask(authority.issue("me", "me.example", "also.me"), f"localhost:{port}") == "me.example,also.me"
            )

    run(main())


def test_strangers_are_refused(run: Runner, authority: Authority) -> None:
    async def main() -> None:
        async with serving(authority.issue("server", "localhost")) as port:
            address = f"localhost:{port}"
            mine = authority.issue("me", "me.example")
            strange = Authority(Path(mine.cert).parent, "other").issue("strange", "me.example")
            wants = "ended the TLS handshake: if it wants a client certificate"
            await refused(trusting_only(mine), address, f"{wants}, give one in ssl_certfile")
            await refused(
                dataclasses.replace(strange, ca=mine.ca), address, f"{wants}, ssl_certfile .* is not of its CA"
            )
            await refused(None, address, "closed the connection at once: if it listens with TLS")
            assert await ask(mine, address) == "me.example"

    run(main())


def test_a_server_that_cannot_be_trusted_is_not(run: Runner, authority: Authority, tmp_path: Path) -> None:
    async def main() -> None:
        mine = authority.issue("me", "me.example")
        other_ca = dataclasses.replace(mine, ca=str(Authority(tmp_path, "other").ca_path))
        server = authority.issue("server", "localhost")
        async with serving(server, require_certificate=False) as port:
            await refused(trusting_only(other_ca), f"localhost:{port}", "is not signed by ssl_cafile .*other.crt")
            await refused(trusting_only(mine), f"127.0.0.1:{port}", "does not hold this name")
            assert await ask(trusting_only(mine), f"localhost:{port}") == ""
        async with serving(None) as port:
            await refused(mine, f"localhost:{port}", "does not speak TLS")

    run(main())


def test_an_expired_server_is_named(run: Runner, authority: Authority) -> None:
    """Its files expire while it runs: that is a warning in its log, and this at its callers."""

    async def main() -> None:
        import grpc

        old = authority.issue("old", "localhost", expires_in=-HOUR)
        pem = old.read()
        expired = grpc.ssl_server_credentials([(pem.key, pem.cert)])
        server = GrpcServer(Listener.internal("127.0.0.1", 0, expired))
        server.register(PING, who_calls)
        port = (await server.start()).rpartition(":")[2]
        try:
            await refused(trusting_only(old), f"localhost:{port}", "has expired: renew it there")
        finally:
            await server.stop(0)

    run(main())


def test_renewed_certificates_are_used_by_new_links_and_old_links_live_on(run: Runner, authority: Authority) -> None:
    async def main() -> None:
        server = authority.issue("server", "localhost")
        mine = authority.issue("me", "first.example")
        async with serving(server) as port:
            address = f"localhost:{port}"
            standing = GrpcTransport(tls=ClientTls(TlsFiles(mine)))
            later = GrpcTransport(tls=ClientTls(TlsFiles(mine)))
            try:
                assert (await standing.call(address, PING, b"", b"", LONG_MS))[0] == b"first.example"
                authority.issue("server", "localhost")
                authority.issue("me", "second.example")
                assert (await standing.call(address, PING, b"", b"", LONG_MS))[0] == b"first.example"
                assert (await later.call(address, PING, b"", b"", LONG_MS))[0] == b"second.example"
            finally:
                await standing.close()
                await later.close()

    run(main())


def test_a_new_authority_is_trusted_as_soon_as_it_stands_in_the_file(run: Runner, tmp_path: Path) -> None:
    """The order of docs/security.md: first everybody trusts both, then certificates change, then the old one goes."""

    async def main() -> None:
        old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
        both = tmp_path / "both.crt"
        both.write_bytes(old.ca_path.read_bytes())
        server = dataclasses.replace(old.issue("server", "localhost"), ca=str(both))
        mine = dataclasses.replace(new.issue("me", "me.example"), ca=str(both))
        async with serving(server) as port:
            await refused(mine, f"localhost:{port}", "ended the TLS handshake")
            both.write_bytes(old.ca_path.read_bytes() + new.ca_path.read_bytes())
            assert await ask(mine, f"localhost:{port}") == "me.example"
            new.issue("server", "localhost")
            both.write_bytes(new.ca_path.read_bytes())
            assert await ask(mine, f"localhost:{port}") == "me.example"

    run(main())


def test_a_bad_renewal_of_the_server_harms_nobody(run: Runner, authority: Authority) -> None:
    async def main() -> None:
        server = authority.issue("server", "localhost")
        mine = dataclasses.replace(authority.issue("me", "me.example"), ca=copy_of(authority.ca_path))
        async with serving(server) as port:
            for spoilt in (server.cert, server.key, server.ca):
                with spoiling(spoilt):
                    assert await ask(mine, f"localhost:{port}") == "me.example"

    run(main())
