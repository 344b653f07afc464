"""Who has a block of ids in stock that etcd never gave it is seen at once."""

from __future__ import annotations

import pytest

from oncelog_pid_allocator.core.blocks import Block
from oncelog_pid_allocator.service import PidAllocator
from tests.simulation.block_watch import watch_blocks
from tests.simulation.cluster import SimCluster


def test_a_block_that_was_not_won_is_seen() -> None:
    with SimCluster("blocks") as cluster:
        watch = watch_blocks(cluster)
        cluster.world.run(cluster.healthy())
        assert watch.won
        watch.check()
        allocator = cluster.services["allocator-0"]
        assert isinstance(allocator, PidAllocator)
        end = allocator._pool.highest_end
        allocator._pool.add(Block(end + 1, end + 1000, "allocator-0:9092"))
        with pytest.raises(AssertionError, match="never won"):
            watch.check()
