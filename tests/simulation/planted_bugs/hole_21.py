"""The test for a duplicate comes first: a last sequence at or below the newest is a repeat, wrap or no wrap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog.core.batch.sequence import last_sequence
from oncelog_partition_leader.core.producers.sequence_window import OLDER, SequenceWindow
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def repeats_first(original: Any) -> Any:
        def judge(self: Any, base_sequence: int, record_count: int, body_crc: int) -> Any:
            last = last_sequence(base_sequence, record_count)
            is_kept = any((batch.base_sequence, batch.last_sequence) == (base_sequence, last) for batch in self.kept)
            if not is_kept and last <= self.last_sequence:
                return OLDER
            return original(self, base_sequence, record_count, body_crc)

        return judge

    with replaced(SequenceWindow, "judge", repeats_first):
        yield


PLANT = plant(
    21,
    "first the test for next, then the distance in the ring",
    "producers/test_producer_retries::test_after_the_wrap_the_next_batch_is_next_and_no_duplicate",
)(_planted)
