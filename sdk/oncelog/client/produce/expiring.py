"""The time to live of a record that is sent: a header says when it expires.

Rule: the time is computed at `send`, by this process's clock. Readers compare it with theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog.core.batch.record import EXPIRES_HEADER
from oncelog.errors import InvalidDelayError
from oncelog.value_types import Headers

TTL_MS_MAX: Final = 100 * 365 * 86_400_000
"""A hundred years."""


def with_expiry(headers: Headers, ttl_ms: int, now_ms: int) -> Headers:
    """The headers, and the one that says when the record expires. Raises `InvalidDelayError`."""
    if type(ttl_ms) is not int or not 1 <= ttl_ms <= TTL_MS_MAX:
        raise InvalidDelayError(f"ttl_ms is 1 to {TTL_MS_MAX}, a hundred years", given=repr(ttl_ms)[:64])
    given = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    return [*given, (EXPIRES_HEADER, b"%d" % (now_ms + ttl_ms))]
