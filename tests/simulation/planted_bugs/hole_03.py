"""A log that failed is opened again at once, by the same incarnation, which stays in the ISR and may be elected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog.errors import OncelogError
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def log_failed(self: Any, partition: Any, _error: OncelogError) -> None:
        self._tasks.spawn(self._logs.reopen(partition.id), "reopen")

    with replaced(ReplicaManager, "log_failed", lambda _: log_failed):
        yield


PLANT = plant(
    3,
    "a replica whose log may have lost something is named nowhere before that log is opened again",
    "replication/test_replica_failures::test_a_follower_whose_sync_failed_is_not_elected",
)(_planted)
