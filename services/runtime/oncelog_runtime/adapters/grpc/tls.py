"""TLS of one process: which files serve which listener, and gRPC credentials that follow renewed files.

Rule 1: at each handshake gRPC asks for newer files; existing connections keep the ones that they were made with.
Rule 2: between services both sides show a certificate: the internal listener refuses a peer without one of the CA.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import grpc

from oncelog.link.grpc_tls import TlsHints
from oncelog.link.tls_check import Pem, PemPaths, Use
from oncelog.link.tls_files import TlsFiles
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.config.settings import NodeConfig

log = logging.getLogger(__name__)

SERVICE_HINTS: Final = TlsHints("set tls_cert_file, tls_key_file and tls_ca_file", "unset tls_cert_file and its like")
_LOOK_S = 10.0
_WILDCARDS = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class ProcessTls:
    """The files in use; None = plaintext there. Loaded at the start of a process, where an invalid file ends it."""

    internal: TlsFiles | None = None
    clients: TlsFiles | None = None
    etcd: TlsFiles | None = None

    async def watch(self) -> None:
        """Looks for renewed files now and then and logs bad ones, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for files in (self.internal, self.clients, self.etcd):
                if files is None:
                    continue
                try:
                    await asyncio.to_thread(files.look)
                except Exception:  # the next look may succeed; files in use stay in use
                    log.exception("looking at the certificates failed")


def load_tls(config: NodeConfig) -> ProcessTls:
    """Reads and checks all files of a process. Raises `ConfigError` with one sentence that names setting and file."""
    tls = ProcessTls(_internal(config), _clients(config), _etcd(config))
    for files in (tls.internal, tls.clients, tls.etcd):
        if files is not None:
            files.current()
    return tls


def _internal(config: NodeConfig) -> TlsFiles | None:
    if not config.tls_cert_file:
        return None
    paths = PemPaths(
        config.tls_cert_file, config.tls_key_file, config.tls_ca_file, "tls_cert_file", "tls_key_file", "tls_ca_file"
    )
    return TlsFiles(paths, Use.PEER, hosts=_hosts(config.advertised_address or f"{config.listen_host}:0"))


def _clients(config: NodeConfig) -> TlsFiles | None:
    if not isinstance(config, ServingConfig) or not config.client_tls_cert_file:
        return None
    paths = PemPaths(
        config.client_tls_cert_file,
        config.client_tls_key_file,
        config.client_tls_ca_file,
        "client_tls_cert_file",
        "client_tls_key_file",
        "client_tls_ca_file",
    )
    near = config.client_address or config.advertised_address or f"{config.listen_host}:0"
    wanted = _hosts(near if config.has_client_listener else "", config.external_address)
    return TlsFiles(paths, Use.SERVER, wanted_hosts=wanted)


def _etcd(config: NodeConfig) -> TlsFiles | None:
    if not config.etcd_tls_ca_file:
        return None
    return TlsFiles(
        PemPaths(
            config.etcd_tls_cert_file,
            config.etcd_tls_key_file,
            config.etcd_tls_ca_file,
            "etcd_tls_cert_file",
            "etcd_tls_key_file",
            "etcd_tls_ca_file",
        )
    )


def _hosts(*addresses: str) -> Sequence[str]:
    hosts = [address.rpartition(":")[0].strip("[]") for address in addresses]
    return list(dict.fromkeys(host for host in hosts if host not in _WILDCARDS))


def server_credentials(files: TlsFiles, *, require_certificate: bool) -> grpc.ServerCredentials:
    """Returns the credentials of one listener (a second one with the same object cannot listen: tried with grpcio
    1.85).

    `require_certificate`: a peer without a certificate of the CA in `files` is refused. Raises `ConfigError`.
    """
    served: list[Pem] = [files.current()]

    def configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(pem.key, pem.cert)], pem.ca or None)

    def newer() -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC in threads of its own, before each handshake. None = unchanged."""
        pem = files.current()
        if pem is served[0]:
            return None
        served[0] = pem
        return configuration(pem)

    return grpc.dynamic_ssl_server_credentials(configuration(served[0]), newer, require_certificate)
