"""Decides how long the turn of an arriving request lasts: no other request of its connection begins to be read meanwhile.

Rule 1: it lasts `TURN_S` for each request that is being read on the connection.
Rule 2: it goes on until the bytes that stayed incomplete on the connection since it began could have come at
        `UNFINISHED_BYTES_PER_S`. A client that sends faster waits until its request is complete, or until that time has passed.
Rule 3: on a connection that is not found yet it goes on for `FIND_S`: a new connection is no way around rule 2.
"""

from __future__ import annotations

from typing import Final

TURN_S: Final = 0.01
"""For so long no other request of the connection begins to be read, for each one that is being read."""
UNFINISHED_BYTES_PER_S: Final = 64 << 20
"""So fast a connection may gather bytes that stay incomplete."""
FIND_S: Final = 0.25
"""The list of connections is made in less."""
ASK_AGAIN_S: Final = 0.05
"""The incomplete bytes of a turn that goes on may be complete long before it would end."""


class ReadingTurn:
    """One turn, from when it began. `before_bytes` were incomplete on the connection already."""

    __slots__ = ("_before_bytes", "_began_s", "lasts_s")

    def __init__(self, began_s: float, reading: int, before_bytes: int) -> None:
        self._began_s = began_s
        self._before_bytes = before_bytes
        self.lasts_s = TURN_S * reading
        """Rule 1: `goes_on_s` is asked after this time."""

    def goes_on_s(self, now_s: float, unfinished_bytes: int | None) -> float:
        """Returns after how many seconds to ask again; 0 = the turn has ended. `unfinished_bytes` None: not known yet."""
        if unfinished_bytes is None:
            ends_at_s = self._began_s + FIND_S
        else:
            ends_at_s = self._began_s + (unfinished_bytes - self._before_bytes) / UNFINISHED_BYTES_PER_S
        return max(0.0, min(ends_at_s - now_s, ASK_AGAIN_S))
