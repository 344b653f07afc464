"""Only the first unsettled record of a key is at its head."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels.key_order import NO_KEY, KeyOrder


def order(*keys: int) -> KeyOrder:
    """Record n has the n-th key."""
    made = KeyOrder()
    for offset, key in enumerate(keys):
        made.add(key, offset)
    made.check()
    return made


def test_a_later_record_waits_for_the_earlier_one_of_its_key() -> None:
    keys = order(5, 6, 5)
    assert [keys.is_head(key, offset) for offset, key in enumerate((5, 6, 5))] == [True, True, False]
    assert keys.remove(5, 0) == 2
    assert keys.is_head(5, 2)
    keys.check()


def test_the_last_record_of_a_key_leaves_nothing() -> None:
    keys = order(5)
    assert keys.remove(5, 0) is None
    assert keys.chain(5) == []
    keys.check()


def test_records_without_a_key_have_no_order() -> None:
    keys = order(NO_KEY, NO_KEY)
    assert keys.is_head(NO_KEY, 0)
    assert keys.is_head(NO_KEY, 1)
    assert keys.remove(NO_KEY, 0) is None


@pytest.mark.parametrize(("gone", "left"), [(1, [0, 2, 3]), (3, [0, 1, 2])])
def test_a_record_behind_the_head_may_go(gone: int, left: list[int]) -> None:
    keys = order(5, 5, 5, 5)
    assert keys.remove(5, gone) is None
    assert keys.chain(5) == left
    keys.check()
    keys.add(5, 9)
    assert keys.chain(5) == [*left, 9]


def test_the_second_of_two_may_go() -> None:
    keys = order(5, 5)
    assert keys.remove(5, 1) is None
    keys.check()
    keys.add(5, 7)
    assert keys.remove(5, 0) == 7


def test_a_record_below_the_last_one_is_a_mistake() -> None:
    keys = order(5, 5)
    with pytest.raises(AssertionError, match="ascending"):
        keys.add(5, 1)


def test_everything_is_forgotten() -> None:
    keys = order(5, 5)
    keys.clear()
    assert keys.chain(5) == []
    keys.check()
