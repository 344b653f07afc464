"""The answer to a leader that asks says COMMITTED without the winners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from oncelog.core.batch.control import NOT_COUNTED
from oncelog_partition_leader.partition.coordinator_client import Coordinators
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def without_winners(original: Any) -> Any:
        async def resolve(self: Any, *args: Any) -> Any:
            marker = await original(self, *args)
            return None if marker is None else replace(marker, winners=None, expected_records=NOT_COUNTED)

        return resolve

    with replaced(Coordinators, "resolve", without_winners):
        yield


PLANT = plant(
    5,
    "the answer to a leader that asks carries the winners, exactly as the marker does",
    "transactions/test_coordinator_failures::test_healing_hears_the_winners",
)(_planted)
