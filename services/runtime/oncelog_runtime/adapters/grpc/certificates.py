"""Reads a peer's certificate with the X.509 parser of `cryptography`. TLS has verified it already."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from oncelog.errors import AuthenticationError
from oncelog_runtime.core.security.certificate_rules import CertificateFacts

_ATTRIBUTES: Final = {
    "cn": NameOID.COMMON_NAME,
    "ou": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "o": NameOID.ORGANIZATION_NAME,
}
_UNREADABLE: Final = (x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType)
_KEPT: Final = 1_024
_known: OrderedDict[bytes, CertificateFacts] = OrderedDict()


def facts_of(pem: bytes) -> CertificateFacts:
    """Returns the facts of a certificate, from a cache: each unary call sends its own. Raises `AuthenticationError`."""
    found = _known.get(pem)
    if found is None:
        found = _known[pem] = _read(pem)
        if len(_known) > _KEPT:
            _known.popitem(last=False)
    return found


def _read(pem: bytes) -> CertificateFacts:
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        values = {
            name: tuple(str(item.value) for item in certificate.subject.get_attributes_for_oid(oid))
            for name, oid in _ATTRIBUTES.items()
        }
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return CertificateFacts(values)
        values["uri"] = tuple(names.get_values_for_type(x509.UniformResourceIdentifier))
        values["dns"] = tuple(names.get_values_for_type(x509.DNSName))
    except (ValueError, TypeError, *_UNREADABLE) as error:
        raise AuthenticationError("the certificate cannot be read") from error
    return CertificateFacts(values)
