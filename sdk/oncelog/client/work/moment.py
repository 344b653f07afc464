"""The time and the leaders of one moment, each looked up once, however many records a worker judges by them.

Rule: it is used within one step, without an await, and then dropped. No leader changes meanwhile; the clock may move on by the
      length of the step.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog.client.home.context import now_ms
from oncelog.client.routing.metadata import Leader


class Moment:
    """See the module. `leader_of`: looks up the leader of a partition; `now_ms`: of the loop's clock."""

    __slots__ = ("_leader_of", "_leaders", "now_ms")

    def __init__(self, leader_of: Callable[[int], Leader]) -> None:
        self.now_ms = now_ms()
        self._leader_of = leader_of
        self._leaders: dict[int, Leader] = {}

    def leader(self, partition: int) -> str:
        """Returns the address of the leader; empty: none is known."""
        return self._leader(partition).address or ""

    def leader_epoch(self, partition: int) -> int:
        """Returns the epoch of that leader; -1: none is known."""
        return self._leader(partition).leader_epoch

    def _leader(self, partition: int) -> Leader:
        found = self._leaders.get(partition)
        if found is None:
            found = self._leaders[partition] = self._leader_of(partition)
        return found
