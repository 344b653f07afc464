"""A handshake that fails says what to change; the words of gRPC below are those that it was seen to say (1.85)."""

from __future__ import annotations

import pytest

from oncelog.link.grpc_tls import TlsHints, explain_handshake
from oncelog.link.tls_check import PemPaths

WHERE = "b:9092"
TRUSTING = PemPaths(ca="/ca.crt")
KNOWN = PemPaths(cert="/me.crt", key="/me.key", ca="/ca.crt")
LAST = "failed to connect to all addresses; last error: "
SSL_FAULT = LAST + "UNKNOWN: ipv4:127.0.0.1:1: Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:"
ENDED = LAST + "UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed"
NAMES = (
    LAST
    + "UNKNOWN: ipv4:127.0.0.1:1: Custom verification check failed with error: "
    + "UNAUTHENTICATED: Hostname Verification Check failed."
)
OLD_NAMES = LAST + "UNKNOWN: ipv4:127.0.0.1:1: Peer name localhost is not in peer certificate"  # 1.76
NO_ISSUER = (
    SSL_FAULT
    + "1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate: OK"
)
EXPIRED = SSL_FAULT + "1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired: OK"
EARLY = SSL_FAULT + "1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate is not yet valid: OK"
ALERT = SSL_FAULT + "10000412:SSL routines:OPENSSL_internal:SSLV3_ALERT_BAD_CERTIFICATE: OK"
PLAIN = (
    SSL_FAULT + "100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER: Invalid certificate verification context"
)


@pytest.mark.parametrize(
    ("details", "paths", "certain", "says"),
    [
        (NAMES, TRUSTING, True, "the certificate of b:9092 does not hold this name: dial a name that stands in it"),
        (OLD_NAMES, TRUSTING, True, "the certificate of b:9092 does not hold this name: dial a name that stands in it"),
        (NO_ISSUER, TRUSTING, True, "is not signed by ssl_cafile /ca.crt: give the CA of this cluster"),
        (NO_ISSUER, PemPaths(), True, "is not signed by a public CA (ssl_cafile is not set): give the CA"),
        (EXPIRED, TRUSTING, True, "the certificate of b:9092 has expired: renew it there"),
        (EARLY, TRUSTING, True, "is not valid yet: compare the clocks"),
        (PLAIN, TRUSTING, True, "b:9092 does not speak TLS: name its TLS port, or use security_protocol PLAINTEXT"),
        (ALERT, TRUSTING, True, "if it wants a client certificate, give one in ssl_certfile"),
        (ENDED, TRUSTING, False, "if it wants a client certificate, give one in ssl_certfile"),
        (ENDED, KNOWN, False, "if it wants a client certificate, ssl_certfile /me.crt is not of its CA"),
        (ENDED, None, False, "if it listens with TLS, use security_protocol SSL and ssl_cafile"),
    ],
)
def test_each_fault_has_a_sentence_with_the_fix(details: str, paths: PemPaths | None, certain: bool, says: str) -> None:
    failure = explain_handshake(WHERE, details, paths)
    assert failure is not None
    assert says in failure.sentence
    assert failure.certain == certain


def test_other_failures_are_none_of_its_business() -> None:
    refused = LAST + "UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused"
    assert explain_handshake(WHERE, refused, KNOWN) is None
    assert explain_handshake(WHERE, refused, None) is None


def test_services_are_told_their_own_settings() -> None:
    failure = explain_handshake(WHERE, ENDED, None, TlsHints("set tls_cert_file", ""))
    assert failure is not None
    assert failure.sentence.endswith("if it listens with TLS, set tls_cert_file")
