"""What keeps a broker from being stopped, and from being ready."""

from __future__ import annotations

from itertools import product

import pytest

from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.cluster.draining import (
    DrainFacts,
    Leaving,
    Remaining,
    Start,
    drains,
    is_left_over,
    known_brokers,
    leaving,
    out_of_sync,
    remaining,
    start_step,
    turns,
    why_skipped,
)
from oncelog_runtime.metadata.cluster_keys import Partition

A, B, C = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(3, 13)
ALL = {1: 11, 2: 12, 3: 13}


def partition(leader: BrokerRef, *isr: BrokerRef, replicas: tuple[int, ...] = (1, 2, 3)) -> Partition:
    return Partition("t", replicas, leader, 4, isr)


def left(*partitions: Partition, live: dict[int, int] = ALL, min_insync: int = 2) -> Remaining:
    return remaining(A, partitions, live, lambda _topic: min_insync)


def test_a_follower_of_full_isrs_is_safe_to_stop() -> None:
    assert left(partition(B, A, B, C)) == Remaining(0, 0, False)
    assert left(partition(B, A, B, C)).done


def test_a_leadership_is_left_while_another_replica_exists() -> None:
    assert left(partition(A, A, B, C)) == Remaining(1, 0, True)
    assert left(partition(A, A, replicas=(1,))).done, "nobody can take over the only replica"


def test_a_partition_needs_who_keeps_its_isr_at_the_minimum() -> None:
    assert left(partition(B, A, B)) == Remaining(0, 1, True), "broker 3 may come back"
    assert left(partition(B, A, B), min_insync=1).done
    assert left(partition(B, B, C)).done, "who is not in the ISR is not missed"


def test_not_more_can_be_asked_than_there_are_others() -> None:
    assert left(partition(B, A, B, replicas=(1, 2))).done
    assert left(partition(B, A, B, C), min_insync=3).done


def test_a_registered_member_counts_only_under_its_incarnation() -> None:
    assert left(partition(B, A, B, C), live={1: 11, 2: 12, 3: 99}) == Remaining(0, 1, True)
    assert left(partition(B, A, B), live={1: 11, 2: 12, 3: 99}).can_improve, "it is back, and will join"


def test_waiting_is_of_no_use_when_nobody_is_there() -> None:
    alone = left(partition(A, A), live={1: 11})
    assert (alone.done, alone.can_improve) == (False, False)
    assert str(alone) == "1 leaderships to hand over and 1 partitions that would have too few in-sync replicas"


def test_a_small_cluster_and_the_last_broker_skip_the_drain() -> None:
    assert "2 brokers" in why_skipped(A, {1, 2}, {1: 11, 2: 12})
    assert "no other broker" in why_skipped(A, {1, 2, 3}, {1: 11})
    assert why_skipped(A, {1, 2, 3}, {1: 11, 2: 12}) == "", "broker 3 will come back: it is waited for"
    assert known_brokers([partition(A, A)], {1: 11, 9: 1}) == {1, 2, 3, 9}


def test_in_sync_means_under_the_present_incarnation() -> None:
    partitions = [(PartitionId("t", 0), partition(B, A, B)), (PartitionId("u", 0), partition(B, B, C, replicas=(2, 3)))]
    assert out_of_sync(A, partitions, lambda _: ()) == 0
    assert out_of_sync(BrokerRef(1, 99), partitions, lambda _: ()) == 1
    assert out_of_sync(C, partitions, lambda _: ()) == 1


def test_a_replica_that_is_being_added_is_no_duty_yet() -> None:
    partitions = [(PartitionId("t", 0), partition(A, A, B)), (PartitionId("u", 0), partition(A, A, B))]
    assert out_of_sync(C, partitions, lambda p: (3,) if p.topic_id == "t" else ()) == 1


# ---------------------------------------------------------------- steps

ME, FORMER, NEWER = BrokerRef(1, 11), BrokerRef(1, 10), BrokerRef(1, 12)
FACTS = [
    DrainFacts(me, holder, registered, listed)
    for me, holder, registered, listed in product(
        (ME, BrokerRef(1, 0)), (None, ME, FORMER, NEWER, B), (True, False), (True, False)
    )
]


@pytest.mark.parametrize("facts", FACTS, ids=str)
def test_every_combination_of_facts_has_its_step(facts: DrainFacts) -> None:
    holder = facts.holder if facts.holder_is_registered else None
    if not facts.me.incarnation or not facts.has_listing:
        expected = Start.NOT_REGISTERED
    elif holder == facts.me:
        expected = Start.DRAINS
    elif holder is not None:
        expected = Start.WAIT
    else:
        expected = Start.WRITE_KEY
    assert start_step(facts) is expected
    assert drains(facts) is (holder == ME == facts.me)


@pytest.mark.parametrize("facts", FACTS, ids=str)
def test_only_the_key_of_a_former_incarnation_is_left_over(facts: DrainFacts) -> None:
    assert is_left_over(facts) is (facts.me == ME and facts.holder == FORMER)


@pytest.mark.parametrize(
    ("counts", "came_back", "expected"),
    [
        (Remaining(0, 0, False), 0, Leaving.SAFE),
        (Remaining(0, 0, True), 0, Leaving.SAFE),
        (Remaining(1, 0, True), 0, Leaving.WAIT),
        (Remaining(0, 1, True), 0, Leaving.WAIT),
        (Remaining(1, 0, False), 0, Leaving.ALONE),
        (Remaining(0, 1, False), 0, Leaving.ALONE),
        (Remaining(2, 0, True), 1, Leaving.WAIT),
        (Remaining(2, 1, True), 2, Leaving.ALONE),
    ],
)
def test_a_process_waits_only_while_that_helps(counts: Remaining, came_back: int, expected: Leaving) -> None:
    assert leaving(counts, came_back) is expected


@pytest.mark.parametrize(
    ("count", "together", "commits"), [(0, 0, 0), (4, 4, 1), (11, 5, 3), (500, 5, 100), (501, 6, 84)]
)
def test_leaderships_go_a_few_at_a_time_and_in_a_hundred_commits_at_most(
    count: int, together: int, commits: int
) -> None:
    found = [list(some) for some in turns(list(range(count)), lambda _: False)]
    assert (max(map(len, found), default=0), len(found)) == (together, commits)
    assert [one for some in found for one in some] == list(range(count))


def test_users_partitions_go_first() -> None:
    internal = {1, 4}
    (found,) = turns([1, 2, 3, 4, 5], internal.__contains__)
    assert list(found) == [2, 3, 5, 1, 4]
