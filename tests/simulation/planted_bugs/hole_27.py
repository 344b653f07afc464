"""The log of a replica is deleted on the word of the broker's own view, which may lag behind a move back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog_partition_leader import replicas
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    async def believes(*_: Any) -> bool:
        return True

    with replaced(replicas, "is_moved_away", lambda _: believes):
        yield


PLANT = plant(
    27,
    "a replica is deaf first, then asks etcd, then deletes its log",
    "test_moving::test_a_view_that_lags_deletes_no_log_that_counts_again",
)(_planted)
