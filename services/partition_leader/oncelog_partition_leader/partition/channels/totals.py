"""The counts of one channel on one broker, over all partitions and leaderships: what metrics show.

Rule: a total never goes back while the channel lives: what ended leaderships counted is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_partition_leader.core.channels.delivery import Counts


class Totals:
    """The counts of leaderships that have ended."""

    __slots__ = ("acknowledged", "dead", "delivered", "redelivered")

    def __init__(self) -> None:
        self.delivered = 0
        self.redelivered = 0
        self.acknowledged = 0
        self.dead = 0

    def retire(self, counts: Counts) -> None:
        """Keeps the counts of a leadership that has ended."""
        self.delivered += counts.delivered
        self.redelivered += counts.redelivered
        self.acknowledged += counts.acknowledged
        self.dead += counts.dead

    def with_all(self, led: Iterable[Counts]) -> Totals:
        """Returns the totals, those that go on included."""
        found = Totals()
        for counts in led:
            found.retire(counts)
        found.delivered += self.delivered
        found.redelivered += self.redelivered
        found.acknowledged += self.acknowledged
        found.dead += self.dead
        return found
