"""Offset commits carry no sequence: whatever arrives last wins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oncelog_coordinator.core.offsets import offset_table
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    with (
        replaced(offset_table, "_is_newer_send", lambda _: lambda *_: True),
        replaced(offset_table, "_is_repeat", lambda _: lambda *_: False),
    ):
        yield


PLANT = plant(
    13,
    "offset commits carry a sequence per transaction and group, or per member epoch",
    "producers/test_producer_retries::test_a_late_copy_of_older_offsets_changes_nothing",
    "producers/test_producer_retries::test_a_late_copy_of_a_plain_commit_changes_nothing",
)(_planted)
