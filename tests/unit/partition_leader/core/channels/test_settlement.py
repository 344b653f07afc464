"""A settlement that is out of range is refused before anything is changed."""

from __future__ import annotations

import pytest

from oncelog.errors import InvalidRequestError
from oncelog_partition_leader.core.channels.settlement import MAX_REASON, MAX_SETTLED_AT_ONCE, Settlement, Verdict
from oncelog_runtime.metadata.channel_values import DAY_MS
from tests.unit.partition_leader.core.channels.channel_rig import NOW, channel

BAD = [
    Settlement(3, 2, 1),
    Settlement(-1, 2, 1),
    Settlement(0, MAX_SETTLED_AT_ONCE, 1),
    Settlement(0, 0, 0),
    Settlement(0, 0, 1, Verdict.NACK, -2),
    Settlement(0, 0, 1, Verdict.NACK, DAY_MS + 1),
    Settlement(0, 0, 1, Verdict.REJECT, reason="r" * (MAX_REASON + 1)),
]


@pytest.mark.parametrize("settlement", BAD)
def test_what_is_out_of_range_changes_nothing(settlement: Settlement) -> None:
    delivery = channel()
    delivery.take("ann", 10, NOW)
    with pytest.raises(InvalidRequestError):
        delivery.settle("ann", settlement, NOW)
    assert delivery.describe(NOW).in_flight == 10
    assert delivery.next_write(NOW) is None


@pytest.mark.parametrize(
    "settlement",
    [
        Settlement(0, MAX_SETTLED_AT_ONCE - 1, 1),
        Settlement(0, 0, 1, Verdict.NACK, DAY_MS),
        Settlement(0, 0, 1, Verdict.REJECT, reason="r" * MAX_REASON),
    ],
)
def test_the_bounds_themselves_are_fine(settlement: Settlement) -> None:
    settlement.check()
