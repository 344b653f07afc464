"""Limits the lines of the audit log: a flood of refusals must neither fill a disk nor hide what operators did.

Rule 1: the same refusal again within `SAME_MS` is only counted; the next line about it says how many were left out.
Rule 2: refusals share `BURST` lines and `PER_SECOND` more each second; operations of administrators have the same
        budget for themselves.
Rule 3: the state is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

SAME_MS: Final = 10_000
BURST: Final = 200
PER_SECOND: Final = 20
_REMEMBERED_MAX: Final = 2_048


class _Bucket:
    def __init__(self) -> None:
        self._lines = float(BURST)
        self._now_ms: int | None = None

    def take(self, now_ms: int) -> bool:
        if self._now_ms is not None:
            self._lines = min(float(BURST), self._lines + max(0, now_ms - self._now_ms) * PER_SECOND / 1000)
        self._now_ms = now_ms
        if self._lines < 1:
            return False
        self._lines -= 1
        return True


class AuditLimits:
    """Decides about each line. `left_out` counts since the last line that was written."""

    def __init__(self) -> None:
        self._buckets = {True: _Bucket(), False: _Bucket()}
        self._same: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        self.left_out = 0

    def admit(self, what: Hashable, now_ms: int, *, allowed: bool) -> int | None:
        """Returns how many lines just like this one were left out before it; None: leave this one out too."""
        written_ms, repeated = self._same.get(what, (now_ms - SAME_MS, 0))
        is_again = not allowed and now_ms - written_ms < SAME_MS
        if is_again or not self._buckets[allowed].take(now_ms):
            self._remember(what, written_ms, repeated + 1)
            self.left_out += 1
            return None
        self._remember(what, now_ms, 0)
        return repeated

    def told(self) -> int:
        """Returns `left_out` for the line that is written now, and resets it."""
        left_out, self.left_out = self.left_out, 0
        return left_out

    def _remember(self, what: Hashable, written_ms: int, repeated: int) -> None:
        self._same[what] = (written_ms, repeated)
        self._same.move_to_end(what)
        if len(self._same) > _REMEMBERED_MAX:
            self._same.popitem(last=False)
