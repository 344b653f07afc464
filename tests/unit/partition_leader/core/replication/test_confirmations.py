"""Which questions of a leader are answered by enough replicas."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from oncelog_partition_leader.core.replication.confirmations import Confirmations

A, B, C, D = 1, 2, 3, 4


def asked(count: int, *others: int, **answers: int) -> Confirmations:
    """So many questions; `answers`: by name of a replica."""
    questions = Confirmations(others)
    for _ in range(count):
        questions.ask()
    for name, number in answers.items():
        questions.answered({"A": A, "B": B, "C": C}[name], number)
    return questions


def test_questions_are_numbered() -> None:
    questions = Confirmations([A])
    assert (questions.asked, questions.ask(), questions.ask(), questions.asked) == (0, 1, 2, 2)


def test_who_is_alone_is_confirmed_at_once() -> None:
    assert asked(3).confirmed((), 1) == 3


def test_without_a_minimum_everybody_who_may_be_elected_has_to_confirm() -> None:
    questions = asked(3, A, B, A=3, B=1)
    assert questions.confirmed({A, B}, 1) == 1
    assert questions.confirmed({A}, 1) == 3, "B has left the ISR: nobody elects it"
    assert questions.confirmed((), 1) == 3


def test_with_a_minimum_of_two_one_of_two_followers_is_enough() -> None:
    assert asked(3, A, B, A=2, B=0).confirmed({A, B}, 2) == 2


def test_a_minimum_that_the_others_cannot_reach_needs_one_all_the_same() -> None:
    """It may have been lowered for a successor."""
    assert asked(3, A, B).confirmed({A, B}, 3) == 0
    assert asked(3, A, B, B=3).confirmed({A, B}, 3) == 3
    assert asked(3, A).confirmed({A}, 2) == 0


@pytest.mark.parametrize("gone", [{B}, {A, B}])
def test_who_has_ended_is_not_waited_for(gone: set[int]) -> None:
    assert asked(3, A, B, A=3).confirmed({A, B}, 1, gone) == 3


def test_who_has_ended_may_have_led_and_another_one_after_it() -> None:
    questions = asked(3, A, B)
    assert questions.confirmed({A}, 1, {A}) == 0, "A led, took B into the ISR, and died: B is to be asked"
    questions.answered(B, 3)
    assert questions.confirmed({A}, 1, {A}) == 3


def test_who_has_ended_has_confirmed_nothing_for_those_who_live() -> None:
    """B may be back already: an old leader hears of that as late as of its successor A."""
    assert asked(3, A, B).confirmed({A}, 2, {B}) == 0


def test_an_older_answer_that_comes_late_takes_nothing_back() -> None:
    questions = asked(3, A, A=3)
    questions.answered(A, 2)
    assert questions.confirmed({A}, 1) == 3


def test_who_is_electable_and_unknown_has_confirmed_nothing() -> None:
    assert asked(3, A, A=3).confirmed({A, D}, 1) == 0


@pytest.mark.parametrize("minimum", [1, 2, 3])
def test_no_new_leader_has_the_minimum_among_those_who_did_not_confirm(minimum: int) -> None:
    """All ways in which three followers may have confirmed: a new leader needs itself and the minimum, all unconfirmed."""
    others = (A, B, C)
    for confirming in chain.from_iterable(combinations(others, count) for count in range(4)):
        questions = asked(1, *others, **{{A: "A", B: "B", C: "C"}[one]: 1 for one in confirming})
        could_commit = len(others) - len(confirming) >= minimum
        assert questions.confirmed(others, minimum) == (0 if could_commit else 1), (confirming, minimum)
