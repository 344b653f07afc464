"""Bearer tokens (JWT, RFC 7519): identifies the caller by a token of one issuer.

Rule 1: the algorithms are ours, not the token's: asymmetric ones only. The key is the one of the issuer's set that the
        token names, and no other.
Rule 2: a token has issuer, audience, subject and expiry, and all of them are checked; one without is refused.
Rule 3: a refusal is short, without the token or any part of it.
Rule 4: a token is verified once; then its hash is cached until it expires, or until its key is removed from the set.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import jwt

from oncelog.core.malformed import JsonObject
from oncelog.errors import AuthenticationError, InvalidRequestError, TokenExpiredError
from oncelog.ports import WallClock
from oncelog_runtime.adapters.grpc.token_keys import ALGORITHMS, TokenKeys
from oncelog_runtime.core.security.acl import USER, check_principal

TOKEN_BYTES_MAX: Final = 12 << 10
_KEPT: Final = 4_096
_LEEWAY_S: Final = 10
"""Tolerated difference between the clocks of issuer and broker, for the start time of a token."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The principal of a verified token."""

    principal: str
    expires_ms: int
    key_id: str
    key: jwt.PyJWK


class TokenVerifier:
    """Verifies tokens of one issuer for one audience."""

    def __init__(
        self, keys: TokenKeys, clock: WallClock, issuer: str, audience: str, principal_claim: str = "sub"
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._issuer = issuer
        self._audience = audience
        self._claim = principal_claim
        self._known: OrderedDict[bytes, Verified] = OrderedDict()

    async def verify(self, token: str) -> Verified:
        """Returns the verified token. Raises `AuthenticationError`, or `TokenExpiredError`."""
        if len(token) > TOKEN_BYTES_MAX or not token.isascii():
            raise AuthenticationError("the token is too long, or no token at all", limit=TOKEN_BYTES_MAX)
        digest = sha256(token.encode()).digest()
        known = self._known.get(digest)
        if known is None or not self._keys.has(known.key_id, known.key):
            known = await self._verify(token)
            self._known[digest] = known
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        if self.is_over(known):
            raise TokenExpiredError()
        return known

    def is_over(self, verified: Verified) -> bool:
        """True when it has expired, or its key was removed from the set."""
        return self._clock.now_ms() >= verified.expires_ms or not self._keys.has(verified.key_id, verified.key)

    async def _verify(self, token: str) -> Verified:
        key_id = _key_id_of(token)
        key = await self._keys.find(key_id)
        if key is None:
            raise AuthenticationError("the token is signed with a key that its issuer does not publish")
        claims = self._claims(token, key)
        expires_ms = int(claims["exp"]) * 1000  # a number, or its digits as text
        return Verified(self._principal(claims), expires_ms, key_id, key)

    def _claims(self, token: str, key: jwt.PyJWK) -> JsonObject:
        try:
            claims: JsonObject = jwt.decode(
                token,
                key=key,
                algorithms=list(ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"], "strict_aud": False},
            )
        except jwt.ExpiredSignatureError:
            raise TokenExpiredError() from None
        except jwt.InvalidAudienceError:
            raise AuthenticationError("the token is for another audience", expected=self._audience) from None
        except jwt.InvalidIssuerError:
            raise AuthenticationError("the token is of another issuer", expected=self._issuer) from None
        except jwt.MissingRequiredClaimError as error:
            raise AuthenticationError(f"the token does not say {error.claim}") from None
        except jwt.ImmatureSignatureError:
            raise AuthenticationError("the token does not count yet: compare the clocks") from None
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise AuthenticationError("the token is not what its issuer signs") from None
        return claims

    def _principal(self, claims: JsonObject) -> str:
        name = claims.get(self._claim)
        if not isinstance(name, str):
            raise AuthenticationError(f"the token names nobody: its claim {self._claim} is no text")
        try:
            return check_principal(USER + name, wildcard=False)
        except InvalidRequestError:
            raise AuthenticationError(f"the token names nobody: its claim {self._claim} is no legal name") from None


def _key_id_of(token: str) -> str:
    """Returns the key that a token names. Nothing in the token is trusted yet."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise AuthenticationError("this is no token (JWT)") from None
    key_id = header.get("kid")
    if header.get("alg") not in ALGORITHMS:
        raise AuthenticationError("the token is signed with an algorithm that is not accepted here")
    if not isinstance(key_id, str):
        raise AuthenticationError("the token does not say with which key it is signed (kid)")
    return key_id
