"""In fsync mode the leader counts its own log end, synced or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def counts_memory(original: Any) -> Any:
        return lambda self, log_end, _own_end, now_ms: original(self, log_end, log_end, now_ms)

    with replaced(ReplicaSet, "wrote", counts_memory):
        yield


PLANT = plant(
    4,
    "in fsync mode the leader counts for itself only the synced end",
    "replication/test_replica_failures::test_in_fsync_mode_the_leader_counts_its_own_disk_too",
)(_planted)
