"""Each dead record is handed out once, until its letter could not be written."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels.record.burial import MAX_AT_ONCE, Burial


def test_a_dead_record_is_handed_out_once() -> None:
    burial = Burial()
    burial.add(3, "poison")
    assert burial.take() == [3]
    assert burial.take() == []
    burial.again(3)
    assert burial.take() == [3]
    assert burial.reasons == {3: "poison"}


def test_one_that_is_gone_is_not_handed_out() -> None:
    burial = Burial()
    burial.add(3, "poison")
    burial.done(3)
    assert burial.take() == []
    with pytest.raises(AssertionError):
        burial.again(3)


def test_so_many_are_handed_out_at_once() -> None:
    burial = Burial()
    for offset in range(MAX_AT_ONCE + 1):
        burial.add(offset, "")
    assert burial.take() == list(range(MAX_AT_ONCE))
    assert burial.take() == [MAX_AT_ONCE]


def test_all_are_forgotten() -> None:
    burial = Burial()
    burial.add(3, "poison")
    burial.clear()
    assert burial.take() == []
    assert burial.reasons == {}
