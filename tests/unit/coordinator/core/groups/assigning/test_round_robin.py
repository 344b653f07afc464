"""The round_robin assignor: Kafka's deal without racks, and as even a deal of near partitions with them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.assigning.round_robin import round_robin
from oncelog_coordinator.core.groups.assigning.sticky import Subscriber, Where
from tests.unit.coordinator.group_driver import part, topic_id

T, U = topic_id("t"), topic_id("u")


def readers(*racks: str, topics: tuple[str, ...] = (T, U)) -> list[Subscriber]:
    """Members a, b, ... in these racks."""
    return [Subscriber(name, name, frozenset(topics), rack) for name, rack in zip("abcdef", racks, strict=False)]


def where(*racks: str, **topics: int) -> Where:
    """Topics, whose partitions have a replica in these racks in turn."""
    ids = {topic_id(name): count for name, count in topics.items()}
    everything = [PartitionId(topic, number) for topic, count in ids.items() for number in range(count)]
    return Where(ids, {p: frozenset([racks[n % len(racks)]]) for n, p in enumerate(everything)} if racks else {})


def test_without_racks_partitions_are_dealt_one_by_one_over_all_topics() -> None:
    found = round_robin(readers("", ""), where(t=3, u=3))
    assert found["a"] == {part("t", 0), part("t", 2), part("u", 1)}
    assert round_robin(readers("r1", "r2"), where(t=3, u=3)) == found, "members name racks and brokers do not"
    assert round_robin(readers("", ""), where("r2", "r1", t=3, u=3)) == found, "and the other way round"


def test_each_member_takes_what_is_near_to_it() -> None:
    found = round_robin(readers("r1", "r2"), where("r2", "r1", t=4))
    assert found == {"a": {part("t", 1), part("t", 3)}, "b": {part("t", 0), part("t", 2)}}


def test_what_is_near_to_nobody_goes_first_to_who_has_nothing_near() -> None:
    found = round_robin(readers("r1", "r9"), where("r1", "far", t=4))
    assert found == {"a": {part("t", 0), part("t", 2)}, "b": {part("t", 1), part("t", 3)}}


def test_balance_comes_before_nearness() -> None:
    found = round_robin(readers("r1", "r2"), where("r1", t=5))
    assert sorted(map(len, found.values())) == [2, 3]


def test_what_is_near_to_nobody_goes_before_what_is_near_to_others_whatever_its_topic() -> None:
    at = {part("t", 0): "B", part("t", 1): "B", part("u", 0): "Z", part("u", 1): "Z"}
    found = round_robin(readers("A", "B"), Where({T: 2, U: 2}, {one: frozenset([rack]) for one, rack in at.items()}))
    assert found == {"a": {part("u", 0), part("u", 1)}, "b": {part("t", 0), part("t", 1)}}


def test_members_draw_only_from_their_own_topics() -> None:
    members = [Subscriber("a", "a", frozenset([T]), "r1"), Subscriber("b", "b", frozenset([T, U]), "r1")]
    found = round_robin(members, where("r1", t=2, u=3))
    assert found["a"] | found["b"] >= {part("u", 0), part("u", 1), part("u", 2)}
    assert all(partition.topic_id == T for partition in found["a"])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["", "r1", "r2", "r3"]), min_size=1, max_size=6), st.integers(1, 30), st.data())
def test_racks_change_who_reads_what_and_not_how_much(racks: list[str], count: int, data: st.DataObject) -> None:
    at = data.draw(st.lists(st.sampled_from(["r1", "r2", "r4"]), min_size=1, max_size=4))
    members = readers(*racks, topics=(T,))
    near, plain = round_robin(members, where(*at, t=count)), round_robin(members, where(t=count))
    assert {name: len(partitions) for name, partitions in near.items()} == {
        name: len(partitions) for name, partitions in plain.items()
    }
    assert len(frozenset().union(*near.values())) == count
