"""The time to live of a record that is sent: a header says when it expires.

Rule: the time is computed at `send`, by this process's clock. Readers compare it with theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.core.batch.record import EXPIRES_HEADER, check_ttl
from oncelog.value_types import Headers


def with_expiry(headers: Headers, ttl_ms: int, now_ms: int) -> Headers:
    """The headers, and the one that says when the record expires. Raises `InvalidDelayError`."""
    given = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    return [*given, (EXPIRES_HEADER, b"%d" % (now_ms + check_ttl(ttl_ms)))]
