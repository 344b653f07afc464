"""What says who somebody is: tokens, key sets, passwords' messages, certificates, names."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from random import Random
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ed25519

from oncelog.core import scram
from oncelog.core.names import check_group_id, check_topic_name, check_transactional_id
from oncelog.core.scram import Credential, ScramClient, ScramServer, make_credential, salted
from oncelog.errors import AuthenticationError, ConfigError, OncelogError, TokenExpiredError
from oncelog_runtime.adapters.grpc.certificates import _read
from oncelog_runtime.adapters.grpc.token_keys import keys_of
from oncelog_runtime.adapters.grpc.tokens import TokenVerifier
from oncelog_runtime.core.security.acl import (
    Acl,
    Operation,
    PatternType,
    ResourceType,
    acl_of,
    check_host,
    check_principal,
)
from oncelog_runtime.core.security.certificate_rules import (
    DEFAULT_RULES,
    CertificateFacts,
    parse_rules,
    principal_of,
    service_methods,
)
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.serving.session_tokens import SessionTokens
from tests.fuzz.target import Target, add

# ---------------------------------------------------------------- tokens

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
"""Its signatures are the same each time."""
NOW_MS = 1_800_000_000_000
PUBLIC: dict[str, Any] = {**jwt.algorithms.OKPAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k1"}


class _Keys:
    """The issuer's set, without a file."""

    def __init__(self) -> None:
        self._key = jwt.PyJWK(PUBLIC)

    def has(self, key_id: str, _key: jwt.PyJWK) -> bool:
        return key_id == "k1"

    async def find(self, key_id: str) -> jwt.PyJWK | None:
        return self._key if key_id == "k1" else None


class _Clock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return 0


def token(data: bytes) -> object:
    """As a broker is shown it. The claims of the one principal that comes out were signed."""
    verifier = TokenVerifier(_Keys(), _Clock(), "https://issuer", "oncelog")  # type: ignore[arg-type]
    verified = asyncio.run(verifier.verify(data.decode("latin-1")))
    assert verified.principal.startswith("User:")
    return verified


def _signed(claims: Any, **header: Any) -> bytes:
    head = json.dumps({"alg": "EdDSA", "kid": "k1", "typ": "JWT", **header}).encode()
    given = _b64(head) + b"." + _b64(claims if isinstance(claims, bytes) else json.dumps(claims).encode())
    return given + b"." + _b64(KEY.sign(given))


