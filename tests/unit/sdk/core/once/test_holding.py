"""A worker looks, claims and reads back before it begins, and does none of it again while nothing fails."""

from __future__ import annotations

import pytest

from oncelog.core.once.holding import (
    Begin,
    Claim,
    Copy,
    Done,
    Holding,
    Kept,
    Look,
    Membership,
    Met,
    ReadBack,
    fencing_of,
)
from oncelog.core.once.remembered import RememberedIds

TTL_MS = 1_000
NOW_MS = 50_000
ME, LATER = Membership("m", 3), Membership("m", 4)


def met(offset: int, record_id: str = "", membership: Membership = ME, now_ms: int = NOW_MS) -> Met:
    return Met(offset, record_id, membership, now_ms)


def holding(next_offset: int = 5, *ids: str) -> Holding:
    """One that has claimed, at this offset and with these ids."""
    made = Holding(TTL_MS)
    made.looked(Kept(next_offset, 7), ME)
    made.claimed(Kept(next_offset, 8))
    found = RememberedIds(TTL_MS)
    for record_id in ids:
        found.add(record_id, NOW_MS)
    made.read_back(found)
    return made


def test_the_steps_come_in_order_and_once() -> None:
    made = Holding(TTL_MS)
    assert made.step(met(5, "a")) == Look()
    made.looked(Kept(5, 7), ME)
    assert made.step(met(5, "a", now_ms=3)) == Claim(Kept(5, 8))
    made.claimed(Kept(5, 8))
    assert made.step(met(5, "a")) == ReadBack(NOW_MS - TTL_MS)
    made.read_back(RememberedIds(TTL_MS))
    assert made.step(met(5, "a")) == Begin(8)
    made.committed(met(5, "a"), 6, -1)
    assert made.step(met(6, "b")) == Begin(8)


def test_ids_that_live_for_ever_are_read_back_from_the_first() -> None:
    """Regression: a negative time means something else to a broker."""
    made = Holding(2 * NOW_MS)
    made.looked(None, ME)
    made.claimed(Kept(0, 1))
    assert made.step(met(0, "a")) == ReadBack(0)


def test_without_ids_nothing_is_read_back() -> None:
    made = Holding(TTL_MS)
    made.looked(None, ME)
    made.claimed(Kept(0, 1))
    assert made.step(met(0)) == Begin(1)


def test_a_partition_without_an_offset_begins_at_its_record() -> None:
    made = Holding(TTL_MS)
    made.looked(None, ME)
    assert made.step(met(4, now_ms=3)) == Claim(Kept(4, 3))


def test_a_claim_leaves_the_offset_and_takes_a_larger_number_which_is_at_least_the_time() -> None:
    made = Holding(TTL_MS)
    made.looked(Kept(5, 70_000), ME)
    assert made.step(met(9)) == Claim(Kept(5, 70_001)), "what lies between is a gap, or comes later"
    made.looked(Kept(5, 7), ME)
    assert made.step(met(9)) == Claim(Kept(5, NOW_MS))


def test_what_another_worker_did_is_done_before_anything_is_claimed() -> None:
    made = Holding(TTL_MS)
    made.looked(Kept(5, 7), ME)
    assert made.step(met(4)) == Done(5)
    assert made.step(met(5, now_ms=1)) == Claim(Kept(5, 8))


def test_a_claim_keeps_the_epoch_in_which_was_read() -> None:
    made = Holding(TTL_MS)
    made.looked(Kept(5, 70_000, 3), ME)
    assert made.step(met(5)) == Claim(Kept(5, 70_001, 3))
    made.claimed(Kept(5, 70_001, 3))
    made.committed(met(5), 6, 4)
    made.looked(Kept(6, 70_001, 4), LATER)
    assert made.step(met(6, membership=LATER)) == Begin(70_001), "the coordinator keeps what this worker has committed"


def test_a_copy_is_a_record_whose_id_is_known() -> None:
    made = holding(5, "a")
    assert made.step(met(5, "a")) == Copy()
    made.committed(met(5, "a"), 6, -1)
    assert made.kept == Kept(6, 8)
    assert made.step(met(6, "a", now_ms=NOW_MS + TTL_MS)) == Begin(8), "after its time it is a new record"


def test_what_is_done_here_is_remembered() -> None:
    made = holding(5)
    made.committed(met(5, "a"), 8, -1)
    assert made.kept == Kept(8, 8)
    assert made.step(met(8, "a")) == Copy()
    assert made.step(met(7)) == Done(8)


def test_a_new_epoch_of_the_same_owner_keeps_what_is_known() -> None:
    made = holding(5, "a")
    assert made.step(met(5, "a", LATER)) == Look()
    made.looked(Kept(5, 8), LATER)
    assert made.step(met(5, "a", LATER)) == Copy()


@pytest.mark.parametrize("kept", [None, Kept(5, 9), Kept(6, 8), Kept(5, 0)])
def test_after_another_worker_everything_is_read_again(kept: Kept | None) -> None:
    made = holding(5, "a")
    made.looked(kept, LATER)
    assert isinstance(made.step(met(6, "a", LATER)), Claim)
    made.claimed(Kept(6, NOW_MS))
    assert isinstance(made.step(met(6, "a", LATER)), ReadBack)


def test_after_a_failure_nothing_is_believed() -> None:
    made = holding(5, "a")
    made.lost()
    assert made.step(met(5, "a")) == Look()
    made.looked(Kept(5, 8), ME)
    assert made.step(met(5, "a", now_ms=1)) == Claim(Kept(5, 9)), "it claims again, also after its own number"


@pytest.mark.parametrize(
    "note", ["", "mine", "[]", "{}", '{"oncelog.once": "7"}', '{"oncelog.once": -7}', "7", '{"a": 7}', "[" * 4_096]
)
def test_a_note_of_another_program_has_no_number(note: str) -> None:
    assert fencing_of(note) == 0


def test_a_number_is_read_as_it_was_noted() -> None:
    assert fencing_of(Kept(5, 1_750_000_000_509).note()) == 1_750_000_000_509
