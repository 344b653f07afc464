"""The sticky assignor: balanced, and it moves the fewest."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.assigning.sticky import Subscriber, Where, sticky
from tests.unit.coordinator.group_driver import part, topic_id

T = topic_id("t")
Given = dict[str, frozenset[PartitionId]]


def moved(members: list[Subscriber], found: Given) -> int:
    """How many partitions that somebody owns, who may go on to own them, are another's now."""
    return sum(len({p for p in one.owned if p.topic_id in one.topics} - found[one.member_id]) for one in members)


def test_a_join_moves_only_the_new_members_share() -> None:
    members = [Subscriber(f"m{n:02}", f"m{n:02}", frozenset([T])) for n in range(50)]
    where = Where({T: 200})
    first = sticky(members, where)
    members = [replace(one, owned=first[one.member_id]) for one in members]
    found = sticky([*members, Subscriber("new", "new", frozenset([T]))], where)
    assert moved(members, found) == 200 // 51 == len(found["new"])


def test_a_leave_moves_only_what_was_the_leavers() -> None:
    members = [Subscriber(f"m{n:02}", f"m{n:02}", frozenset([T])) for n in range(50)]
    where = Where({T: 200})
    first = sticky(members, where)
    rest = [replace(one, owned=first[one.member_id]) for one in members[1:]]
    assert moved(rest, sticky(rest, where)) == 0


@st.composite
def owned_groups(draw: st.DrawFn, *, same: bool) -> tuple[list[Subscriber], Where]:
    """Members that own anything, also what they may no longer have."""
    topics = {topic_id(f"t{n}"): draw(st.integers(1, 3)) for n in range(draw(st.integers(1, 3)))}
    everything = [PartitionId(topic, number) for topic, count in topics.items() for number in range(count + 1)]
    count = draw(st.integers(1, 4))
    owners = [draw(st.integers(-1, count - 1)) for _ in everything]
    members = []
    for at in range(count):
        subscribed = set(topics) if same else draw(st.sets(st.sampled_from(sorted(topics)), min_size=1))
        owned = frozenset(partition for partition, owner in zip(everything, owners, strict=True) if owner == at)
        members.append(Subscriber(f"m{at}", f"m{at}", frozenset(subscribed), owned=owned))
    return members, Where(topics)


def fewest_moves(members: list[Subscriber], where: Where) -> int:
    """The fewest moves of all balanced assignments, found by trying every one."""
    everything = [PartitionId(topic, number) for topic, count in where.partitions.items() for number in range(count)]
    valid = set(everything)
    kept_most = 0
    share, more = divmod(len(everything), len(members))
    for owners in product(range(len(members)), repeat=len(everything)):
        loads = sorted(owners.count(at) for at in range(len(members)))
        if loads != [share] * (len(members) - more) + [share + 1] * more:
            continue
        kept = sum(partition in members[at].owned for partition, at in zip(everything, owners, strict=True))
        kept_most = max(kept_most, kept)
    return sum(len(one.owned & valid) for one in members) - kept_most


@settings(max_examples=60, deadline=None)
@given(owned_groups(same=True))
def test_with_equal_subscriptions_it_is_balanced_and_moves_the_fewest(group: tuple[list[Subscriber], Where]) -> None:
    members, where = group
    if len(members) ** sum(where.partitions.values()) > 20_000:
        return
    found = sticky(members, where)
    loads = [len(partitions) for partitions in found.values()]
    assert max(loads) - min(loads) <= 1
    valid = {PartitionId(topic, number) for topic, count in where.partitions.items() for number in range(count)}
    still = [replace(one, owned=one.owned & valid) for one in members]
    assert moved(still, found) == fewest_moves(members, where)


def can_be_more_even(members: list[Subscriber], found: Given) -> bool:
    """True when a partition could go, through a chain of members, from one to another that has two fewer."""
    reach = {one.member_id: {one.member_id} for one in members}
    for _ in members:
        for giver, taker in product(members, members):
            if any(partition.topic_id in taker.topics for partition in found[giver.member_id]):
                for start in reach.values():
                    if giver.member_id in start:
                        start.add(taker.member_id)
    load = {member_id: len(partitions) for member_id, partitions in found.items()}
    return any(load[start] - load[end] >= 2 for start, ends in reach.items() for end in ends)


@settings(max_examples=200, deadline=None)
@given(owned_groups(same=False))
def test_with_other_subscriptions_no_chain_of_moves_makes_it_more_even(group: tuple[list[Subscriber], Where]) -> None:
    members, where = group
    found = sticky(members, where)
    assert not can_be_more_even(members, found)


@settings(max_examples=100, deadline=None)
@given(owned_groups(same=False))
def test_what_is_even_stays_as_it_is(group: tuple[list[Subscriber], Where]) -> None:
    members, where = group
    found = sticky(members, where)
    again = [replace(one, owned=found[one.member_id]) for one in members]
    assert sticky(again, where) == found


def test_a_near_member_is_preferred_for_what_is_free() -> None:
    members = [Subscriber("a", "a", frozenset([T]), "r1"), Subscriber("b", "b", frozenset([T]), "r2")]
    racks = {part("t", n): frozenset(["r2" if n < 2 else "r1"]) for n in range(4)}
    found = sticky(members, Where({T: 4}, racks))
    assert found == {"a": {part("t", 2), part("t", 3)}, "b": {part("t", 0), part("t", 1)}}
    kept = [
        replace(one, owned=frozenset(part("t", n) for n in at))
        for one, at in zip(members, [(0, 1), (2, 3)], strict=True)
    ]
    assert moved(kept, sticky(kept, Where({T: 4}, racks))) == 0, "nothing moves only to be nearer"


def test_no_subscribers_get_nothing() -> None:
    assert sticky([], Where({T: 1})) == {}
