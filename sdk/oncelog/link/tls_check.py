"""Whether certificate, key and CA can work, found out by OpenSSL itself in handshakes in memory.

Rule: every fault is one `ConfigError` that names the setting, the file and what to do.
"""

from __future__ import annotations

import enum
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oncelog.errors import ConfigError

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_EXPIRED: Final = (10,)
_NOT_YET_VALID: Final = (9,)
_NOT_SIGNED: Final = (2, 18, 19, 20, 21)
_WRONG_PURPOSE: Final = (24, 26)
_HOST_MISMATCH: Final = (62, 64)
_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class Pem:
    """The content of three files; an absent one is empty."""

    cert: bytes
    key: bytes
    ca: bytes


@dataclass(frozen=True, slots=True)
class PemPaths:
    """Three paths, and the settings that named them, for errors. `ca` is whom to trust; `cert` and `key` go together."""

    cert: str = ""
    key: str = ""
    ca: str = ""
    cert_setting: str = "ssl_certfile"
    key_setting: str = "ssl_keyfile"
    ca_setting: str = "ssl_cafile"

    def read(self) -> Pem:
        """The files as they are now. Raises `ConfigError`."""
        return Pem(
            _read(self.cert_setting, self.cert), _read(self.key_setting, self.key), _read(self.ca_setting, self.ca)
        )


@dataclass(frozen=True, slots=True)
class Validity:
    """The life of a certificate, seconds since 1970; zeros without a certificate."""

    from_s: float = 0.0
    to_s: float = 0.0


class Use(enum.Enum):
    """At which end of connections a certificate is shown."""

    CLIENT = "to those whom this process dials"
    SERVER = "to those who dial this process"
    PEER = "to both, and the CA in the same files signs all of them"


def check(paths: PemPaths, pem: Pem, use: Use, hosts: Sequence[str] = ()) -> Validity:
    """Raises `ConfigError`. `hosts`: names and addresses that the certificate must hold.

    The files must have the content `pem` (Python's ssl takes a key by its path alone): compare them again afterwards.
    """
    roots = _roots(paths, pem.ca) if paths.ca else ""
    if not paths.cert:
        return Validity()
    _check_form(paths, pem)
    leaf = _first_certificate(pem.cert)
    if use is Use.CLIENT:
        seen = _show_to_server(paths, leaf)
    else:
        seen = _show_to_client(paths, leaf)
    for host in hosts:
        _show_to_client(paths, leaf, host)
    if use is Use.PEER:  # the whole chain, with the CA that the others have too
        _show_to_client(paths, roots)
        _show_to_server(paths, roots)
    return Validity(ssl.cert_time_to_seconds(str(seen["notBefore"])), ssl.cert_time_to_seconds(str(seen["notAfter"])))


def _show_to_client(paths: PemPaths, trusted: str, host: str = "") -> dict[str, object]:
    """The certificate as a client sees it that trusts just these, be they a CA's or the certificate itself."""
    client = _trusting(ssl.PROTOCOL_TLS_CLIENT, trusted)
    client.check_hostname = bool(host)
    return _shake(paths, _proving(paths, ssl.PROTOCOL_TLS_SERVER), client, host)[0]


def _show_to_server(paths: PemPaths, trusted: str) -> dict[str, object]:
    """The certificate as a server sees it that trusts just these."""
    server, client = _trusting(ssl.PROTOCOL_TLS_SERVER, trusted), _proving(paths, ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(paths.cert, paths.key)  # any would do: it is not looked at
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return _shake(paths, server, client, "")[1]


def _read(setting: str, path: str) -> bytes:
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{setting} {path} cannot be read: {error.strerror}") from error


def _roots(paths: PemPaths, ca: bytes) -> str:
    try:
        text = ca.decode("ascii", "ignore")  # people write comments into such files
        if _BEGIN not in text:
            raise ValueError("no certificate begins in it")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise ConfigError(f"{paths.ca_setting} {paths.ca} is no PEM file of CA certificates ({why})") from error
    return text


def _check_form(paths: PemPaths, pem: Pem) -> None:
    if not _first_certificate(pem.cert):
        raise ConfigError(f"{paths.cert_setting} {paths.cert} holds no PEM certificate")
    if b"PRIVATE KEY-----" not in pem.key:
        raise ConfigError(f"{paths.key_setting} {paths.key} holds no PEM private key")
    if b"ENCRYPTED" in pem.key:  # OpenSSL would ask for the passphrase on the terminal
        raise ConfigError(f"{paths.key_setting} {paths.key} is encrypted: a key without passphrase is needed")


def _first_certificate(chain: bytes) -> str:
    """The process's own certificate; what follows in the file are its issuers. Empty when there is none."""
    text = chain.decode("ascii", "ignore")
    begin, end = text.find(_BEGIN), text.find(_END)
    return text[begin:end] + _END + "\n" if 0 <= begin < end else ""


def _proving(paths: PemPaths, protocol: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    try:
        context.load_cert_chain(paths.cert, paths.key)
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "reason", None) or error
        raise ConfigError(
            f"{paths.key_setting} {paths.key} is not the key of the certificate in {paths.cert_setting} {paths.cert} ({why})"
        ) from error
    return context


def _trusting(protocol: ssl._SSLMethod, trusted: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=trusted)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _shake(
    paths: PemPaths, server: ssl.SSLContext, client: ssl.SSLContext, host: str
) -> tuple[dict[str, object], dict[str, object]]:
    """Returns the certificates that each end saw: (server's, client's). Empty where an end did not look."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_end = client.wrap_bio(to_client, to_server, server_hostname=host or None)
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client_end, server_end]
    for _ in range(_ROUNDS):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                raise _explain(paths, error, host) from error
    return dict(client_end.getpeercert() or {}), dict(server_end.getpeercert() or {})


def _explain(paths: PemPaths, error: ssl.SSLError, host: str) -> ConfigError:
    certificate = f"the certificate in {paths.cert_setting} {paths.cert}"
    code = getattr(error, "verify_code", 0)
    if code in _EXPIRED:
        return ConfigError(f"{certificate}, or its CA, has expired: renew it")
    if code in _NOT_YET_VALID:
        return ConfigError(f"{certificate} is not valid yet: look at this machine's clock")
    if code in _NOT_SIGNED:
        return ConfigError(f"{certificate} is not signed by {paths.ca_setting} {paths.ca}")
    if code in _WRONG_PURPOSE:
        return ConfigError(
            f"{certificate} lacks an extended key usage: server auth for those who are dialled, client auth for those who dial"
        )
    if code in _HOST_MISMATCH:
        return ConfigError(f"{certificate} does not hold the name {host}, under which this process is dialled")
    why = getattr(error, "verify_message", "") or error.reason or error
    return ConfigError(f"{certificate} cannot be used ({why})")
