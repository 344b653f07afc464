"""Keys of an issuer of tokens, and a clock that is turned by hand."""

from __future__ import annotations

import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

jwt = pytest.importorskip("jwt")

KEY = rsa.generate_private_key(65537, 2048)


OTHER = rsa.generate_private_key(65537, 2048)


CURVE = ec.generate_private_key(ec.SECP256R1())


def public(key_id: str, key: Any = KEY) -> dict[str, Any]:
    kind = jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else jwt.algorithms.RSAAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}


class Clock:
    """The wall clock is the real one plus `ahead_ms`; the steady one is turned by hand."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.steady_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def monotonic_ms(self) -> int:
        return self.steady_ms
