"""A password is proved to a server that knows it, and to nobody else; nothing that travels helps to guess names."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core import scram
from oncelog.core.scram import Credential, ScramClient, ScramServer, make_credential, salted
from oncelog.errors import AuthenticationError, ConfigError

SALT, ROUNDS, C_NONCE, S_NONCE = b"0123456789abcdef", 4096, "c" * 20, "s" * 20
CREDENTIAL = make_credential("pencil", SALT, ROUNDS)


def talk(password: str, credential: Credential | None = CREDENTIAL, user: str = "ann") -> tuple[bytes, ...]:
    """All four messages. Raises what one side refuses."""
    client, server = ScramClient(user, C_NONCE), ScramServer(S_NONCE)
    first = client.first()
    assert server.user(first) == user
    challenge = server.first(SALT, ROUNDS)
    salt, rounds = client.challenge(challenge)
    final = client.final(challenge, salted(password, salt, rounds))
    proof = server.final(final, credential)
    client.check(proof)
    return first, challenge, final, proof


def test_the_messages_are_those_of_the_rfc() -> None:
    """Worked out here anew, step by step as RFC 5802, 3 writes them."""
    first, challenge, final, proof = talk("pencil")
    assert first == b"n,,n=ann,r=" + C_NONCE.encode()
    assert challenge == f"r={C_NONCE}{S_NONCE},s={b64encode(SALT).decode()},i=4096".encode()
    salted_password = hashlib.pbkdf2_hmac("sha512", b"pencil", SALT, 4096)
    client_key = hmac.new(salted_password, b"Client Key", "sha512").digest()
    message = b"n=ann,r=" + C_NONCE.encode() + b"," + challenge + f",c=biws,r={C_NONCE}{S_NONCE}".encode()
    signature = hmac.new(hashlib.sha512(client_key).digest(), message, "sha512").digest()
    client_proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    assert final == f"c=biws,r={C_NONCE}{S_NONCE},p={b64encode(client_proof).decode()}".encode()
    server_key = hmac.new(salted_password, b"Server Key", "sha512").digest()
    assert proof == b"v=" + b64encode(hmac.new(server_key, message, "sha512").digest())


def test_a_wrong_password_and_an_unknown_user_are_told_apart_by_nobody() -> None:
    with pytest.raises(AuthenticationError) as wrong:
        talk("pencils")
    with pytest.raises(AuthenticationError) as unknown:
        talk("pencil", None)
    assert str(wrong.value) == str(unknown.value)


def test_a_server_that_does_not_know_the_user_is_found_out() -> None:
    client, server = ScramClient("ann", C_NONCE), ScramServer(S_NONCE)
    server.user(client.first())
    challenge = server.first(SALT, ROUNDS)
    client.final(challenge, salted("pencil", SALT, ROUNDS))
    for proof in (b"v=" + b64encode(bytes(64)), b"v=", b"", b"e=other-error"):
        with pytest.raises(AuthenticationError):
            client.check(proof)


@pytest.mark.parametrize("name", ["ann", "a,b", "a=b", "=2C", "a,=3D", "\u00e4nn", "system:serviceaccount:a:b"])
def test_any_name_arrives_as_it_was(name: str) -> None:
    assert talk("pencil", user=name)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=MDEy,i=4096",
        b"r=%s,s=MDEy,i=4096" % C_NONCE.encode(),  # adds no randomness of its own
        b"r=%s%s,s=MDEy,i=1" % (C_NONCE.encode(), S_NONCE.encode()),
        b"r=%s%s,s=MDEy,i=999999999" % (C_NONCE.encode(), S_NONCE.encode()),
        b"r=%s%s,s=MDEy,i=-1" % (C_NONCE.encode(), S_NONCE.encode()),
        b"r=%s%s,s=M,i=4096" % (C_NONCE.encode(), S_NONCE.encode()),
        b"s=MDEy",
        b"",
        b"\xff",
        b"x" * 5000,
    ],
)
def test_a_challenge_that_is_refused(challenge: bytes) -> None:
    with pytest.raises(AuthenticationError):
        ScramClient("ann", C_NONCE).challenge(challenge)


@given(st.binary(max_size=80))
def test_no_bytes_of_a_caller_break_the_server(data: bytes) -> None:
    server = ScramServer(S_NONCE)
    for message in (data, b"n,," + data, b"n,,n=a,r=" + data):
        try:
            server.user(message)
        except AuthenticationError:
            continue
        server.first(SALT, ROUNDS)
        with pytest.raises(AuthenticationError):
            server.final(data, CREDENTIAL)


def test_a_proof_is_good_for_one_exchange() -> None:
    _, _, final, _ = talk("pencil")
    server = ScramServer("another nonce of it")
    server.user(ScramClient("ann", C_NONCE).first())
    server.first(SALT, ROUNDS)
    with pytest.raises(AuthenticationError):
        server.final(final, CREDENTIAL)


def test_a_name_without_user_has_a_salt_that_stays() -> None:
    assert scram.decoy_salt(b"k", "ann") == scram.decoy_salt(b"k", "ann") != scram.decoy_salt(b"k", "bob")
    assert len(scram.decoy_salt(b"k", "ann")) == scram.SALT_BYTES


def test_what_is_stored_shows_no_secret() -> None:
    shown = repr(CREDENTIAL)
    assert repr(CREDENTIAL.stored_key) not in shown
    assert repr(CREDENTIAL.server_key) not in shown


@pytest.mark.parametrize("name", ["", "a*", " a", "a\n", "a" * 257, "\x1b[1m"])
def test_names_that_no_user_has(name: str) -> None:
    with pytest.raises(ConfigError):
        scram.check_user_name(name)
