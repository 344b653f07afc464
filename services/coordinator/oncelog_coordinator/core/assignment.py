"""Assigns shards to coordinators; every process that sees the same coordinators computes the same answer.

Balanced rendezvous hashing: each shard goes to the coordinator with the highest weight for it among those that have
room,
and no coordinator gets more than its even share rounded up.  When one joins or leaves, few shards move.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.core.batch.hashing import fnv1a


def assign(kind: str, shards: int, coordinators: Iterable[str]) -> dict[int, str]:
    """Returns the address for each shard; empty when there are no coordinators."""
    live = sorted(set(coordinators))
    if not live:
        return {}
    room = dict.fromkeys(live, -(-shards // len(live)))
    chosen: dict[int, str] = {}
    for shard in range(shards):
        liked = sorted(live, key=lambda address: (_weight(kind, shard, address), address), reverse=True)
        address = next(one for one in liked if room[one] > 0)
        room[address] -= 1
        chosen[shard] = address
    return chosen


def _weight(kind: str, shard: int, address: str) -> int:
    """Hashes twice, since FNV alone hardly mixes its last bytes into the high bits."""
    return fnv1a(fnv1a(f"{address}/{kind}/{shard}".encode()).to_bytes(8, "little"))
