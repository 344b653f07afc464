"""How long to wait before the next try: exponential with full jitter on its upper half.

Rule: randomness arrives as a draw from [0, 1), so the same draws give the same waits.
"""

from __future__ import annotations

from dataclasses import dataclass

_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first_ms` doubles with each attempt up to `max_ms`; the wait lies between half of that and all of it."""

    first_ms: int
    max_ms: int

    def delay_ms(self, attempt: int, draw: float, at_least_ms: int = 0) -> int:
        """Before try number `attempt + 1`, `attempt` from 1. `at_least_ms` is what the server asked for."""
        assert attempt >= 1
        full = min(self.first_ms << min(attempt - 1, _MAX_DOUBLINGS), self.max_ms)
        return max(int(full * (0.5 + draw / 2)), at_least_ms)
