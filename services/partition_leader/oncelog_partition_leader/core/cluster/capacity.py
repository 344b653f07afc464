"""Limits the partitions of a broker by its file descriptors and its configuration, so that connections always find room.

Rule 1: half of the descriptors, up to `_RESERVED`, are kept for connections and everything else; each partition counts
        with the files that it keeps open.
Rule 2: new partitions fit on every broker that gets some, or none of them is created.
Rule 3: a broker that does not say how much it takes (an older version) takes everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from oncelog.errors import PolicyViolationError

FILES_PER_PARTITION: Final = 2
"""The newest segment and the recovery point."""
_RESERVED: Final = 8_192


def partitions_for(descriptors: int, configured: int) -> int:
    """Returns the most replicas that one broker takes. `descriptors`: files that its process may open, 0 = no limit."""
    if descriptors <= 0:
        return configured
    free = descriptors - min(descriptors // 2, _RESERVED)
    return max(1, min(configured, free // FILES_PER_PARTITION))


def held_by(replicas: Iterable[Iterable[int]]) -> Counter[int]:
    """Counts, by broker id, how many of these partitions have a replica there."""
    return Counter(broker_id for brokers in replicas for broker_id in brokers)


def check_room(added: Mapping[int, int], held: Mapping[int, int], limits: Mapping[int, int]) -> None:
    """Raises `PolicyViolationError` when a broker would get more than it takes. `limits`: 0 = unknown."""
    for broker_id in sorted(added):
        limit, has = limits.get(broker_id, 0), held.get(broker_id, 0)
        if 0 < limit < has + added[broker_id]:
            raise PolicyViolationError(
                f"broker {broker_id} takes {limit} partitions and has {has}, so {added[broker_id]} more do not"
                " fit: add brokers, ask for fewer, or raise its limit of open files (ulimit -n) and partitions_per_broker_max",
                broker=broker_id,
                partitions=has,
                added=added[broker_id],
                limit=limit,
            )
