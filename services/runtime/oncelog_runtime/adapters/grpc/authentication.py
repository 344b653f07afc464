"""Identifies the caller of a link or of a unary call: by token, by password, by certificate, or as anonymous.

Rule 1: at the client and the external listener every caller has a principal: that of the token that it shows, else of
        the password that it proves, else of its certificate, else `User:ANONYMOUS`. Invalid credentials refuse the
        caller: they never make it anonymous.
Rule 2: at the internal listener only the certificate counts. With `service_rules` it identifies the service, and so the
        methods that it may call; without them every certificate of the CA may call all.
Rule 3: a link ends no later than the credentials it was opened with: when a token expires, a signing key is withdrawn,
        or a password is changed.
Rule 4: no header identifies a caller, except one `authorization`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from oncelog import errors
from oncelog.core.scram import ITERATIONS, MECHANISM, ScramServer, decoy_salt
from oncelog.ports import WallClock
from oncelog_runtime.adapters.grpc.server_context import Metadata, ServerContext
from oncelog_runtime.core.listeners import INTERNAL
from oncelog_runtime.core.security.acl import ANONYMOUS, USER
from oncelog_runtime.core.security.certificate_rules import (
    CertificateFacts,
    CertificateRule,
    principal_of,
    service_methods,
)
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.call_context import CallInfo

if TYPE_CHECKING:
    from oncelog_runtime.adapters.grpc.tokens import TokenVerifier

_BEARER: Final = "bearer "
_EARLY_MS: Final = 10_000
Exchange = Callable[[bytes], Awaitable[bytes]]
"""Sends the server's first message of a password exchange; returns (awaitable) the caller's final one."""


class Authentication:
    """Authenticates the callers of one process. `tokens` None: no issuer is configured. `authorizer` None: access rules
    are off, and only `service_rules` count.
    """

    def __init__(
        self,
        authorizer: Authorizer | None,
        clock: WallClock,
        principal_rules: tuple[CertificateRule, ...] = (),
        service_rules: tuple[CertificateRule, ...] = (),
        tokens: TokenVerifier | None = None,
    ) -> None:
        self._authorizer = authorizer
        self._clock = clock
        self._principal_rules = principal_rules
        self._service_rules = service_rules
        self._tokens = tokens
        self._decoy = secrets.token_bytes(32)

    # ------------------------------------------------------------ tokens and certificates

    async def caller(self, context: ServerContext, call: CallInfo) -> CallInfo:
        """Returns the call with its principal, by token or certificate. Raises `AuthenticationError`, or
        `TokenExpiredError`.
        """
        try:
            return await self._caller(context, call)
        except (errors.AuthenticationError, errors.TokenExpiredError) as error:
            self._refused(call, error)
            raise

    def _refused(self, call: CallInfo, error: errors.OncelogError) -> None:
        audit = self._authorizer.policy.audit if self._authorizer is not None else None
        if audit is not None:
            audit.unauthenticated(peer=call.peer, listener=call.listener, code=error.code.name, reason=error.message)

    async def _caller(self, context: ServerContext, call: CallInfo) -> CallInfo:
        if call.listener == INTERNAL:
            return self._service(context, call)
        if self._authorizer is None:
            return call
        self._authorizer.require_loaded()
        token = bearer_of(context.invocation_metadata() or ())
        if token is not None:
            return await self._by_token(token, call)
        facts = _facts(context)
        principal = ANONYMOUS if facts is None else principal_of(facts, self._principal_rules)
        return replace(call, access=self._authorizer.access(principal, host_of(call.peer)))

    def _service(self, context: ServerContext, call: CallInfo) -> CallInfo:
        access_of = self._authorizer.access if self._authorizer is not None else None
        methods = service_methods(_facts(context), self._service_rules) if self._service_rules else None
        return replace(call, access_of=access_of, methods=methods)

    async def _by_token(self, token: str, call: CallInfo) -> CallInfo:
        tokens, authorizer = self._tokens, self._authorizer
        assert authorizer is not None
        if tokens is None:
            raise errors.AuthenticationError("this cluster takes no tokens: jwt_issuer is not set")
        verified = await tokens.verify(token)

        def over() -> errors.OncelogError | None:
            return errors.TokenExpiredError() if tokens.is_over(verified) else None

        access = authorizer.access(verified.principal, host_of(call.peer))
        return replace(call, access=access, expires_ms=verified.expires_ms, over=over)

    # ------------------------------------------------------------ passwords

    def wants_password(self, call: CallInfo) -> bool:
        """True when callers of this listener may prove a password."""
        return self._authorizer is not None and call.listener != INTERNAL

    async def by_password(
        self, mechanism: str, client_first: bytes, call: CallInfo, exchange: Exchange
    ) -> tuple[CallInfo, bytes]:
        """Returns the call with its principal, and the server's own proof. Raises `AuthenticationError`."""
        try:
            return await self._by_password(mechanism, client_first, call, exchange)
        except errors.AuthenticationError as error:
            self._refused(call, error)
            raise

    async def _by_password(
        self, mechanism: str, client_first: bytes, call: CallInfo, exchange: Exchange
    ) -> tuple[CallInfo, bytes]:
        authorizer = self._authorizer
        assert authorizer is not None
        if mechanism != MECHANISM:
            raise errors.AuthenticationError(f"passwords are proved by {MECHANISM} here")
        if call.expires_ms:
            raise errors.AuthenticationError("a token or a password: give one of them")
        scram = ScramServer(secrets.token_urlsafe(18))
        name = scram.user(client_first)
        user = authorizer.stored.user(name)
        if user is None:
            challenge = scram.first(decoy_salt(authorizer.stored.decoy or self._decoy, name), ITERATIONS)
        else:
            challenge = scram.first(user.credential.salt, user.credential.iterations)
        client_final = await exchange(challenge)
        proof = scram.final(client_final, user.credential if user is not None else None)
        assert user is not None  # `final` refuses unknown users

        def over() -> errors.OncelogError | None:
            now = authorizer.stored.user(name)
            if now is not None and now.mod_revision == user.mod_revision:
                return None
            return errors.AuthenticationError("this user's password was changed, or the user is gone: connect again")

        access = authorizer.access(USER + name, host_of(call.peer))
        return replace(call, access=access, over=over), proof

    async def nearly_over(self, call: CallInfo) -> None:
        """Returns shortly before the caller's token expires, so that a client that opens a new link then fails no call."""
        left_ms = call.expires_ms - self._clock.now_ms()
        end_ms = call.expires_ms - min(_EARLY_MS, left_ms // 10)
        while (left_ms := end_ms - self._clock.now_ms()) > 0:  # noqa: ASYNC110 (the wall clock may be set)
            await asyncio.sleep(min(left_ms, 60_000) / 1000)


def _facts(context: ServerContext) -> CertificateFacts | None:
    """Returns the facts of the peer's verified certificate; None without one."""
    pem = context.auth_context().get("x509_pem_cert", ())
    if not pem:
        return None
    from oncelog_runtime.adapters.grpc.certificates import facts_of  # late: it loads an X.509 parser

    return facts_of(pem[0])


def bearer_of(metadata: Metadata) -> str | None:
    """Returns the bearer token; None without the header. Raises `AuthenticationError` for two headers, or another scheme."""
    found = [value for key, value in metadata if key.lower() == "authorization"]
    if not found:
        return None
    value = found[0]
    if len(found) > 1 or not isinstance(value, str) or value[: len(_BEARER)].lower() != _BEARER:
        raise errors.AuthenticationError("`authorization` stands there once, as: Bearer <token>")
    return value[len(_BEARER) :].strip()


def host_of(peer: str) -> str:
    """Returns the IP address in gRPC's name of a peer (`ipv4:10.0.0.1:5`, `ipv6:%5B::1%5D:5`); empty when there is none."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    try:
        address = ipaddress.ip_address(rest.rpartition(":")[0].strip("[]").partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