def _b64(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def tokens() -> Iterator[bytes]:
    claims = {"iss": "https://issuer", "aud": "oncelog", "sub": "ann", "exp": 4_000_000_000}
    yield _signed(claims)
    yield _signed({**claims, "aud": ["oncelog", "x"], "nbf": 1, "iat": 1, "jti": "x"})
    yield _signed({**claims, "exp": 1})
    yield _signed(claims, crit=["exp"])


def mend_token(data: bytes, random: Random) -> bytes:
    """What was mutated is signed, as an issuer might that we trust and that is broken; or the claims themselves are turned."""
    parts = data.split(b".")
    if len(parts) < 2:
        return data
    try:
        claims = urlsafe_b64decode(parts[1] + b"==")
    except ValueError:
        claims = parts[1]
    if random.random() < 0.7 and claims:
        from tests.fuzz.mutate import Mutator

        claims = Mutator(random, (b'"exp":', b'"sub":', b'"aud":', b"4000000000"), 8_000).mutated(claims, [claims])
    return _signed(claims)


add(
    Target(
        "token",
        token,
        (AuthenticationError, TokenExpiredError),
        tokens,
        mend=mend_token,
        words=(b".", b"eyJhbGciOiJub25lIn0"),
    )
)


def key_set(data: bytes) -> object:
    """What an issuer publishes."""
    found = keys_of(data)
    assert all(isinstance(name, str) and name for name in found)
    return found


def key_sets() -> Iterator[bytes]:
    rsa = {"kty": "RSA", "kid": "r", "alg": "RS256", "use": "sig", "e": "AQAB", "n": "x" * 342}
    curve = {"kty": "EC", "kid": "e", "crv": "P-256", "x": "A" * 43, "y": "A" * 43}
    yield json.dumps({"keys": [PUBLIC]}).encode()
    yield json.dumps({"keys": [PUBLIC, rsa, curve, {"kty": "oct", "k": "x"}]}).encode()


add(
    Target(
        "key_set",
        key_set,
        (ValueError,),
        key_sets,
        words=(b'"kty":"RSA"', b'"n":', b'"kid":', b'"crv":"P-521"', b'"d":'),
    )
)


def session_token(data: bytes) -> object:
    """Of a producer, of a session, and where no epoch is named."""
    view = ClusterView()
    view.session_key = bytes(32)
    tokens = SessionTokens(view, required=True)
    good = [tokens.of_producer(7), tokens.of_session("t", 7, 0)]
    for check in (
        lambda: tokens.require_producer(7, data),
        lambda: tokens.require_session("t", 7, 0, data),
        lambda: tokens.require_any_session("t", 7, data),
    ):
        try:
            check()
        except OncelogError:
            continue
        assert data in good or data == tokens.of_session("t", 7, int.from_bytes(data[:4], "big", signed=True))
    return f"{data in good} {len(data)}"


def session_tokens() -> Iterator[bytes]:
    view = ClusterView()
    view.session_key = bytes(32)
    made = SessionTokens(view, required=True)
    yield made.of_producer(7)
    yield made.of_session("t", 7, 0)


add(Target("session_token", session_token, (), session_tokens))


# ---------------------------------------------------------------- passwords

CREDENTIAL: Credential = make_credential("pencil", b"0123456789abcdef", 4_096)
SALTED = salted("pencil", b"0123456789abcdef", 4_096)
NONCE = "n" * 24


def scram_server(data: bytes) -> object:
    """Both messages of a caller, one after the other; NUL between them."""
    first, _, final = data.partition(b"\0")
    server = ScramServer("s" * 24)
    name = server.user(first)
    server.first(CREDENTIAL.salt, CREDENTIAL.iterations)
    proof = server.final(final, CREDENTIAL if name == "ann" else None)
    assert name == "ann", "nobody else has a password"
    return proof


def scram_servers() -> Iterator[bytes]:
    client, server = ScramClient("ann", NONCE), ScramServer("s" * 24)
    server.user(client.first())
    challenge = server.first(CREDENTIAL.salt, CREDENTIAL.iterations)
    yield client.first() + b"\0" + client.final(challenge, SALTED)
    yield b"n,,n=a=2Cb=3D,r=" + NONCE.encode() + b"\0c=biws,r=x,p=AAAA"


add(
    Target(
        "scram_server",
        scram_server,
        (AuthenticationError,),
        scram_servers,
        words=(b"n,,", b"c=biws,", b",r=", b",p=", b"=2C"),
    )
)


def scram_client(data: bytes) -> object:
    """Both messages of a server; a false one may not keep us busy."""
    first, _, final = data.partition(b"\0")
    client = ScramClient("ann", NONCE)
    client.first()
    salt, iterations = client.challenge(first)
    assert scram.ITERATIONS_MIN <= iterations <= scram.ITERATIONS_MAX
    assert isinstance(salt, bytes)
    client.final(first, SALTED)
    client.check(final)
    return salt


def scram_clients() -> Iterator[bytes]:
    client, server = ScramClient("ann", NONCE), ScramServer("s" * 24)
    server.user(client.first())
    challenge = server.first(CREDENTIAL.salt, CREDENTIAL.iterations)
    yield challenge + b"\0" + server.final(client.final(challenge, SALTED), CREDENTIAL)


add(
    Target(
        "scram_client",
        scram_client,
        (AuthenticationError,),
        scram_clients,
        words=(b"i=4096", b",s=", b"r=", b"v=", b"m=x,"),
    )
)


# ---------------------------------------------------------------- certificates and names

PEM = b"""-----BEGIN CERTIFICATE-----
%s
-----END CERTIFICATE-----
"""
RULES = parse_rules(DEFAULT_RULES, "principal_rules")


def certificate(data: bytes) -> object:
    """The DER of a certificate that TLS let through, and whom it names."""
    from base64 import encodebytes

    facts = _read(PEM % encodebytes(data).strip())
    service_methods(facts, RULES)
    return len(principal_of(facts, RULES))


def certificates() -> Iterator[bytes]:
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    when = datetime(2030, 1, 1, tzinfo=UTC)
    name = x509.Name(
        [x509.NameAttribute(x509.NameOID.COMMON_NAME, "a"), x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "b")]
    )
    names = x509.SubjectAlternativeName(
        [x509.UniformResourceIdentifier("spiffe://shop/ns/a/sa/b"), x509.DNSName("a.b")]
    )
    plain = x509.CertificateBuilder(name, name, KEY.public_key(), 7, when, when)
    yield plain.sign(KEY, None).public_bytes(Encoding.DER)
    yield plain.add_extension(names, critical=False).sign(KEY, None).public_bytes(Encoding.DER)


