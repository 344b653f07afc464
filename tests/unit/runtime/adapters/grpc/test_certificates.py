"""What a certificate says, as the X.509 parser reads it."""

from __future__ import annotations

from base64 import encodebytes
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from oncelog.errors import AuthenticationError
from oncelog_runtime.adapters.grpc.certificates import facts_of


def certificate(*attributes: tuple[x509.ObjectIdentifier, str], names: list[x509.GeneralName]) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, now, now + timedelta(hours=1))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_attributes_and_alternative_names_by_field() -> None:
    pem = certificate(
        (NameOID.COMMON_NAME, "bob,CN=root"),
        (NameOID.ORGANIZATION_NAME, "a=b"),
        (NameOID.COMMON_NAME, "second"),
        names=[x509.UniformResourceIdentifier("spiffe://shop/a"), x509.DNSName("a.b"), x509.DNSName("c.d")],
    )
    facts = facts_of(pem)
    assert facts.of("cn") == ("bob,CN=root", "second")
    assert facts.of("o") == ("a=b",)
    assert facts.of("uri") == ("spiffe://shop/a",)
    assert facts.of("dns") == ("a.b", "c.d")


def test_a_certificate_without_alternative_names() -> None:
    facts = facts_of(certificate((NameOID.COMMON_NAME, "bob"), names=[]))
    assert facts.of("uri") == facts.of("dns") == ()


@pytest.mark.parametrize("pem", [b"", b"x", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate(pem: bytes) -> None:
    with pytest.raises(AuthenticationError):
        facts_of(pem)


def test_a_certificate_of_no_version_is_refused_by_name() -> None:
    der = x509.load_pem_x509_certificate(certificate((NameOID.COMMON_NAME, "bob"), names=[])).public_bytes(
        serialization.Encoding.DER
    )
    version = b"\xa0\x03\x02\x01"
    at = der.index(version) + len(version)
    wrong = der[:at] + b"\x01" + der[at + 1 :]
    pem = b"-----BEGIN CERTIFICATE-----\n" + encodebytes(wrong) + b"-----END CERTIFICATE-----\n"
    with pytest.raises(AuthenticationError, match="cannot be read"):
        facts_of(pem)
