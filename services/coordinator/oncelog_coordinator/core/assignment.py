"""Which coordinator should own which shard: the same answer in every process that sees the same coordinators.

Balanced rendezvous hashing: each shard goes to the coordinator that it likes best among those with room, and no
coordinator gets more than its even share rounded up.  When one joins or leaves, few shards move.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.core.batch.hashing import fnv1a


def assign(kind: str, shards: int, coordinators: Iterable[str]) -> dict[int, str]:
    """Shard -> address; empty without coordinators."""
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
    """FNV alone hardly mixes its last bytes into the high bits; a second round over the result does."""
    return fnv1a(fnv1a(f"{address}/{kind}/{shard}".encode()).to_bytes(8, "little"))
