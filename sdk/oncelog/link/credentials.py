"""The credentials of a client: a bearer token, or a user's password.

Rule 1: a token is fetched again for each new link: from the file, from the provider; so a renewed one is used as soon as a
        link needs one, and a link whose token expires is replaced without a failed call.
Rule 2: neither token nor password goes over a connection that others can read: without TLS they go to this machine alone.
Rule 3: they stand in no repr, no log line and no error.
"""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import secrets
from pathlib import Path

from oncelog import errors
from oncelog.config import ClientConfig, TokenProvider
from oncelog.core.scram import MECHANISM, ScramClient, salted

TOKEN_BYTES_MAX = 12 << 10


class Credentials:
    """At most one of token, token file, provider, and user with password."""

    def __init__(
        self,
        token: str = "",
        token_file: str = "",
        token_provider: TokenProvider | None = None,
        username: str = "",
        password: str = "",
    ) -> None:
        self._token = token
        self._token_file = token_file
        self._provider = token_provider
        self.username = username
        self._password = password
        self._salted: tuple[bytes, int, bytes] | None = None

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r})" if self.username else "Credentials(token)"

    @property
    def mechanism(self) -> str:
        """The mechanism of the password exchange; empty without a password."""
        return MECHANISM if self.username else ""

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the metadata of a new link, which holds its token. Raises `AuthenticationError` when there is none."""
        if self.username:
            return ()
        return (("authorization", f"Bearer {await self._new_token()}"),)

    async def _new_token(self) -> str:
        token = self._token
        if self._token_file:
            token = await asyncio.to_thread(self._read)
        elif self._provider is not None:
            token = await self._ask(self._provider)
        token = token.strip()
        if not token or len(token) > TOKEN_BYTES_MAX or not token.isascii() or not token.isprintable() or " " in token:
            where = self._token_file or ("token_provider" if self._provider is not None else "the option token")
            raise errors.AuthenticationError(f"{where} holds no token")
        return token

    def _read(self) -> str:
        try:
            with Path(self._token_file).open("rb") as file:
                return file.read(TOKEN_BYTES_MAX + 1).decode("ascii", "replace")
        except OSError as error:
            raise errors.AuthenticationError(f"token_file {self._token_file}: {error.strerror}") from None

    @staticmethod
    async def _ask(provider: TokenProvider) -> str:
        """In a thread, for it may call an issuer."""
        try:
            given = await asyncio.to_thread(provider)
            answer = await given if inspect.isawaitable(given) else given
        except Exception as error:
            raise errors.AuthenticationError(f"token_provider failed: {type(error).__name__}") from error
        if not isinstance(answer, str):
            raise errors.AuthenticationError("token_provider returned no text")
        return answer

    def exchange(self) -> ScramClient:
        """A password exchange of one link."""
        return ScramClient(self.username, secrets.token_urlsafe(18))

    async def salted(self, salt: bytes, iterations: int) -> bytes:
        """The password with its salt; worked out once, off the loop."""
        known = self._salted
        if known is None or known[:2] != (salt, iterations):
            known = (salt, iterations, await asyncio.to_thread(salted, self._password, salt, iterations))
            self._salted = known
        return known[2]


def check_way(address: str, *, is_tls: bool) -> None:
    """Raises `AuthenticationError` where a secret would go in plain text over a network."""
    if is_tls or is_this_machine(address):
        return
    raise errors.AuthenticationError(
        f"a token or password is sent over TLS alone, and the way to {address} is plaintext: "
        "use security_protocol SSL and ssl_cafile",
        address=address,
    )


def is_this_machine(address: str) -> bool:
    """The host of an address is the loopback."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def credentials_of(config: ClientConfig) -> Credentials | None:
    """None: the client says who it is by its certificate, or not at all."""
    password = config.password
    if config.password_file:
        try:
            password = Path(config.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise errors.ConfigError(f"password_file {config.password_file}: {reason}") from None
    if config.username:
        return Credentials(username=config.username, password=password)
    if config.token or config.token_file or config.token_provider is not None:
        return Credentials(config.token, config.token_file, config.token_provider)
    return None
