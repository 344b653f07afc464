"""One record as users see it, apart from topic and partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_RECORD_HEADERS: Final = 1_000
"""Headers of one record."""
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
