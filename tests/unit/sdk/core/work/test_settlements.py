"""What is said about records is said in few words, and each word has one fate."""

from __future__ import annotations

import pytest

from oncelog.core.work.settlements import (
    Fate,
    Item,
    Place,
    Refusal,
    Said,
    Verdict,
    items_of,
    judge,
    judge_at_new_leader,
    refusals_of,
)

ACK, NACK, TOUCH, REJECT, RELEASE = (Said(verdict) for verdict in Verdict)


def test_neighbours_are_one_item() -> None:
    told = [(Place(0, offset, 1), ACK) for offset in (4, 2, 3, 6)] + [(Place(1, 7, 1), ACK)]
    assert items_of(told) == [Item(0, 2, 4, 1, ACK), Item(0, 6, 6, 1, ACK), Item(1, 7, 7, 1, ACK)]


@pytest.mark.parametrize(
    "other",
    [
        (Place(0, 1, 2), ACK),
        (Place(0, 1, 1), NACK),
        (Place(0, 1, 1), Said(Verdict.NACK, 5)),
        (Place(0, 1, 1), Said(Verdict.REJECT, reason="r")),
        (Place(1, 1, 1), ACK),
        (Place(0, 2, 1), ACK),
    ],
)
def test_what_differs_is_an_item_of_its_own(other: tuple[Place, Said]) -> None:
    assert len(items_of([(Place(0, 0, 1), ACK), other])) == 2


def test_nothing_is_no_item() -> None:
    assert items_of([]) == []


def test_an_answer_may_be_about_a_part_of_an_item() -> None:
    refusals = [Refusal(0, 3, 4, False, True)]
    places = [Place(partition, offset, 1) for partition in (0, 1) for offset in (2, 3, 4, 5)]
    assert refusals_of(places, refusals) == {Place(0, 3, 1): refusals[0], Place(0, 4, 1): refusals[0]}


def test_the_first_that_an_answer_says_about_a_record_counts() -> None:
    one, all_of_them = Refusal(0, 4, 4, False, True), Refusal(0, 2, 5, False, False)
    places = [Place(0, 5, 2), Place(0, 4, 1), Place(0, 4, 2), Place(0, 6, 1)]
    assert refusals_of(places, [one, all_of_them]) == {places[0]: all_of_them, places[1]: one, places[2]: one}
    assert set(refusals_of(places, [all_of_them, one]).values()) == {all_of_them}


SETTLED = Refusal(0, 1, 1, is_settled=True, is_not_owner=True)
ANOTHERS = Refusal(0, 1, 1, is_settled=False, is_not_owner=True)
FAILED = Refusal(0, 1, 1, is_settled=False, is_not_owner=False)


@pytest.mark.parametrize("said", [ACK, NACK, TOUCH, REJECT, RELEASE])
@pytest.mark.parametrize("may_be_copy", [False, True])
def test_no_refusal_is_success_and_a_failure_stays_one(said: Said, may_be_copy: bool) -> None:
    assert judge(said, None, may_be_copy) is Fate.DONE
    assert judge(said, FAILED, may_be_copy) is Fate.FAILED


@pytest.mark.parametrize("said", [ACK, NACK, TOUCH, REJECT, RELEASE])
@pytest.mark.parametrize("refusal", [SETTLED, ANOTHERS])
def test_the_first_call_that_is_refused_was_too_late(said: Said, refusal: Refusal) -> None:
    assert judge(said, refusal, may_be_copy=False) is Fate.NOT_OURS


@pytest.mark.parametrize(
    ("said", "refusal", "fate"),
    [
        (ACK, SETTLED, Fate.DONE),
        (ACK, ANOTHERS, Fate.NOT_OURS),
        (REJECT, SETTLED, Fate.DONE),
        (REJECT, ANOTHERS, Fate.NOT_OURS),
        (NACK, ANOTHERS, Fate.DONE),
        (NACK, SETTLED, Fate.DONE),  # by its last delivery: it is dead
        (RELEASE, ANOTHERS, Fate.DONE),
        (TOUCH, ANOTHERS, Fate.NOT_OURS),
        (TOUCH, SETTLED, Fate.NOT_OURS),
    ],
)
def test_a_copy_may_find_its_own_work_done(said: Said, refusal: Refusal, fate: Fate) -> None:
    assert judge(said, refusal, may_be_copy=True) is fate


def test_deliveries_of_two_leaders_are_never_one_item() -> None:
    said = Said(Verdict.ACK)
    items = items_of([(Place(0, 1, 1, leader_epoch=3), said), (Place(0, 2, 1, leader_epoch=4), said)])
    assert [(item.first, item.last, item.leader_epoch) for item in items] == [(1, 1, 3), (2, 2, 4)]


@pytest.mark.parametrize(
    ("said", "fate"),
    [(ACK, None), (NACK, Fate.DONE), (RELEASE, Fate.DONE), (TOUCH, Fate.NOT_OURS), (REJECT, Fate.NOT_OURS)],
)
def test_only_an_acknowledgement_is_told_to_a_new_leader(said: Said, fate: Fate | None) -> None:
    assert judge_at_new_leader(said) is fate
