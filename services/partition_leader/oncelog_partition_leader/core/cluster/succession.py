"""Limits how often the controller's role is taken from a broker that is still registered.

Rule: a broker that takes the role because its holder is silent waits longer each time that this happened lately. Whatever
the network does, controllers that overthrow each other slow down until one of them stays. A proof of death does not wait.
"""

from __future__ import annotations

from typing import Final

MEMORY_MS: Final = 60_000
FIRST_TERM_MS: Final = 1_000
LONGEST_TERM_MS: Final = 30_000


class Succession:
    """The changes of the controller that one broker has seen."""

    def __init__(self) -> None:
        self._taken_ms: list[int] = []
        self._since_ms = 0

    def began(self, now_ms: int, *, taken: bool) -> None:
        """Notes a new controller. `taken`: from one that was still registered."""
        self._since_ms = now_ms
        if taken:
            self._taken_ms.append(now_ms)
        self._forget(now_ms)

    def may_overthrow(self, now_ms: int) -> bool:
        """Returns True when a silent controller has had its minimum term, so that its role may be taken."""
        self._forget(now_ms)
        if not self._taken_ms:
            return True
        term_ms = min(LONGEST_TERM_MS, FIRST_TERM_MS << min(len(self._taken_ms) - 1, 10))
        return now_ms - self._since_ms >= term_ms

    def _forget(self, now_ms: int) -> None:
        self._taken_ms = [taken for taken in self._taken_ms if now_ms - taken <= MEMORY_MS]
