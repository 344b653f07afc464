"""From settings to open doors: each listener of a process with its port, its certificates, and who gets in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oncelog import errors
from oncelog.link.grpc_tls import ClientTls
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.tls_check import PemPaths
from oncelog.link.tls_files import TlsFiles
from oncelog.types import Buffer
from oncelog_cli.laptop.local_cluster import free_ports
from oncelog_runtime.adapters.grpc.tls import load_tls
from oncelog_runtime.adapters.system import build_ports, close_ports
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.serving.call_context import CALL
from tests.certificates import Authority, trusting_only

FETCH = "PartitionLeader.Fetch"
REPLICATE = "PartitionLeader.Replicate"


async def tell(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
    call = CALL.get()
    assert call is not None
    return f"{call.listener} {','.join(call.principals)}".encode(), b""


def doors(tmp_path: Path, **settings: Any) -> tuple[ServingConfig, PemPaths, PemPaths]:
    """Settings of a process with three listeners and two authorities; a member's files, and a client's."""
    inside, outside = Authority(tmp_path, "inside"), Authority(tmp_path, "outside")
    own, shown = inside.issue("member", "127.0.0.1"), outside.issue("shown", "127.0.0.1")
    client_port, external_port = free_ports(2)
    config = ServingConfig(
        client_listen_port=client_port,
        external_listen_port=external_port,
        tls_cert_file=own.cert,
        tls_key_file=own.key,
        tls_ca_file=own.ca,
        client_tls_cert_file=shown.cert,
        client_tls_key_file=shown.key,
        client_tls_ca_file=shown.ca,
        **settings,
    )
    return config, own, outside.issue("client", "somebody")


async def ask(paths: PemPaths, address: str, method: str = FETCH) -> str:
    transport = GrpcTransport(tls=ClientTls(TlsFiles(paths)))
    try:
        return (await transport.call(address, method, b"", b"", 10_000))[0].decode()
    finally:
        await transport.close()


@pytest.mark.parametrize("required", [False, True])
def test_each_door_has_its_own_certificates_and_guests(tmp_path: Path, required: bool) -> None:
    config, member, client = doors(tmp_path, client_tls_require_certificate=required)

    async def main() -> None:
        ports = build_ports(config, "toy", load_tls(config))
        for method in (FETCH, REPLICATE):
            ports.server.register(method, tell)
        try:
            internal = await ports.server.start()
            listening = ports.server.listening
            assert {name: address.rpartition(":")[2] for name, address in listening.items()} == {
                "internal": internal.rpartition(":")[2],
                "client": str(config.client_listen_port),
                "external": str(config.external_listen_port),
            }
            assert await ask(member, internal) == "internal 127.0.0.1"
            with pytest.raises(errors.NetworkError, match="is not signed by"):
                await ask(client, internal)
            for door in ("client", "external"):
                shown = "somebody" if required else ""  # whom nobody asks does not tell
                assert await ask(client, listening[door]) == f"{door} {shown}"
                with pytest.raises(errors.ClusterAuthorizationError):
                    await ask(client, listening[door], REPLICATE)
                if required:
                    with pytest.raises(errors.NetworkError, match="if it wants a client certificate"):
                        await ask(trusting_only(client), listening[door])
                else:
                    assert await ask(trusting_only(client), listening[door]) == f"{door} "
        finally:
            await close_ports(ports)

    asyncio.run(main())
