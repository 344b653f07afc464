"""Until when a record is a worker's, by the worker's own clock.

Rule 1: the broker counts from when it gave the record, the worker from when it asked plus the time for which the broker says
        that the request stood: that is not later, however long the answer was on its way. It takes the record for lost a little
        early besides, since two clocks never run equally fast.
Rule 2: for a record that is touched the worker counts from before the request left, and keeps the same margin.
Rule 3: while a record waits to be handed out, its leader may die, and the next one may give it to a worker that acknowledges
        it. All of this takes longer than `SURE_MS`: the quickest fail-over after a kill -9 that was measured took 340 ms. After
        that time the record is touched before it is handed out.
"""

from __future__ import annotations

from typing import Final

_MARGIN_SHARE: Final = 20
_LONGEST_MARGIN_MS: Final = 1_000
_GIVEN_UP_MS: Final = 10_000
SURE_MS: Final = 250
"""How long a worker is sure of a record that its leader gave it, or has confirmed. Rule 3."""
ASKING_MS: Final = 500
"""How long a reader without time waits at most while its worker asks about records."""


def given_at_ms(now_ms: int, asked_ms: int, waited_ms: int) -> int:
    """Returns when the broker gave the records of an answer that has come now, or before that. Rule 1."""
    return min(now_ms, asked_ms + max(waited_ms, 0))


def is_unheard(now_ms: int, seen_ms: int, ack_wait_ms: int) -> bool:
    """Returns True when this process may have been silent for so long that its brokers have given its records to others.

    `seen_ms`: when it last looked at its clock, which it does all the time unless it is frozen. A broker gives a worker up that
    it has not heard of for `ack_wait_ms`, or ten seconds if that is less.
    """
    return now_ms - seen_ms > min(ack_wait_ms, _GIVEN_UP_MS) // 2


def held_until_ms(from_ms: int, ack_wait_ms: int) -> int:
    """Returns when the worker stops to take the record for its own."""
    return from_ms + ack_wait_ms - margin_ms(ack_wait_ms)


def margin_ms(ack_wait_ms: int) -> int:
    """Returns by how much the worker is early: a twentieth of the wait, and a second at most."""
    return min(_LONGEST_MARGIN_MS, ack_wait_ms // _MARGIN_SHARE)


def touch_at_ms(from_ms: int, ack_wait_ms: int) -> int:
    """Returns when a record that is still worked on has to be touched: at half of its time, so that two tries fit."""
    return from_ms + ack_wait_ms // 2


def sure_for_ms(round_trip_ms: int, ack_wait_ms: int) -> int:
    """Returns for how long a touch that took so long makes sure. A slow broker needs more than `SURE_MS` to answer."""
    return min(max(SURE_MS, 2 * round_trip_ms), max(SURE_MS, ack_wait_ms // 2))
