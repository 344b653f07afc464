"""Finds the failure that `flush` and `close` of a producer raise: the first one that the program did not await.

Rule 1: whether the program did is asked at the flush, not at the failure: a failure that is awaited later is not raised.
Rule 2: none is ever passed over in silence. Above `_KEPT_MAX` of them the oldest half counts as never awaited, for good.
"""

from __future__ import annotations

from typing import Final

from oncelog.core.produce.accumulator import Batch
from oncelog.errors import OncelogError

_KEPT_MIN: Final = 100
_KEPT_MAX: Final = 10_000
"""Some megabytes of batches without content."""


class UnseenFailures:
    """See the module. Of one producer."""

    def __init__(self) -> None:
        self._kept: list[Batch] = []
        self._look_at = _KEPT_MIN  # so many are kept before those that were awaited are left out
        self._lost: OncelogError | None = None

    def add(self, batch: Batch) -> None:
        """The batch failed."""
        self._kept.append(batch)
        if len(self._kept) >= self._look_at:
            self._leave_out()

    def take(self) -> OncelogError | None:
        """Returns the first failure that was not awaited; forgets all that are known so far."""
        first = self._lost or next((batch.error for batch in self._kept if not batch.is_observed), None)
        self.forget()
        return first

    def forget(self) -> None:
        """Nothing has failed."""
        self._kept = []
        self._look_at = _KEPT_MIN
        self._lost = None

    def _leave_out(self) -> None:
        self._kept = [batch for batch in self._kept if not batch.is_observed]
        if len(self._kept) >= _KEPT_MAX // 2:
            self._lost = self._lost or self._kept[0].error
            del self._kept[: len(self._kept) // 2]
        self._look_at = max(_KEPT_MIN, 2 * len(self._kept))
