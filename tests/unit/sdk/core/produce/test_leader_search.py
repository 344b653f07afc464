"""Partitions without a leader, and answers after which there may be another one."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.core.produce.accumulator import Batch
from oncelog.core.produce.actions import WakeAt
from oncelog.core.produce.leader_search import LeaderSearch, may_have_moved
from tests.unit.sdk.core.produce.known_facts import BROKER, P0, P1, KnownFacts


def test_each_look_in_vain_makes_the_pause_longer_until_there_is_a_leader() -> None:
    facts = KnownFacts(leaders={})
    search = LeaderSearch(facts)
    assert search.address_of(P0) is None
    assert search.address_of(P0) is None
    assert search.look_again(10) == ([], [WakeAt(P0, 10 + 2 * facts.delay)])
    facts.leaders[P0] = BROKER
    assert search.look_again(10) == ([P0], [])
    assert search.address_of(P0) == BROKER
    assert search.look_again(10) == ([], [])


def test_a_partition_that_is_gone_is_not_looked_for() -> None:
    search = LeaderSearch(KnownFacts(leaders={}))
    search.address_of(P0)
    search.forget(P0)
    assert search.look_again(0) == ([], [])


@pytest.mark.parametrize(
    ("leaders", "deposed"),
    [
        ({P0: "b:1", P1: "b:1"}, True),
        ({P0: "b:1", P1: BROKER}, False),
        ({P0: "b:1"}, False),
        ({}, False),
    ],
    ids=["both moved", "one moved", "one without a leader", "none known"],
)
def test_a_broker_is_deposed_when_all_partitions_of_a_call_have_another_leader(
    leaders: dict[object, str], deposed: bool
) -> None:
    batches = [Batch(partition, "orders", 0, 0) for partition in (P0, P1)]
    assert LeaderSearch(KnownFacts(leaders=leaders)).is_deposed(BROKER, batches) == deposed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "moved"),
    [
        (errors.NetworkError(), True),
        (errors.RequestTimedOutError(), True),
        (errors.UnknownTopicError(), True),
        (errors.NotLeaderError(), True),
        (errors.NotEnoughReplicasError(), False),
        (errors.MessageTooLargeError(), False),
    ],
    ids=lambda case: type(case).__name__,
)
def test_which_answers_another_leader_may_explain(error: errors.OncelogError, moved: bool) -> None:
    assert may_have_moved(error) == moved
