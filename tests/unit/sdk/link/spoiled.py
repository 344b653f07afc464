"""Files of TLS that cannot work, and what is said of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from oncelog.link.tls_check import PemPaths
from tests.certificates import HOUR, Authority


def garbage(name: str) -> Callable[[PemPaths, Authority], None]:
    return lambda paths, _: Path(getattr(paths, name)).write_text("nothing of use")


def remove(name: str) -> Callable[[PemPaths, Authority], None]:
    return lambda paths, _: Path(getattr(paths, name)).unlink()


def another_key(paths: PemPaths, authority: Authority) -> None:
    Path(paths.key).write_bytes(authority.pem("node.example")[1])


def another_ca(paths: PemPaths, _authority: Authority) -> None:
    Path(paths.ca).write_bytes(Authority(Path(paths.ca).parent, "other").ca_path.read_bytes())


def expired(paths: PemPaths, authority: Authority) -> None:
    authority.issue("node", "node.example", expires_in=-HOUR)


def broken_ca(paths: PemPaths, _authority: Authority) -> None:
    Path(paths.ca).write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


def encrypted(paths: PemPaths, _authority: Authority) -> None:
    Path(paths.key).write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")


FAULTS = [
    (remove("cert"), "ssl_certfile .*node.crt cannot be read: No such file"),
    (remove("key"), "ssl_keyfile .*node.key cannot be read: No such file"),
    (remove("ca"), "ssl_cafile .*ca.crt cannot be read: No such file"),
    (garbage("cert"), "ssl_certfile .*node.crt holds no PEM certificate"),
    (garbage("key"), "ssl_keyfile .*node.key holds no PEM private key"),
    (garbage("ca"), "ssl_cafile .*ca.crt is no PEM file of CA certificates"),
    (broken_ca, "ssl_cafile .*ca.crt is no PEM file of CA certificates"),
    (encrypted, "ssl_keyfile .*node.key is encrypted: a key without passphrase is needed"),
    (another_key, "ssl_keyfile .*node.key is not the key of the certificate in ssl_certfile .*node.crt"),
    (another_ca, "certificate in ssl_certfile .*node.crt is not signed by ssl_cafile .*ca.crt"),
    (expired, "certificate in ssl_certfile .*node.crt, or its CA, has expired: renew it"),
]
