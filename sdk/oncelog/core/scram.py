"""SCRAM (RFC 5802) with SHA-512, both ends: a user proves a password, a server proves that it knows the user.

Rule 1: the password stays where it was typed. What is stored proves a password and cannot be used as one.
Rule 2: both prove, in this order: the caller shows nothing that helps a server that does not know the user already.
Rule 3: a message is taken apart as the RFC writes it; anything else, and any proof that does not fit, is one and the same
        `AuthenticationError`, so that a stranger does not learn which names are users.
Rule 4: the caller refuses fewer iterations than `ITERATIONS_MIN` and more than `ITERATIONS_MAX`: a false server can
        neither get a cheap hash to guess at nor keep the caller busy.

No channel binding: inside TLS the server's certificate says who it is.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from typing import Final

from oncelog.errors import AuthenticationError, ConfigError

MECHANISM: Final = "SCRAM-SHA-512"
ITERATIONS: Final = 65_536
"""The iterations for new passwords."""
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 1_000_000
SALT_BYTES: Final = 16
KEY_BYTES: Final = 64
USER_CHARACTERS_MAX: Final = 256
_MESSAGE_BYTES_MAX: Final = 4_096
_HASH: Final = "sha512"
_NO_BINDING: Final = "n,,"
_REFUSED: Final = "user or password is wrong"


@dataclass(frozen=True, slots=True)
class Credential:
    """The part of a password that is stored."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def make_credential(password: str, salt: bytes, iterations: int = ITERATIONS) -> Credential:
    """Takes a tenth of a second."""
    keys = _keys(salted(password, salt, iterations))
    return Credential(salt, iterations, *keys)


def salted(password: str, salt: bytes, iterations: int) -> bytes:
    """The slow step."""
    return hashlib.pbkdf2_hmac(_HASH, unicodedata.normalize("NFKC", password).encode(), salt, iterations)


def check_user_name(name: str) -> str:
    """Returns it; raises `ConfigError`."""
    fits = 0 < len(name) <= USER_CHARACTERS_MAX and name.isprintable() and name == name.strip() and "*" not in name
    if not fits:
        raise ConfigError(
            f"a user name is 1-{USER_CHARACTERS_MAX} printable characters without *, and no blank at an end",
            given=ascii(name[:64]),
        )
    return name


def _keys(salted_password: bytes) -> tuple[bytes, bytes]:
    """(stored key, server key)"""
    stored = hashlib.sha512(_hmac(salted_password, b"Client Key")).digest()
    return stored, _hmac(salted_password, b"Server Key")


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, _HASH)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


# ---------------------------------------------------------------- messages


def _fields(message: bytes, names: str) -> list[str]:
    """The values of `a=..,b=..`, which must have just these names in this order. Raises `AuthenticationError`."""
    if len(message) > _MESSAGE_BYTES_MAX:
        raise AuthenticationError("a message of the password exchange is too long")
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise AuthenticationError("a message of the password exchange is no text") from None
    if len(parts) != len(names) or any(part[:2] != f"{name}=" for part, name in zip(parts, names, strict=True)):
        raise AuthenticationError("a message of the password exchange has another form than RFC 5802 says")
    return [part[2:] for part in parts]


