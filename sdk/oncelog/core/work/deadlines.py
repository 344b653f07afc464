"""Until when a record is a worker's, by the worker's own clock.

Rule 1: the broker counts from when the answer left, the worker from when it came. So the worker takes the record for lost a
        little early: it never works on a record that the broker has given to another worker, as long as their clocks run
        equally fast and the answer was on its way for less than the margin.
Rule 2: for a record that is touched the worker counts from before the request left, and keeps the same margin.
"""

from __future__ import annotations

from typing import Final

_MARGIN_SHARE: Final = 20
_LONGEST_MARGIN_MS: Final = 1_000


def held_until_ms(from_ms: int, ack_wait_ms: int) -> int:
    """Returns when the worker stops to take the record for its own."""
    return from_ms + ack_wait_ms - margin_ms(ack_wait_ms)


def margin_ms(ack_wait_ms: int) -> int:
    """Returns by how much the worker is early: a twentieth of the wait, and a second at most."""
    return min(_LONGEST_MARGIN_MS, ack_wait_ms // _MARGIN_SHARE)


def touch_at_ms(from_ms: int, ack_wait_ms: int) -> int:
    """Returns when a record that is still worked on has to be touched: at half of its time, so that two tries fit."""
    return from_ms + ack_wait_ms // 2
