"""One record as users see it, apart from topic and partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog.errors import InvalidDelayError, InvalidTimestampError

MAX_RECORD_HEADERS: Final = 1_000
"""Headers of one record."""
TIMESTAMP_MAX_MS: Final = (1 << 63) // 1000 - 1
"""Readers have Arrow timestamps, whose 64 bits hold no later time in microseconds; a time in nanoseconds lies far above it."""
EXPIRES_HEADER: Final = "oncelog.expires-ms"
"""The header that says when a record expires: decimal milliseconds since 1970, as ASCII digits."""
TTL_MS_MAX: Final = 100 * 365 * 86_400_000
"""A hundred years."""
HeaderList = Sequence[tuple[str, bytes | None]]
"""Headers in order; names may repeat, values may be null."""
DecodedHeaders = tuple[tuple[str, bytes | None], ...]
"""The same, of a record that was read."""


class Record(NamedTuple):
    """A decoded record. `key` and `value` may be null (None); `headers` is empty when there are none."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    offset: int
    headers: DecodedHeaders = ()


def check_ttl(ttl_ms: int) -> int:
    """Returns the time to live. Raises `InvalidDelayError` unless it is 1 to `TTL_MS_MAX`."""
    if type(ttl_ms) is not int or not 1 <= ttl_ms <= TTL_MS_MAX:
        raise InvalidDelayError(f"ttl_ms is 1 to {TTL_MS_MAX}, a hundred years", given=repr(ttl_ms)[:64])
    return ttl_ms


def not_milliseconds(timestamp_ms: int) -> InvalidTimestampError:
    """The error of a time below 0 or above `TIMESTAMP_MAX_MS`."""
    if timestamp_ms < 0:
        return InvalidTimestampError("a timestamp lies before 1970", timestamp_ms=timestamp_ms)
    return InvalidTimestampError(
        "a timestamp lies too far ahead: give milliseconds since 1970, not microseconds or nanoseconds",
        timestamp_ms=timestamp_ms,
        limit=TIMESTAMP_MAX_MS,
    )
