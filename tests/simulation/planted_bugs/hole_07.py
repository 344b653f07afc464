"""A reader skips by producer and offset range, as Kafka's clients do, instead of by the transaction's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog.client.consume import fetched_records
from oncelog.client.consume.fetcher import Fetcher
from oncelog.core.batch.header import BatchHeader, partition_tag
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    ranges: dict[int, set[tuple[int, int, int]]] = {}

    def remember(original: Any) -> Any:
        def arrived(self: Any, cursor: Any, item: Any, data: Any) -> None:
            known = ranges.setdefault(partition_tag(item.topic_id, item.partition), set())
            known.update((a.txn_producer_id, a.first_offset, a.marker_offset) for a in item.aborted)
            original(self, cursor, item, data)

        return arrived

    def by_range(header: BatchHeader, _aborted: Any, _skip_lost: bool = False) -> bool:
        return not any(
            header.txn_producer_id == producer_id and first <= header.base_offset < marker
            for producer_id, first, marker in ranges.get(header.partition_tag, ())
        )

    with replaced(Fetcher, "_arrived", remember), replaced(fetched_records, "committed", lambda _: by_range):
        yield


PLANT = plant(
    7,
    "the filter goes by the transaction's name and the winners",
    "producers/test_producer_retries::test_an_abort_hides_its_own_data_and_nothing_of_the_next",
    "producers/test_producer_retries::test_one_joint_marker_hides_only_the_losers",
)(_planted)
