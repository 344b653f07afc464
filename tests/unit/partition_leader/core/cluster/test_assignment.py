"""Replicas of new topics."""

from __future__ import annotations

from collections import Counter

from oncelog_partition_leader.core.cluster.assignment import Candidate, alternate_racks, assign


def test_leaders_and_replicas_are_spread_evenly() -> None:
    brokers = [Candidate(number) for number in range(5)]
    replicas = assign(20, 3, brokers)
    assert all(len(set(one)) == 3 for one in replicas)
    assert set(Counter(one[0] for one in replicas).values()) == {4}
    assert set(Counter(broker for one in replicas for broker in one).values()) == {12}


def test_the_load_of_a_dead_leader_spreads_over_all_others() -> None:
    replicas = assign(20, 2, [Candidate(number) for number in range(5)])
    seconds = {one[1] for one in replicas if one[0] == 0}
    assert seconds == {1, 2, 3, 4}


def test_the_same_arguments_give_the_same_answer_in_any_order_of_brokers() -> None:
    brokers = [Candidate(3), Candidate(1), Candidate(2)]
    assert assign(4, 2, brokers, 7) == assign(4, 2, sorted(brokers), 7)


def test_neighbours_are_in_different_racks() -> None:
    brokers = [Candidate(1, "x"), Candidate(2, "x"), Candidate(3, "y"), Candidate(4, "y")]
    order = alternate_racks(brokers)
    racks = {broker.broker_id: broker.rack for broker in brokers}
    assert [racks[broker_id] for broker_id in order] == ["x", "y", "x", "y"]
    assert all(racks[one[0]] != racks[one[1]] for one in assign(1, 2, brokers))


def test_one_replica_needs_one_broker() -> None:
    assert assign(2, 1, [Candidate(9)]) == [(9,), (9,)]
