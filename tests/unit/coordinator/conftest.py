"""What tests of the transaction table share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.coordinator.driver import Driver


@pytest.fixture
def driver() -> Iterator[Driver]:
    """At the end its state is legal, and a replay of its log, compacted or not, gives it again."""
    one = Driver()
    yield one
    one.table.check()
    for compacted in (False, True):
        assert one.replayed(compacted=compacted).durable() == one.as_a_later_life_sees_it(), (
            "replay gives another state"
        )
