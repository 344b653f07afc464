"""GetProducerState says "not written" without raising the producer's epoch first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog_partition_leader.core.appends import verdicts
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def without_fence(original: Any) -> Any:
        def on_settle(command: Any, facts: Any) -> Any:
            command.settle = False
            return original(command, facts)

        return on_settle

    with replaced(verdicts, "_on_settle", without_fence):
        yield


PLANT = plant(
    22,
    "not written is final only after a higher producer epoch was appended",
    "producers/test_producer_retries::test_not_written_is_final",
)(_planted)
