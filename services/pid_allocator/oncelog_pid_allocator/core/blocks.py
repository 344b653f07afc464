"""Decides which producer ids may be handed out.

Rule 1: an id is handed out once. A block is used only after the compare-and-swap that won it is known to have
        succeeded; a block whose answer was lost is never used.
Rule 2: blocks only grow. A block that does not lie above everything this pool has seen is refused (etcd was rewound).
Rule 3: a block never begins below the floor of the current time, so an etcd restored from a backup, which rewinds the
        counter, still yields ids above all that were handed out before (docs/decisions/0004-producer-id-floor.md).
Rule 4: the space ends below `LIMIT`; nothing wraps.

Source: KIP-185 / KIP-730 (blocks of 1000, prefetch at 90 %).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from oncelog.core.malformed import MALFORMED
from oncelog.errors import AllocatorRolledBackError, IdSpaceExhaustedError, InvalidRequestError
from oncelog_runtime.metadata.cluster_keys import SHARD_WRITER_BASE, producer_id_floor

BLOCK_SIZE: Final = 1000
PREFETCH_LEFT: Final = BLOCK_SIZE // 10
"""The next block is fetched when this many ids are left: 90 % are used."""
LIMIT: Final = SHARD_WRITER_BASE
"""The first id that is never allocated: coordinator shards write under ids from here on."""


@dataclass(frozen=True, slots=True)
class Block:
    """Ids `start` to `end`, both inclusive, won by `owner`."""

    start: int
    end: int
    owner: str

    def encode(self) -> bytes:
        """Returns the value in etcd. Ids are text: JSON numbers lose bits above 2^53 in many languages."""
        value = {"version": 1, "broker": self.owner, "block_start": str(self.start), "block_end": str(self.end)}
        return json.dumps(value, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes) -> Block:
        """Builds the block from the value in etcd. Raises `AllocatorRolledBackError` for a value that is no block."""
        try:
            value = json.loads(data)
            return Block(int(value["block_start"]), int(value["block_end"]), str(value["broker"]))
        except MALFORMED as error:
            raise AllocatorRolledBackError("the id block in etcd is damaged; repair the key by hand") from error


def next_block(previous: Block | None, now_ms: int, owner: str) -> Block:
    """Returns the block to win after `previous` (None: the key does not exist yet).

    Raises `IdSpaceExhaustedError` when it would pass `LIMIT`, `AllocatorRolledBackError` when `previous` is not a legal
    block.
    """
    if previous is not None and not 0 <= previous.start <= previous.end < LIMIT:
        raise AllocatorRolledBackError(
            "the id block in etcd is not legal; repair the key by hand", start=previous.start, end=previous.end
        )
    start = max(0 if previous is None else previous.end + 1, producer_id_floor(now_ms))
    if start > LIMIT - BLOCK_SIZE:
        raise IdSpaceExhaustedError("producer ids are used up", next_id=start)
    return Block(start, start + BLOCK_SIZE - 1, owner)


@dataclass(slots=True)
class BlockPool:
    """The blocks that this process has won and not used up: the current one and at most one more."""

    _blocks: list[Block] = field(default_factory=list)
    _next_id: int = 0
    _highest_end: int = -1
    _refused: int = 0
    """The largest request since the last block that found too few ids."""

    def available(self) -> int:
        """Returns how many ids can be handed out without another block."""
        if not self._blocks:
            return 0
        return self._blocks[0].end - self._next_id + 1 + sum(b.end - b.start + 1 for b in self._blocks[1:])

    @property
    def highest_end(self) -> int:
        """The highest id that this process has won; -1 = none yet."""
        return self._highest_end

    def wants_block(self) -> bool:
        """True when at most 10 % of a block is left, or when a request found too few ids."""
        return self.available() <= PREFETCH_LEFT or self.available() < self._refused

    def take(self, count: int) -> list[tuple[int, int]] | None:
        """Takes `count` ids as ascending (first, count) ranges; returns None, and takes nothing, when too few are left.

        Raises `InvalidRequestError` unless 1 <= count <= 1000.
        """
        if not 1 <= count <= BLOCK_SIZE:
            raise InvalidRequestError("ask for 1 to 1000 producer ids", count=count)
        if self.available() < count:
            self._refused = max(self._refused, count)
            return None
        ranges = []
        while count:
            block = self._blocks[0]
            taken = min(count, block.end - self._next_id + 1)
            ranges.append((self._next_id, taken))
            count -= taken
            self._next_id += taken
            if self._next_id > block.end:
                self._blocks.pop(0)
                self._next_id = self._blocks[0].start if self._blocks else 0
        return ranges

    def add(self, block: Block) -> None:
        """Adds a block that this process has won for certain. Raises `AllocatorRolledBackError` when it is not above
        all others.
        """
        if block.start <= self._highest_end:
            raise AllocatorRolledBackError(
                "etcd offers ids that were handed out before; was it restored from a backup?",
                block_start=block.start,
                highest_seen=self._highest_end,
            )
        if not self._blocks:
            self._next_id = block.start
        self._blocks.append(block)
        self._refused = 0
        self._highest_end = block.end

    def check(self) -> None:
        """Asserts every invariant."""
        ends = [block.end for block in self._blocks]
        assert ends == sorted(ends), "blocks out of order"
        assert all(a.end < b.start for a, b in zip(self._blocks, self._blocks[1:], strict=False)), "blocks overlap"
        if self._blocks:
            assert self._blocks[0].start <= self._next_id <= self._blocks[0].end, "next id outside of its block"
            assert self._blocks[-1].end == self._highest_end < LIMIT, "highest end forgotten"
