"""The log of a replica leaves its place on the word of the broker's own view, which may lag behind a move back.

The trash gives it back when the view hears of that soon, so this shows when the trash has been emptied before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog_partition_leader.replication.replicas import log_keeper
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    async def believes(*_: Any) -> bool:
        return True

    with replaced(log_keeper, "is_moved_away", lambda _: believes):
        yield


PLANT = plant(
    27,
    "a replica is deaf first, then asks etcd, then gives its log away",
    "cluster/test_moving::test_a_view_that_lags_for_longer_than_the_trash_keeps_a_log_deletes_none",
)(_planted)
