"""Blocks of producer ids: an allocator hands out ids only of blocks that etcd says it won.

Rule: a block whose answer was lost may have been won or not. Whoever uses it would give ids that another one is given, too,
as soon as two allocators ask within the millisecond for which a block's floor stands still.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_pid_allocator.core.blocks import Block
from oncelog_pid_allocator.service import PidAllocator
from oncelog_runtime.metadata.cluster_keys import PRODUCER_ID_BLOCK_KEY
from oncelog_runtime.ports import CommitResult, Compare, Put
from tests.simulation.cluster import SimCluster


class BlockWatch:
    """Stands before the store. `won`: owner by first id."""

    def __init__(self, cluster: SimCluster) -> None:
        self.won: dict[int, str] = {}
        self._cluster = cluster
        self._store = cluster.world.metadata
        self._commit = self._store.commit
        self._store.commit = self._watched  # type: ignore[method-assign]
        found = self._store.get(PRODUCER_ID_BLOCK_KEY)
        self._since = -1 if found is None else Block.decode(found.value).end
        """Blocks up to here were won before anybody watched."""

    def _watched(self, compares: Sequence[Compare], puts: Sequence[Put], deletes: Sequence[str]) -> CommitResult:
        result = self._commit(compares, puts, deletes)
        for put in puts:
            if put.key == PRODUCER_ID_BLOCK_KEY and result.succeeded:
                block = Block.decode(put.value)
                self.won[block.start] = block.owner
        return result

    def check(self) -> None:
        """Looks at all that allocators have in stock."""
        for name, service in self._cluster.services.items():
            if isinstance(service, PidAllocator):
                for block in service._pool._blocks:
                    assert block.start <= self._since or self.won.get(block.start) == block.owner, (
                        f"{name} has {block}, which it never won: etcd knows {self.won.get(block.start)}"
                    )


def watch_blocks(cluster: SimCluster) -> BlockWatch:
    """Looks after each step of an allocator."""
    watch, loop = BlockWatch(cluster), cluster.world.loop

    def step() -> None:
        if loop.ran is not None and loop.ran.name.startswith("allocator-"):
            watch.check()

    loop.add_step_hook(step)
    return watch
