"""GetProducerState says "not written" without raising the producer's epoch first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog_partition_leader.partition.leadership import Leadership
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def without_fence(original: Any) -> Any:
        def decide_settle(self: Any, command: Any) -> Any:
            command.settle = False
            return original(self, command)

        return decide_settle

    with replaced(Leadership, "_decide_settle", without_fence):
        yield


PLANT = plant(
    22,
    "not written is final only after a higher producer epoch was appended",
    "producers/test_producer_retries::test_not_written_is_final",
)(_planted)
