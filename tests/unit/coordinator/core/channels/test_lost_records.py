"""What is remembered of lost records is forgotten, and nothing else."""

from __future__ import annotations

import pytest

from oncelog_coordinator.core.channels.channel_records import Retry
from oncelog_coordinator.core.channels.offset_ranges import BLOCK
from oncelog_coordinator.core.limits import Limits
from tests.unit.coordinator.channel_driver import Led, outcome, ranges, retried
from tests.unit.coordinator.group_driver import Groups


def led() -> Led:
    return Led(Groups(Limits())).begin()


def pending(here: Led) -> dict[int, tuple[tuple[int, int], ...]]:
    return {item.txn_no: tuple(map(tuple, item.ranges)) for item in here.open().pending}


def test_settled_offsets_before_the_lost_ones_stay_settled() -> None:
    here = led()
    here.write(0, (5, 9), (BLOCK + 3, BLOCK + 3), (3 * BLOCK, 3 * BLOCK + 5))
    here.write(0, forget_from=7)
    assert outcome(here.open()) == (0, {5, 6})
    here.write(0, (0, 4))
    assert outcome(here.open()) == (7, set()), "the offsets are given out again, to records that are not settled"


def test_settled_before_goes_back_to_the_end_of_what_is_left() -> None:
    here = led()
    here.write(BLOCK + 10, (BLOCK + 12, BLOCK + 20))
    here.write(0, forget_from=BLOCK + 4)
    assert outcome(here.open()) == (BLOCK + 4, set())
    here.write(0, forget_from=3)
    assert outcome(here.open()) == (3, set())
    here.groups.fail_over()
    assert outcome(here.open()) == (3, set())


def test_delivery_counts_of_lost_records_begin_again() -> None:
    here = led()
    here.write(0, retried=(Retry(3, 2), Retry(4, 3), Retry(2_000, 1)))
    here.write(0, forget_from=4)
    assert retried(here.open()) == {3: (2, 0)}


def test_acknowledgements_of_lost_records_do_not_count_when_their_transaction_commits() -> None:
    here = led()
    here.ack(1, (2, 6), (8, 9))
    here.ack(2, (20, 30), pid=8)
    here.write(0, forget_from=5)
    assert pending(here) == {1: ranges((2, 4))}
    here.groups.table.check()
    here.mark(1, commit=True)
    here.mark(2, commit=True, pid=8)
    assert outcome(here.open()) == (0, {2, 3, 4})


@pytest.mark.parametrize("blocks", [3, 200])
def test_what_was_passed_and_not_removed_yet_does_not_count_again(blocks: int) -> None:
    here = led()
    here.write(0, (1, blocks * BLOCK + 10))
    here.ack(1, (0, 0))
    here.mark(1, commit=True)
    assert here.state is not None
    assert here.state.outdated, "a marker removes none of the blocks that it passes"
    here.write(0, forget_from=BLOCK + 5)
    assert outcome(here.open()) == (BLOCK + 5, set())
    here.groups.fail_over()
    here.groups.table.check()
    assert outcome(here.open()) == (BLOCK + 5, set())


def test_a_copy_forgets_nothing_that_was_settled_since() -> None:
    here = led()
    here.write(0, (1, 8))
    here.write(0, forget_from=5)
    here.write(0, (5, 6))
    here.write_no -= 2
    here.write(0, forget_from=5)
    assert outcome(here.open()) == (0, {1, 2, 3, 4, 5, 6})


def test_it_is_one_small_append_however_much_is_forgotten() -> None:
    here = led()
    here.write(0, *((n, n) for n in range(1, 1_000_000, 101)))
    for at in range(0, 100_000, 10_000):
        here.write(0, retried=tuple(Retry(n * 10 + 2, 1, 1_700_000_000_000) for n in range(at, at + 10_000)))
    for n in range(1, 6):
        here.ack(n, *((at, at) for at in range(1_000_000 + n, 1_010_000, 2)), pid=n)
    at = len(here.groups.log)
    here.write(0, forget_from=500)
    assert sum(len(key) + len(data or b"") for key, data in here.groups.log[at:]) < 4 << 20
    settled = {1, 102, 203, 304, 405}
    assert outcome(here.open()) == (0, settled)
    assert sorted(retried(here.open())) == [n for n in range(2, 500, 10) if n not in settled]
