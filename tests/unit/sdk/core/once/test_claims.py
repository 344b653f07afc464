"""A record is done, another worker has it, or it is taken with a fencing number that grew."""

from __future__ import annotations

import pytest

from oncelog.core.once.claims import ID_DONE, Done, Row, Take, Wait, Worker, claim_id, claim_position

ME = Worker("me", lease_ms=100, now_ms=1_000)


def test_a_partition_without_a_row_begins_at_the_first_record_that_is_claimed() -> None:
    assert claim_position(None, 500, ME) == Take(Row(500, fencing=1, owner="me", until_ms=1_100))


@pytest.mark.parametrize(("offset", "is_done"), [(0, True), (4, True), (5, False), (6, False)])
def test_what_lies_below_the_position_was_done(offset: int, is_done: bool) -> None:
    assert isinstance(claim_position(Row(5, 1, "other"), offset, ME), Done) == is_done


def test_what_was_done_is_done_also_while_another_worker_has_the_lease() -> None:
    assert claim_position(Row(5, 1, "other", until_ms=9_000), 4, ME) == Done(Row(5, 1, "other", until_ms=9_000))


@pytest.mark.parametrize(("until_ms", "waits"), [(1_001, True), (1_000, False), (0, False)])
def test_the_lease_of_another_worker_is_waited_for(until_ms: int, waits: bool) -> None:
    answer = claim_position(Row(5, 3, "other", until_ms), 5, ME)
    assert answer == (Wait("other", 1) if waits else Take(Row(5, 4, "me", 1_100)))


def test_a_worker_that_goes_on_keeps_its_fencing_number() -> None:
    assert claim_position(Row(6, 3, "me", until_ms=1_050), 6, ME) == Take(Row(6, 3, "me", 1_100))
    assert claim_position(Row(6, 3, "me"), 6, ME) == Take(Row(6, 3, "me", 1_100))


def test_an_id_is_done_until_its_time_ends() -> None:
    done = Row(ID_DONE, 2, "other", until_ms=1_001)
    assert claim_id(done, ME) == Done(done)
    assert claim_id(Row(ID_DONE, 2, "other", until_ms=1_000), ME) == Take(Row(0, 3, "me", 1_100))
    assert claim_id(None, ME) == Take(Row(0, 1, "me", 1_100))


def test_an_id_on_which_another_worker_works_is_waited_for() -> None:
    assert claim_id(Row(0, 1, "other", until_ms=1_040), ME) == Wait("other", 40)
