"""Which replicas move: as few as possible, in their places, and none against the racks. More in tests/property."""

from __future__ import annotations

from collections import Counter

from oncelog.types import PartitionId
from oncelog_partition_leader.core.cluster.assignment import Candidate
from oncelog_partition_leader.core.cluster.balance import balance, evacuate, is_short

MANY = 1_000


def places(*replicas: tuple[int, ...], topic: str = "t") -> dict[PartitionId, tuple[int, ...]]:
    return {PartitionId(topic, number): those for number, those in enumerate(replicas)}


def brokers(*racks: str) -> list[Candidate]:
    return [Candidate(number, rack) for number, rack in enumerate(racks)]


def held(assignment: dict[PartitionId, tuple[int, ...]]) -> Counter[int]:
    return Counter(broker for replicas in assignment.values() for broker in replicas)


def test_a_broker_with_less_than_four_fifths_of_its_share_is_short() -> None:
    full = places(*[(0, 1)] * 10)
    assert is_short(full, brokers("", "", ""))
    assert not is_short(full, brokers("", ""))
    assert not is_short(places(*[(0,)] * 5, *[(1,)] * 4), brokers("", ""))
    assert not is_short({}, [])


def test_a_new_broker_gets_its_share_and_nobody_else_moves() -> None:
    before = places(*[(0, 1)] * 6)
    moves = balance(before, brokers("", "", ""), MANY)
    assert held({**before, **moves}) == Counter({0: 4, 1: 4, 2: 4})
    assert len(moves) == 4
    assert all(2 in replicas for replicas in moves.values())


def test_a_replica_moves_in_its_place_and_takes_leaderships_along() -> None:
    before = places(*[(0, 1)] * 6)
    moves = balance(before, brokers("", "", ""), MANY)
    assert all(old == new or new == 2 for p in moves for old, new in zip(before[p], moves[p], strict=True))
    leads = Counter(replicas[0] for replicas in {**before, **moves}.values())
    assert leads[2] == 2, "the new broker leads its share"


def test_small_differences_and_level_brokers_are_left_alone() -> None:
    assert balance(places((0,), (1,), (0,)), brokers("", ""), MANY) == {}


def test_no_more_moves_than_are_allowed_and_none_of_a_busy_partition() -> None:
    before = places(*[(0,)] * 6)
    assert len(balance(before, brokers("", ""), 2)) == 2
    busy = [PartitionId("t", number) for number in range(5)]
    assert list(balance(before, brokers("", ""), MANY, busy)) == [PartitionId("t", 5)]


def test_no_two_replicas_come_into_one_rack_where_they_were_not() -> None:
    before = places(*[(0, 1)] * 4)
    moves = balance(before, brokers("a", "b", "b"), MANY)
    assert moves
    assert all(new == (0, 2) for new in moves.values()), "0 stays: its rack would be left"


def test_the_topic_that_is_most_unequal_goes_first() -> None:
    before = {**places((0,), (1,), topic="level"), **places((0,), (0,), (0,), topic="steep")}
    moves = balance(before, brokers("", ""), 1)
    assert [partition.topic_id for partition in moves] == ["steep"]


def test_who_leaves_holds_nothing_any_more() -> None:
    before = places((0, 1), (1, 2), (2, 0))
    moves = evacuate(before, [1], brokers("", "", "", ""), MANY)
    after = {**before, **moves}
    assert held(after)[1] == 0
    assert list(moves) == [PartitionId("t", 0), PartitionId("t", 1)]
    assert all(len(set(replicas)) == 2 for replicas in after.values())


def test_where_nobody_is_left_to_take_a_replica_it_stays() -> None:
    assert evacuate(places((0, 1)), [1], brokers("", ""), MANY) == {}


def test_an_evacuation_prefers_another_rack_over_an_emptier_broker() -> None:
    before = places((0, 1), (2, 0))
    racks = brokers("a", "b", "b", "a")
    moves = evacuate(before, [1], racks, MANY)
    assert moves == {PartitionId("t", 0): (0, 2)}, "3 holds nothing, and stands beside 0"
