"""A certificate authority for tests, and files that its certificates stand in."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from oncelog.link.tls_check import PemPaths

HOUR = timedelta(hours=1)


class Authority:
    """`issue` writes NAME.crt and NAME.key beside ca.crt; a second `issue` of the same name is a renewal."""

    def __init__(self, folder: Path, ca_name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.ca_path = folder / f"{ca_name}.crt"
        self.ca_path.write_bytes(self._ca.cert_pem.bytes())

    def child(self, folder: Path) -> Authority:
        """An intermediate authority; who trusts this one trusts it too."""
        other = Authority.__new__(Authority)
        other._ca, other._folder, other.ca_path = self._ca.create_child_ca(), folder, self.ca_path
        return other

    def pem(self, *names: str, **options: Any) -> tuple[bytes, bytes]:
        """(certificate chain, key) that nobody has written anywhere."""
        issued = self._ca.issue_cert(*names, **options)
        return b"".join(pem.bytes() for pem in issued.cert_chain_pems), issued.private_key_pem.bytes()

    def issue(self, name: str, *names: str, expires_in: timedelta | None = None) -> PemPaths:
        """`names` are hosts and addresses that the certificate holds. `expires_in` may be negative."""
        options: dict[str, Any] = {}
        if expires_in is not None:
            now = datetime.now(UTC)
            options = {"not_before": now + min(expires_in, timedelta()) - HOUR, "not_after": now + expires_in}
        cert, key = self.pem(*names, **options)
        paths = PemPaths(str(self._folder / f"{name}.crt"), str(self._folder / f"{name}.key"), str(self.ca_path))
        Path(paths.cert).write_bytes(cert)
        Path(paths.key).write_bytes(key)
        return paths


OneUse = Literal["server", "client", "both", "unsaid"]


def purpose(folder: Path, allowed: OneUse) -> PemPaths:
    """A certificate whose extended key usage allows only this."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a CA")])
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a node")])
    now = datetime.now(UTC)

    def signed(subject: x509.Name, public: ec.EllipticCurvePublicKey, extension: x509.ExtensionType | None) -> bytes:
        builder = x509.CertificateBuilder(ca_name, subject, public, 1, now - HOUR, now + HOUR)
        if extension is not None:
            builder = builder.add_extension(extension, critical=True)
        return builder.sign(ca_key, hashes.SHA256()).public_bytes(Encoding.PEM)

    usages = {
        "server": [ExtendedKeyUsageOID.SERVER_AUTH],
        "client": [ExtendedKeyUsageOID.CLIENT_AUTH],
        "both": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
        "unsaid": [],
    }[allowed]
    paths = PemPaths(str(folder / "one.crt"), str(folder / "one.key"), str(folder / "one-ca.crt"))
    Path(paths.ca).write_bytes(signed(ca_name, ca_key.public_key(), x509.BasicConstraints(ca=True, path_length=None)))
    Path(paths.cert).write_bytes(signed(name, key.public_key(), x509.ExtendedKeyUsage(usages) if usages else None))
    Path(paths.key).write_bytes(
        key.private_bytes(Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


def trusting_only(paths: PemPaths) -> PemPaths:
    """The CA without a certificate of one's own."""
    return dataclasses.replace(paths, cert="", key="")
