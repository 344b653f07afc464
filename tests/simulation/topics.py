"""The topics of a run: drawn, so that options meet each other. Everything written to them is read back.

Rule: a topic from which nothing may be lost at all (one replica, or `min_insync_replicas` 1) is there only in runs in which
no volume is lost and nothing rots: it would forbid these faults everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from oncelog.client.client import Client
from tests.simulation.history import Key

WORK: Final = "work"
COPY: Final = "copy"
PARTITIONS: Final = 3
"""Of each of these two."""
_WIDE_PARTITIONS: Final = 6
SMALL_BYTES: Final = 2_000
"""A segment, and the largest batch, of runs with small segments."""


@dataclass(frozen=True, slots=True)
class SimTopic:
    """`weight`: how often it is written to, beside the others; 0 = by nobody who writes at random."""

    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str]
    weight: int

    @property
    def keys(self) -> list[Key]:
        """Its partitions."""
        return [(self.name, number) for number in range(self.partitions)]

    async def create(self, client: Client) -> None:
        """Raises what the cluster answers."""
        await client.admin.create_topic(
            self.name, partitions=self.partitions, replication_factor=self.replication_factor, config=self.config
        )


def draw(seed: int, *, fsync: bool, small_segments: bool, may_lose_nothing: bool) -> list[SimTopic]:
    """`may_lose_nothing`: see the rule."""
    random = Random(f"{seed}:topics")
    base = {"min.insync.replicas": "2", "flush.mode": "fsync" if fsync else "replicated"}
    small = {"segment.bytes": str(SMALL_BYTES), "max.message.bytes": str(SMALL_BYTES)} if small_segments else {}
    found = [SimTopic(WORK, PARTITIONS, 3, base | small, 6), SimTopic(COPY, PARTITIONS, 3, base | small, 0)]
    has_wide, has_strict, has_single, has_loose = (random.random() < share for share in (0.3, 0.3, 0.4, 0.4))
    if has_wide:
        found.append(SimTopic("wide", _WIDE_PARTITIONS, 3, base, 3))
    if has_strict:  # another flush mode than the others', and segments that roll all the time
        rolling = {"flush.mode": "fsync", "segment.bytes": "600", "max.message.bytes": "600"}
        found.append(SimTopic("strict", 1, 3, base | rolling, 1))
    if has_single and may_lose_nothing:
        found.append(SimTopic("single", 1, 1, base | {"min.insync.replicas": "1", "flush.mode": "fsync"}, 1))
    if has_loose and may_lose_nothing:
        found.append(SimTopic("loose", 1, 3, base | {"min.insync.replicas": "1", "flush.mode": "fsync"}, 1))
    return found
