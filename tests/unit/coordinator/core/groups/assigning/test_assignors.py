"""The assignors as pure functions: everything is given once, evenly, and `range` deals as Kafka's does."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import UnsupportedAssignorError
from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.assigning.assignors import NAMES, assign, preferred
from oncelog_coordinator.core.groups.assigning.sticky import Subscriber, Where
from tests.unit.coordinator.group_driver import part, topic_id

T, U = topic_id("t"), topic_id("u")


def readers(*names: str, topics: tuple[str, ...] = (T, U)) -> list[Subscriber]:
    return [Subscriber(name, name, frozenset(topics)) for name in names]


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Subscriber], Where]:
    """Members with any subscriptions, topics of any size, racks or none."""
    topics = {topic_id(f"t{n}"): draw(st.integers(1, 7)) for n in range(draw(st.integers(1, 4)))}
    racks = draw(st.sampled_from([(), ("r1", "r2")]))
    where = Where(
        topics,
        {
            PartitionId(topic, number): frozenset(draw(st.sets(st.sampled_from(racks))))
            for topic, count in topics.items()
            for number in range(count)
        }
        if racks
        else {},
    )
    members = [
        Subscriber(
            f"m{n}",
            f"m{n}",
            frozenset(draw(st.sets(st.sampled_from(sorted(topics))))),
            draw(st.sampled_from(["", *racks])),
        )
        for n in range(draw(st.integers(1, 6)))
    ]
    return members, where


@settings(max_examples=200, deadline=None)
@given(groups(), st.sampled_from(NAMES))
def test_every_partition_has_one_subscribed_owner(group: tuple[list[Subscriber], Where], name: str) -> None:
    members, where = group
    given_ = assign(name, members, where)
    assert given_.keys() == {member.member_id for member in members}
    counts = Counter(partition for partitions in given_.values() for partition in partitions)
    wanted = {
        PartitionId(topic, number)
        for topic, count in where.partitions.items()
        if any(topic in member.topics for member in members)
        for number in range(count)
    }
    assert counts == dict.fromkeys(wanted, 1)
    assert all(partition.topic_id in one.topics for one in members for partition in given_[one.member_id])


@settings(max_examples=100, deadline=None)
@given(groups(), st.sampled_from(NAMES), st.randoms())
def test_the_order_of_the_input_does_not_matter(
    group: tuple[list[Subscriber], Where], name: str, random: object
) -> None:
    members, where = group
    shuffled = list(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assign(name, shuffled, where) == assign(name, members, where)


def test_range_gives_neighbours_of_each_topic() -> None:
    found = assign("range", readers("a", "b"), Where({T: 3, U: 3}))
    assert found["a"] == {part("t", 0), part("t", 1), part("u", 0), part("u", 1)}
    assert found["b"] == {part("t", 2), part("u", 2)}


def test_range_prefers_a_near_replica_within_the_share() -> None:
    members = [Subscriber("a", "a", frozenset([T]), "r1"), Subscriber("b", "b", frozenset([T]), "r2")]
    racks = {part("t", n): frozenset(["r2" if n < 2 else "r1"]) for n in range(4)}
    found = assign("range", members, Where({T: 4}, racks))
    assert found == {"a": {part("t", 2), part("t", 3)}, "b": {part("t", 0), part("t", 1)}}


def test_an_unknown_assignor_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedAssignorError, match="range, round_robin, sticky"):
        assign("best", readers("a"), Where({T: 1}))


def test_the_assignor_of_most_members_counts() -> None:
    assert preferred(["", ""]) == "sticky"
    assert preferred(["range", "sticky", "range"]) == "range"
    assert preferred(["sticky", "range"]) == "range"


def test_a_group_without_subscribers_has_no_assignment() -> None:
    assert assign("sticky", [], Where({T: 1})) == {}
