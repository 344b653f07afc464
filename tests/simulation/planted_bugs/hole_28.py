"""A move changes the replicas in the same leader epoch: the leader goes on with the followers of before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from oncelog_partition_leader.core.cluster import reassignment
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def same_epoch(original: Any) -> Any:
        def step(partition: Any, *args: Any, **more: Any) -> Any:
            changed = original(partition, *args, **more)
            if changed is None or changed.leader != partition.leader:
                return changed
            return replace(changed, leader_epoch=partition.leader_epoch)

        return step

    with replaced(reassignment, "begin", same_epoch), replaced(reassignment, "finish", same_epoch):
        yield


PLANT = plant(
    28,
    "a change of the replicas raises the leader epoch",
    "cluster/test_moving::test_a_leader_of_an_older_set_counts_nobody_back_in",
)(_planted)
