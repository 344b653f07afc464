"""Counts the unary calls whose request has not arrived completely, and refuses further ones above two limits.

Rule 1: a call counts from its beginning until its request is there, or never will be; afterwards other limits apply.
Rule 2: a refused call changes nothing, and its request is never read: no bytes or objects are kept for it.
Rule 3: one address cannot take all places, so the others still get in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from oncelog.errors import ResourceExhaustedError

_RETRY_AFTER_MS: Final = 50


class ArrivingCalls:
    """The calls of one listener whose requests are arriving. `limit`: of all; `limit_per_address`: of one address."""

    def __init__(self, limit: int, limit_per_address: int) -> None:
        assert 0 < limit_per_address <= limit
        self._limit = limit
        self._limit_per_address = limit_per_address
        self._count = 0
        self._of: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of calls whose request has not arrived."""
        return self._count

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        """Counts a call of this address while its request arrives. Raises `ResourceExhaustedError`."""
        if self._of[address] >= self._limit_per_address or self._count >= self._limit:
            raise ResourceExhaustedError(
                "too many calls whose requests have not arrived", retry_after_ms=_RETRY_AFTER_MS
            )
        self._count += 1
        self._of[address] += 1
        try:
            yield
        finally:
            self._count -= 1
            self._of[address] -= 1
            if not self._of[address]:
                del self._of[address]