def _bytes_of(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise AuthenticationError("a message of the password exchange is no base64") from None


def _text_of(data: bytes) -> str:
    return b64encode(data).decode()


def _quoted(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unquoted(text: str) -> str:
    if "=" in text.replace("=2C", "").replace("=3D", ""):
        raise AuthenticationError(_REFUSED)
    return text.replace("=2C", ",").replace("=3D", "=")


# ---------------------------------------------------------------- the caller


class ScramClient:
    """One exchange of the caller. `nonce`: at least 16 random characters, without commas."""

    def __init__(self, user: str, nonce: str) -> None:
        self._nonce = nonce
        self._first_bare = f"n={_quoted(user)},r={nonce}"
        self._auth_message = b""
        self._server_key = b""

    def first(self) -> bytes:
        """The first message."""
        return (_NO_BINDING + self._first_bare).encode()

    def challenge(self, server_first: bytes) -> tuple[bytes, int]:
        """(salt, iterations) for `salted`. Raises `AuthenticationError`."""
        nonce, salt, iterations = _fields(server_first, "rsi")
        if not nonce.startswith(self._nonce) or len(nonce) < len(self._nonce) + 16:
            raise AuthenticationError("the server answered another password exchange")
        if not iterations.isascii() or not iterations.isdecimal() or len(iterations) > 9:
            raise AuthenticationError("the server's number of iterations is no number")
        if not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise AuthenticationError("the server asks for too few or too many iterations", iterations=iterations)
        return _bytes_of(salt), int(iterations)

    def final(self, server_first: bytes, salted_password: bytes) -> bytes:
        """The proof."""
        nonce = _fields(server_first, "rsi")[0]
        without_proof = f"c={_text_of(_NO_BINDING.encode())},r={nonce}"
        self._auth_message = b",".join((self._first_bare.encode(), server_first, without_proof.encode()))
        stored_key, self._server_key = _keys(salted_password)
        proof = _xor(_hmac(salted_password, b"Client Key"), _hmac(stored_key, self._auth_message))
        return f"{without_proof},p={_text_of(proof)}".encode()

    def check(self, server_final: bytes) -> None:
        """Raises `AuthenticationError` unless the server knows the user."""
        (signature,) = _fields(server_final, "v")
        if not hmac.compare_digest(_bytes_of(signature), _hmac(self._server_key, self._auth_message)):
            raise AuthenticationError("the server does not know this user: it may be a false one")


# ---------------------------------------------------------------- the server


class ScramServer:
    """One exchange of the server. `nonce` as `ScramClient`'s."""

    def __init__(self, nonce: str) -> None:
        self._own_nonce = nonce
        self._first_bare = b""
        self._server_first = b""
        self._nonce = ""

    def user(self, client_first: bytes) -> str:
        """Returns the name of the user that wants to prove a password. Raises `AuthenticationError`."""
        if not client_first.startswith(_NO_BINDING.encode()):
            raise AuthenticationError("a message of the password exchange has another form than RFC 5802 says")
        self._first_bare = client_first[len(_NO_BINDING) :]
        name, nonce = _fields(self._first_bare, "nr")
        if len(nonce) < 16 or not nonce.isascii() or not nonce.isprintable():
            raise AuthenticationError("the caller's nonce is too short, or no printable text")
        self._nonce = nonce + self._own_nonce
        return _unquoted(name)

    def first(self, salt: bytes, iterations: int) -> bytes:
        """The challenge."""
        self._server_first = f"r={self._nonce},s={_text_of(salt)},i={iterations}".encode()
        return self._server_first

    def final(self, client_final: bytes, credential: Credential | None) -> bytes:
        """The server's own proof. Raises `AuthenticationError` for a wrong password; None: there is no such user."""
        binding, nonce, proof = _fields(client_final, "crp")
        if binding != _text_of(_NO_BINDING.encode()) or not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise AuthenticationError("a message of the password exchange belongs to another one")
        without_proof = f"c={binding},r={nonce}".encode()
        message = b",".join((self._first_bare, self._server_first, without_proof))
        stored = credential.stored_key if credential is not None else bytes(KEY_BYTES)
        given = _bytes_of(proof)
        if len(given) != KEY_BYTES:
            raise AuthenticationError(_REFUSED)
        client_key = _xor(given, _hmac(stored, message))
        fits = hmac.compare_digest(hashlib.sha512(client_key).digest(), stored)
        if not fits or credential is None:
            raise AuthenticationError(_REFUSED)
        return f"v={_text_of(_hmac(credential.server_key, message))}".encode()


def decoy_salt(secret: bytes, name: str) -> bytes:
    """Returns the salt for a name that is no user: the same one each time, as a user's would be."""
    return _hmac(secret, b"no such user:" + name.encode())[:SALT_BYTES]
