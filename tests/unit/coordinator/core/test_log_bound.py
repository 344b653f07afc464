"""Which records of a shard's log are needed, which are repeated, and below which offset nothing is needed any more."""

from __future__ import annotations

import pytest

from oncelog_coordinator.core.log_bound import LogBound, LogLimits, Written
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord
from oncelog_coordinator.core.transactions.records import EPOCH_KEY

SMALL = LogLimits(slack_records=4, slack_bytes=1_000_000, repeats=2)


def put(key: int, size: int = 10) -> Written:
    record = OrphanRecord(key, ())
    return Written(record.key, record, size)


def gone(key: int) -> Written:
    return Written(f"orphan:{key}", None, 1, is_tombstone=True)


def keys(bound: LogBound, own: int = 0) -> list[str]:
    return [record.key for record in bound.repeats(own)]


def grown(bound: LogBound, *appends: list[Written]) -> None:
    """These appends, each committed behind the one before."""
    for items in appends:
        bound.committed(bound.appended(items), -1)
    bound.check()


def test_a_short_log_is_left_alone() -> None:
    bound = LogBound(SMALL)
    grown(bound, [put(1)], *([[put(2)]] * 6))
    assert (bound.span, bound.needed) == (7, 2)
    assert not bound.is_over
    assert keys(bound) == []


def test_the_oldest_needed_records_are_repeated_and_then_what_lies_before_is_free() -> None:
    bound = LogBound(SMALL)
    grown(bound, [put(1)], [put(2)], *([[put(3)]] * 10))
    assert bound.is_over
    assert bound.free_below == 0
    assert keys(bound) == ["orphan:1", "orphan:2"]
    grown(bound, [put(1), put(2), put(3)])
    assert not bound.is_over
    assert bound.free_below == 12


def test_an_append_repeats_as_many_records_as_it_has_of_its_own() -> None:
    bound = LogBound(SMALL)
    grown(bound, [put(number) for number in range(20)], *([[put(99)]] * 60))
    assert len(keys(bound)) == 2
    assert len(keys(bound, own=7)) == 7


def test_only_the_older_half_is_repeated() -> None:
    bound = LogBound(LogLimits(4, 1_000_000, 50))
    grown(bound, [put(1)], *([[put(2)]] * 9), [put(3)])
    assert bound.is_over
    assert keys(bound) == ["orphan:1"]


def test_a_repeat_that_is_not_committed_frees_nothing() -> None:
    """It may be lost with its owner, and the record that it repeats is needed then."""
    bound = LogBound(SMALL)
    grown(bound, [put(1)], *([[put(2)]] * 10))
    place = bound.appended([put(1), put(2)])
    bound.appended([put(2)])
    assert bound.free_below == 0
    bound.committed(place, 11)
    assert bound.free_below == 11


def test_what_a_later_append_will_carry_does_not_count_for_an_earlier_one() -> None:
    bound = LogBound(SMALL)
    grown(bound, [put(1)], *([[put(2)]] * 10))
    first = bound.appended([put(2)])
    second = bound.appended([put(1)])
    bound.committed(first, 11)
    assert bound.free_below == 0, "the record at 0 is the only one of its key that is surely in the log"
    bound.committed(second, 12)
    assert bound.free_below == 11


def test_an_append_that_leaves_nothing_needed_frees_what_is_below_its_end() -> None:
    """Another one is under way behind it, at a place that is not known yet."""
    bound = LogBound(SMALL)
    grown(bound, [put(1)])
    removal = bound.appended([gone(1)])
    bound.appended([put(2)])
    bound.committed(removal, 1)
    assert bound.free_below == 2
    bound.check()


def test_what_was_removed_is_not_needed_and_neither_is_its_tombstone() -> None:
    bound = LogBound(SMALL)
    grown(bound, [put(1)], [put(2)], [gone(1)], [gone(2)])
    assert (bound.needed, bound.span, bound.free_below) == (0, 0, 4)


def test_epoch_records_are_not_needed() -> None:
    bound = LogBound(SMALL)
    grown(bound, [Written(EPOCH_KEY, None, 5)], [put(1)])
    assert (bound.needed, bound.free_below) == (1, 1)


def test_an_append_without_a_known_offset_lies_right_behind_the_one_before() -> None:
    bound = LogBound(SMALL)
    bound.committed(bound.appended([put(1), put(2)]), 100)
    bound.appended([put(1)])
    bound.committed(bound.appended([put(2)]), 110)
    assert bound.free_below == 102, "and never at a place that may be too high"


def test_many_bytes_are_too_long_as_well() -> None:
    bound = LogBound(LogLimits(1_000, 500, 50))
    grown(bound, [put(1)], *([[put(2, 100)]] * 8))
    assert bound.is_over
    assert keys(bound) == ["orphan:1"]
    grown(bound, [put(1)])
    assert (bound.to_announce(), bound.free_below) == (8, 8)


def test_what_is_free_is_announced_when_it_is_worth_it() -> None:
    bound = LogBound(SMALL)
    grown(bound, *([[put(1)]] * 4))
    assert bound.to_announce() is None
    grown(bound, [put(1)])
    assert bound.to_announce() == 4
    bound.announced(4)
    assert bound.to_announce() is None
    with pytest.raises(AssertionError, match="only what is free"):
        bound.announced(5)


def test_a_replay_knows_what_is_where() -> None:
    bound = LogBound(SMALL)
    for offset, item in enumerate([put(1), *([put(2)] * 10)], 50):
        bound.replayed(offset, [item._replace(record=None)])
    for key in (1, 2):
        bound.know(f"orphan:{key}", OrphanRecord(key, (key,)))
    bound.know("orphan:3", OrphanRecord(3, ()))
    bound.loaded(50)
    assert bound.free_below == 50
    assert bound.repeats(1) == [OrphanRecord(1, (1,))]
    assert bound.to_announce() is None, "it was announced by an earlier owner"


def test_a_log_stays_short_whatever_is_written_and_however_many_ids_there_are() -> None:
    """The longest that it ever was, in records from the oldest needed one on: four times the needed ones and the slack."""
    bound = LogBound(LogLimits(100, 1_000_000, 10))
    longest = 0
    for number in range(30_000):
        key = number % 1_000 if number % 50 == 0 else 1_000 + number % 7  # many idle ids, few busy ones
        own = [put(key)]
        bound.committed(
            bound.appended([*own, *(Written(r.key, r, 10) for r in bound.repeats(1) if r.key != own[0].key)]), -1
        )
        longest = max(longest, bound.span - 4 * bound.needed)
    bound.check()
    assert longest <= 100