add(Target("certificate", certificate, (AuthenticationError,), certificates, max_bytes=4_000))


def certificate_rules(data: bytes) -> object:
    """What an operator writes, against what a caller may show. A pattern that takes for ever is refused before it is used."""
    text, _, value = data.decode("utf-8", "replace").partition("\0")
    rules = parse_rules(text, "principal_rules")
    return principal_of(CertificateFacts({"uri": (value,), "cn": (value, value)}), rules)


def certificate_ruleses() -> Iterator[bytes]:
    yield DEFAULT_RULES.encode() + b"\0spiffe://shop/ns/a/sa/b"
    yield b"uri:spiffe://shop/ns/([^/]+)/sa/(.+)=>$1-$2; cn:(.+)=>$1\0spiffe://shop/ns/a/sa/web"


add(
    Target(
        "certificate_names",
        lambda data: len(principal_of(_facts(data), RULES)),
        (AuthenticationError,),
        lambda: [b"spiffe://shop/ns/a/sa/b\0a.b\0root", b"\0a\0b", b"\xff"],
        words=(b"spiffe://", b"User:", b"\0", b"*"),
    )
)


def _facts(data: bytes) -> CertificateFacts:
    uri, dns, cn = (*data.decode("utf-8", "replace").split("\0"), "", "")[:3]
    return CertificateFacts({"uri": (uri,) if uri else (), "dns": (dns,) if dns else (), "cn": (cn,)})


def rule_syntax(data: bytes) -> object:
    """Rules as an operator writes them: understood, or refused at the start."""
    return parse_rules(data.decode("utf-8", "replace"), "principal_rules")


add(
    Target(
        "certificate_rules",
        rule_syntax,
        (ConfigError,),
        certificate_ruleses,
        words=(b"=>", b"$9", b"(", b"uri:", b";", b"["),
    )
)


def names(data: bytes) -> object:
    """Of topics, groups, transactional ids, principals, hosts."""
    text = data.decode("utf-8", "surrogatepass" if b"\xed" in data else "replace")
    taken, refusals = [], []
    for check in (check_topic_name, check_group_id, check_transactional_id, check_principal, check_host):
        try:
            assert check(text) == text or check is check_host
            taken.append(check.__name__)
        except OncelogError as error:
            refusals.append(str(error))
    assert all(refusal.isprintable() for refusal in refusals)
    if taken and "check_host" not in taken:
        assert text.isprintable()
    if "check_topic_name" in taken:
        assert "/" not in text
        assert text not in (".", "..")
    return taken


add(
    Target(
        "names",
        names,
        (UnicodeDecodeError,),
        lambda: [b"orders", b"User:ann", b"10.0.0.1", b"::1", b"User:*", b"a" * 249, "caf\u00e9".encode()],
        words=(b"User:", b"\xed\xa0\x80", b"\xe2\x80\xae", b".."),
    )
)


def rule_values(data: bytes) -> object:
    """A rule of access as a mapping."""
    values = json.loads(data)
    return acl_of(values)


add(
    Target(
        "access_rule",
        rule_values,
        (OncelogError, ValueError, KeyError, TypeError, AttributeError, RecursionError),
        lambda: [
            json.dumps(Acl("User:a", ResourceType.TOPIC, PatternType.LITERAL, "x", Operation.READ).as_dict()).encode()
        ],
    )
)
