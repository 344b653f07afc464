"""A lost answer about the ISR is taken for a no: the leader goes back to the smaller set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog.errors import OncelogError
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.replication.isr import IsrKeeper
from oncelog_runtime.ports import KeyValue, Put
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    refused: dict[Leadership, None] = {}

    async def taken_for_no(self: Any, leadership: Any, key: str, value: bytes, compares: Any) -> KeyValue | None:
        try:
            result = await self._metadata.commit(compares, [Put(key, value)])
        except OncelogError:
            refused[leadership] = None
            return None
        return KeyValue(key, value, result.revision) if result.succeeded else None

    def not_again_so_soon(original: Any) -> Any:
        return lambda self, leadership: None if leadership in refused else original(self, leadership)

    with replaced(IsrKeeper, "_settle", lambda _: taken_for_no), replaced(IsrKeeper, "look", not_again_so_soon):
        yield


PLANT = plant(
    17,
    "until the store shows the key, the larger ISR counts",
    "replication/test_replica_failures::test_while_an_isr_answer_is_lost_the_larger_isr_counts",
)(_planted)
