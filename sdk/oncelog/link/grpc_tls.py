"""TLS of the connections that this process makes: credentials for gRPC, and what its failures mean.

Rule 1: each new link has the newest files; a link that stands lives on with those that it was made with.
Rule 2: what a handshake failed of is one sentence with the fix; gRPC's own words are for its authors.

This module imports grpc, so nothing that `import oncelog` loads may import it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import grpc

from oncelog.link.tls_check import Pem, PemPaths
from oncelog.link.tls_files import TlsFiles


@dataclass(frozen=True, slots=True)
class TlsHints:
    """How this side's user switches TLS, for errors. The defaults are the SDK's words."""

    on: str = "use security_protocol SSL and ssl_cafile"
    off: str = "use security_protocol PLAINTEXT"


SDK_HINTS: Final = TlsHints()


class ClientTls:
    """Credentials of `GrpcTransport`, from files that may be renewed."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._pem: Pem | None = None
        self._credentials: grpc.ChannelCredentials | None = None

    @property
    def paths(self) -> PemPaths:
        """The files, with the names of their settings."""
        return self._files.paths

    def credentials(self) -> grpc.ChannelCredentials:
        """For one more channel. Raises `ConfigError` when the files never were good."""
        pem = self._files.current()
        if pem is not self._pem or self._credentials is None:
            self._pem = pem
            self._credentials = grpc.ssl_channel_credentials(pem.ca or None, pem.key or None, pem.cert or None)
        return self._credentials


@dataclass(frozen=True, slots=True)
class HandshakeFailure:
    """`sentence` for people; `certain`: another try with the same files ends in the same way."""

    sentence: str
    certain: bool


def explain_handshake(
    address: str, details: str, paths: PemPaths | None, hints: TlsHints = SDK_HINTS
) -> HandshakeFailure | None:
    """Explains gRPC's details of a connection that never came up; None: they are not about TLS.

    `paths` None: this side speaks plaintext.
    """
    if paths is None:
        if not _ended(details):
            return None
        return HandshakeFailure(
            f"{address} closed the connection at once: if it listens with TLS, {hints.on}",
            certain=False,
        )
    if "Hostname Verification Check failed" in details or "is not in peer certificate" in details:
        return HandshakeFailure(
            f"the certificate of {address} does not hold this name: dial a name that stands in it, or have it issued again",
            certain=True,
        )
    if "has expired" in details:
        return HandshakeFailure(f"the certificate of {address} has expired: renew it there", certain=True)
    if "not yet valid" in details:
        return HandshakeFailure(f"the certificate of {address} is not valid yet: compare the clocks", certain=True)
    if "CERTIFICATE_VERIFY_FAILED" in details:
        trusted = f"{paths.ca_setting} {paths.ca}" if paths.ca else f"a public CA ({paths.ca_setting} is not set)"
        return HandshakeFailure(
            f"the certificate of {address} is not signed by {trusted}: give the CA of this cluster", certain=True
        )
    if "WRONG_VERSION_NUMBER" in details:
        return HandshakeFailure(f"{address} does not speak TLS: name its TLS port, or {hints.off}", certain=True)
    told = "_ALERT_" in details  # some servers say that they refuse, others only hang up
    if told or _ended(details):
        mine = (
            f"{paths.cert_setting} {paths.cert} is not of its CA" if paths.cert else f"give one in {paths.cert_setting}"
        )
        return HandshakeFailure(
            f"{address} ended the TLS handshake: if it wants a client certificate, {mine}", certain=told
        )
    return None


def _ended(details: str) -> bool:
    return "Socket closed" in details or "Connection reset by peer" in details
