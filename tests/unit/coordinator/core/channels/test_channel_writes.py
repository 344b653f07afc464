"""A write settles what it names and no more, keeps its records few, and is refused when it is too much."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import InvalidRequestError
from oncelog_coordinator.core.channels.channel_records import Retry
from oncelog_coordinator.core.channels.channel_writes import OFFSET_MAX
from oncelog_coordinator.core.channels.offset_ranges import BLOCK
from oncelog_coordinator.core.limits import Limits
from tests.unit.coordinator.channel_driver import Led, outcome, retried
from tests.unit.coordinator.group_driver import Groups


def led(**limits: Any) -> Led:
    return Led(Groups(Limits(**limits))).begin()


def kinds(here: Led, at: int) -> list[str]:
    """The kinds of the records since then, and which of them remove something."""
    prefix = f":__channel.{here.channel_id}:{here.partition}"
    return [("-" if data is None else "") + (key.partition(prefix)[2] or ":head") for key, data in here.groups.log[at:]]


def test_what_is_contiguous_moves_settled_before_and_writes_no_block() -> None:
    here = led()
    at = len(here.groups.log)
    here.write(0, (0, 5 * BLOCK))
    assert outcome(here.open()) == (5 * BLOCK + 1, set())
    assert kinds(here, at) == [":head", ":s:5"], "only the block in which it ends"


def test_only_blocks_that_change_are_written() -> None:
    here = led()
    here.write(0, (5, 5), (BLOCK + 5, BLOCK + 5))
    at = len(here.groups.log)
    here.write(0, (5, 5), (BLOCK + 6, BLOCK + 6))
    assert kinds(here, at) == [":head", ":s:1"]


def test_a_gap_that_is_filled_takes_what_lies_behind_it() -> None:
    here = led()
    here.write(0, (1, 4), (6, 6))
    assert outcome(here.open()) == (0, {1, 2, 3, 4, 6})
    here.write(0, (0, 0))
    assert outcome(here.open()) == (5, {6})
    here.write(6)
    assert outcome(here.open()) == (7, set())


def test_blocks_that_lie_before_are_removed_with_the_write_that_passes_them() -> None:
    here = led()
    here.write(0, (5, 5), (BLOCK + 5, BLOCK + 5), retried=(Retry(7, 1),))
    at = len(here.groups.log)
    here.write(2 * BLOCK)
    assert sorted(kinds(here, at)) == ["-:r:0", "-:s:0", "-:s:1", ":head"]
    assert here.state is not None
    assert not here.state.outdated


def test_a_block_that_is_written_again_after_a_seek_is_not_removed() -> None:
    here = led()
    here.write(0, (5, 5), (BLOCK + 5, BLOCK + 5))
    here.seek(0)
    at = len(here.groups.log)
    here.write(0, (9, 9))
    assert kinds(here, at) == [":head", ":s:0", "-:s:1"]
    assert outcome(here.open()) == (0, {9})


# ---------------------------------------------------------------- retried records


def test_the_newest_state_of_a_retried_record_is_told_until_it_is_settled() -> None:
    here = led()
    here.write(0, retried=(Retry(3, 1, 500), Retry(4, 1), Retry(2_000, 2)))
    here.write(0, retried=(Retry(3, 2, 900),))
    assert retried(here.open()) == {3: (2, 900), 4: (1, 0), 2_000: (2, 0)}
    here.groups.fail_over()
    here.write(0, (3, 3))
    assert retried(here.open()) == {4: (1, 0), 2_000: (2, 0)}
    at = len(here.groups.log)
    here.write(0, (2_000, 2_000))
    assert kinds(here, at) == [":head", ":s:1", "-:r:1"], "nothing is left in the block"
    here.write(5)
    assert retried(here.open()) == {}


def test_what_is_settled_is_not_retried() -> None:
    here = led()
    here.write(4, (6, 6), retried=(Retry(3, 1), Retry(6, 1)))
    here.write(0, retried=(Retry(6, 2),))
    assert retried(here.open()) == {}


def test_settled_by_a_transaction_it_is_not_told_either() -> None:
    here = led()
    here.write(0, retried=(Retry(3, 1), Retry(4, 1)))
    here.ack(1, (3, 3))
    here.mark(1, commit=True)
    assert retried(here.open()) == {4: (1, 0)}
    here.groups.fail_over()
    assert retried(here.open()) == {4: (1, 0)}


def test_only_so_many_retried_records_are_remembered() -> None:
    here = led(max_channel_retried=2)
    here.write(0, retried=(Retry(3, 1), Retry(4, 1), Retry(2_000, 1)))
    assert retried(here.open()) == {3: (1, 0), 4: (1, 0)}
    here.write(0, (3, 3), retried=(Retry(4, 2), Retry(5, 1)))
    assert retried(here.open())[4] == (2, 0), "those that are known may change"
    here.write(0, retried=(Retry(2_000, 1),))
    assert len(retried(here.open())) == 2


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("before", "settled", "more"),
    [
        (-1, [], {}),
        (OFFSET_MAX + 1, [], {}),
        (0, [(3, 2)], {}),
        (0, [(-1, 2)], {}),
        (0, [(0, 1_000_001)], {}),
        (0, [(0, 0)] * 10_001, {}),
        (0, [], {"retried": (Retry(1_000_001, 1),)}),
        (0, [], {"retried": (Retry(-1, 1),)}),
        (0, [], {"retried": (Retry(3, 0),)}),
        (0, [], {"retried": (Retry(3, 1 << 31),)}),
        (0, [], {"retried": (Retry(3, 1, -1),)}),
        (0, [], {"retried": (Retry(3, 1),) * 10_001}),
        (0, [(1, 1)], {"seek": True}),
        (0, [], {"seek": True, "retried": (Retry(3, 1),)}),
        (0, [], {"forget_from": -1}),
        (0, [], {"forget_from": OFFSET_MAX + 1}),
        (0, [], {"forget_from": 5, "seek": True}),
        (0, [(1, 1)], {"forget_from": 5}),
        (0, [], {"forget_from": 5, "retried": (Retry(3, 1),)}),
    ],
)
def test_a_write_that_no_leader_makes_is_refused(before: int, settled: Any, more: Any) -> None:
    with pytest.raises(InvalidRequestError):
        led().write(before, *settled, **more)


def test_the_window_counts_from_what_is_settled_with_the_write() -> None:
    here = led()
    here.write(500, (1_000_500, 1_000_500))
    here.write(0, (1_000_499, 1_000_499))
    with pytest.raises(InvalidRequestError):
        here.write(0, (1_000_501, 1_000_501))
    here.seek(0)
    with pytest.raises(InvalidRequestError):
        here.write(0, (1_000_500, 1_000_500))


def test_the_largest_write_fits_an_append() -> None:
    here = led()
    offsets = range(1, 1_000_000, 10)
    for at in range(0, 100_000, 10_000):
        here.write(0, retried=tuple(Retry(n, 1, 1_700_000_000_000) for n in offsets[at : at + 10_000]))
    at = len(here.groups.log)
    spans = [(n, n) for n in range(2, 1_000_000, 100)]
    here.write(0, *spans, retried=tuple(Retry(n, 2, 1_700_000_000_000) for n in offsets[5::10]))
    size = sum(len(key) + len(data or b"") for key, data in here.groups.log[at:])
    assert 2 << 20 < size < 4 << 20
