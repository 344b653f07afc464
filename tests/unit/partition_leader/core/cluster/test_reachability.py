"""Who is heard, who is a majority, and what silence proves."""

from __future__ import annotations

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.reachability import Probe, Reachability, Verdict, judge

A, B, C = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(3, 13)
THREE = {0: 10, 1: 11, 2: 12}
FOUR = {**THREE, 3: 13}
SILENCE_MS = 1_000
LEASE_MS = 3_000


def broker(live: dict[int, int], *heard: BrokerRef, now_ms: int = 0) -> Reachability:
    """Broker 0, which has just heard these."""
    reach = Reachability(0, silence_max_ms=SILENCE_MS, lease_ms=LEASE_MS)
    reach.registered(live, now_ms)
    for ref in heard:
        reach.answered(ref, now_ms)
    return reach


def test_heard_is_who_answered_in_this_incarnation_not_long_ago() -> None:
    reach = broker(THREE)
    assert not reach.heard(A, 0), "registered, and never heard"
    assert reach.answered(A, 5)
    assert reach.heard(A, 5)
    assert not reach.answered(A, 500), "no news"
    assert reach.heard(A, 1_499)
    assert not reach.heard(A, 1_500)
    assert reach.answered(A, 1_600), "heard again"


def test_another_incarnation_has_to_answer_for_itself() -> None:
    reach = broker(THREE, A, B)
    reach.registered({**THREE, 1: 99}, 1)
    assert not reach.heard(A, 1)
    assert not reach.heard(BrokerRef(1, 99), 1)
    assert not reach.answered(A, 1), "a late answer of the old one"
    assert reach.heard(B, 1), "the others are not touched"


def test_a_majority_is_strict_and_counts_this_broker() -> None:
    assert broker(THREE, A).hears_majority(0)
    assert not broker(THREE).hears_majority(0)
    assert not broker(FOUR, A).hears_majority(0), "two of four: the other two may say the same"
    assert broker(FOUR, A, B).hears_majority(0)
    assert broker({0: 10}).hears_majority(0)


def test_a_minority_is_less_than_half_after_everybody_had_time_to_answer() -> None:
    reach = broker(THREE)
    assert not reach.is_minority(SILENCE_MS - 1), "they have only just registered"
    assert reach.is_minority(SILENCE_MS)
    reach.answered(A, SILENCE_MS)
    assert not reach.is_minority(SILENCE_MS)


def test_who_was_answered_by_no_majority_lately_may_be_given_up() -> None:
    reach = broker(THREE, A)
    assert not reach.may_be_given_up(500, 499)
    assert reach.may_be_given_up(500, 500), "A may have stopped hearing it by now; B never answered"
    reach.answered(B, 600)
    assert not reach.may_be_given_up(500, 600)
    assert broker(FOUR, A).may_be_given_up(500, 0), "two of four: the other two may be enough, if one more dies"
    reach.answered(A, 600)
    reach.failed(B)
    assert not reach.may_be_given_up(500, 600)
    reach.failed(A)
    assert reach.may_be_given_up(500, 600), "their last answers say nothing of now"
    reach.answered(A, 700)
    assert not reach.may_be_given_up(500, 700)
    reach.refused(A, 800)
    assert reach.may_be_given_up(500, 800), "a firewall may refuse, to both sides"
    assert not broker({0: 10}).may_be_given_up(500, 5_000)


def test_half_is_neither_majority_nor_minority() -> None:
    reach = broker(FOUR)
    reach.answered(A, 5_000)
    assert not reach.hears_majority(5_000)
    assert not reach.is_minority(5_000)


def test_whose_process_is_gone_is_not_counted() -> None:
    reach = broker(THREE, A, B)
    reach.refused(A, 5_000)
    reach.refused(B, 5_000)
    assert reach.hears_majority(5_000)
    assert not reach.is_minority(5_000)
    assert not reach.heard(B, 5_000)


def test_a_registration_that_outlives_the_refusal_is_of_a_living_process() -> None:
    reach = broker(THREE, A, B)
    reach.refused(A, 5_000)
    reach.refused(B, 5_000)
    reach.refused(B, 10_000)
    assert reach.is_gone(B, 5_000 + 2 * LEASE_MS), "the first refusal counts"
    assert not reach.is_gone(B, 5_001 + 2 * LEASE_MS)
    assert reach.is_minority(5_001 + 2 * LEASE_MS), "a firewall that refuses isolates as one that is silent does"


def test_an_answer_takes_the_refusal_back() -> None:
    reach = broker(THREE, A)
    reach.refused(A, 1)
    assert reach.answered(A, 2)
    assert reach.heard(A, 2)
    assert not reach.is_gone(A, 2)


def test_time_in_which_this_process_stood_still_is_not_their_silence() -> None:
    reach = broker(THREE, A, B)
    reach.slept(4_000)
    assert reach.heard(A, 4_500)
    assert not reach.heard(A, 5_000)


def test_an_opinion_is_given_only_by_who_could_have_heard() -> None:
    reach = broker(THREE, A)
    assert reach.opinion(A, 0) is True
    assert reach.opinion(A, SILENCE_MS) is False
    assert reach.opinion(B, SILENCE_MS - 1) is None, "it had no time to answer yet"
    assert reach.opinion(B, SILENCE_MS) is False
    assert reach.opinion(C, 0) is None, "not registered, as far as we know"
    reach = broker(THREE)
    reach.refused(B, 1)
    assert reach.opinion(B, 1) is False


@pytest.mark.parametrize(
    ("probe", "majority", "opinions", "verdict"),
    [
        (Probe.ANSWERED, True, [False], Verdict.ANSWERS),
        (Probe.GONE, False, [], Verdict.DEAD),
        (Probe.SILENT, True, [False], Verdict.DEAD),
        (Probe.SILENT, True, [False, None], Verdict.DEAD),
        (Probe.SILENT, True, [False, True], Verdict.CUT_OFF),
        (Probe.SILENT, True, [None], Verdict.UNDECIDED),
        (Probe.SILENT, True, [], Verdict.UNDECIDED),
        (Probe.SILENT, False, [False, False], Verdict.UNDECIDED),
        (Probe.SILENT, False, [True], Verdict.CUT_OFF),
    ],
)
def test_the_verdict(probe: Probe, majority: bool, opinions: list[bool | None], verdict: Verdict) -> None:
    assert judge(probe, hears_majority=majority, opinions=opinions) is verdict


def test_two_brokers_alone_never_declare_each_other_dead_by_silence() -> None:
    one = broker({0: 10, 1: 11}, A)
    assert not one.hears_majority(5_000)
    assert not one.is_minority(5_000), "who has the role keeps it: nobody else can be a majority"
