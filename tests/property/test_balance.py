"""Plans of moves: whatever the assignment is, level in the end, with as few moves as can be, and nothing lost."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from oncelog.types import PartitionId
from oncelog_partition_leader.core.cluster.assignment import Candidate, assign
from oncelog_partition_leader.core.cluster.balance import balance, evacuate, is_short

Replicas = dict[PartitionId, tuple[int, ...]]
BIG = 10_000


@st.composite
def assignments(draw: st.DrawFn) -> tuple[Replicas, list[Candidate]]:
    """Topics of a cluster, and its brokers: some of them may be new."""
    count, new = draw(st.integers(1, 6)), draw(st.integers(0, 3))
    racks = draw(st.integers(1, 3))
    brokers = [Candidate(i, f"r{i % racks}" if racks > 1 else "") for i in range(count + new)]
    found: Replicas = {}
    for topic in range(draw(st.integers(0, 4))):
        factor = draw(st.integers(1, min(3, count)))
        rows = assign(draw(st.integers(1, 12)), factor, brokers[:count], draw(st.integers(0, 50)))
        found.update({PartitionId(f"{topic}", p): replicas for p, replicas in enumerate(rows)})
    return found, brokers


def counts(assignment: Replicas, brokers: list[Candidate]) -> list[int]:
    held = Counter(b for replicas in assignment.values() for b in replicas)
    return [held[broker.broker_id] for broker in brokers]


def sound(before: Replicas, moves: Replicas) -> None:
    for partition, replicas in moves.items():
        assert len(set(replicas)) == len(replicas) == len(before[partition])
        assert replicas != before[partition]


@given(assignments())
def test_balance_levels_with_the_fewest_moves(case: tuple[Replicas, list[Candidate]]) -> None:
    before, brokers = case
    moves = balance(before, brokers, BIG)
    sound(before, moves)
    assert all(sum(a != b for a, b in zip(before[p], replicas, strict=True)) == 1 for p, replicas in moves.items()), (
        "one replica of a partition at a time"
    )
    held, after = counts(before, brokers), counts({**before, **moves}, brokers)
    # A partition moves one replica at a time, so what is left over is the next plan's.
    rest = balance({**before, **moves}, brokers, BIG)
    while rest:
        sound({**before, **moves}, rest)
        moves = {**moves, **rest}
        rest = balance({**before, **moves}, brokers, BIG)
    after = counts({**before, **moves}, brokers)
    assert sum(after) == sum(held)
    moved = sum(len(set(before[p]) - set(replicas)) for p, replicas in moves.items())
    low = sum(held) // len(brokers)
    assert moved <= sum(max(0, count - low) for count in held), "nobody gives more than what is above the fair share"
    if len(brokers) > max((len(r) for r in before.values()), default=0) and max(after) - min(after) > 1:
        full, empty = after.index(max(after)), after.index(min(after))
        racks = {broker.broker_id: broker.rack for broker in brokers}
        movable = [r for r in {**before, **moves}.values() if full in r and empty not in r]
        movable = [r for r in movable if racks[empty] not in [racks[b] for b in r if b != full] or not racks[empty]]
        assert not movable, "only what cannot move stays unequal"


@given(assignments())
def test_a_level_cluster_is_left_alone(case: tuple[Replicas, list[Candidate]]) -> None:
    before, brokers = case
    after = dict(before)
    while moves := balance(after, brokers, BIG):
        after.update(moves)
    assert balance(after, brokers, BIG) == {}


@given(assignments(), st.integers(0, 5), st.integers(1, 5))
def test_a_leaving_broker_is_emptied(case: tuple[Replicas, list[Candidate]], leaving: int, most: int) -> None:
    before, brokers = case
    first = evacuate(before, {leaving}, brokers, most)
    sound(before, first)
    assert len(first) <= most
    after = {**before, **evacuate(before, {leaving}, brokers, BIG)}
    others = [broker for broker in brokers if broker.broker_id != leaving]
    for partition, replicas in after.items():
        kept = set(before[partition]) - {leaving}
        assert kept <= set(replicas), "the others stay where they are"
        if len(others) >= len(replicas):
            assert leaving not in replicas


def test_a_new_broker_gets_its_share_of_replicas_and_of_leaderships_of_every_topic() -> None:
    old = [Candidate(i) for i in range(3)]
    before = {PartitionId(topic, p): r for topic in "ab" for p, r in enumerate(assign(40, 3, old))}
    brokers = [*old, Candidate(3)]
    assert is_short(before, brokers)
    moves = balance(before, brokers, BIG)
    after = {**before, **moves}
    assert counts(after, brokers) == [60, 60, 60, 60]
    assert len(moves) == 60, "each moves one replica"
    assert not is_short(after, brokers)
    assert [sum(3 in r for p, r in after.items() if p.topic_id == topic) for topic in "ab"] == [30, 30]
    leads = Counter(replicas[0] for replicas in after.values())
    assert max(leads.values()) - min(leads.values()) <= 2, leads


def test_racks_are_kept_apart() -> None:
    brokers = [Candidate(0, "a"), Candidate(1, "b"), Candidate(2, "c"), Candidate(3, "a")]
    before = {PartitionId("t", p): r for p, r in enumerate(assign(30, 3, brokers[:3]))}
    after = {**before, **balance(before, brokers, BIG)}
    racks = {broker.broker_id: broker.rack for broker in brokers}
    assert all(len({racks[b] for b in replicas}) == 3 for replicas in after.values())
    assert counts(after, brokers) == [15, 30, 30, 15], "level within what that allows"


def test_small_differences_are_left_alone() -> None:
    brokers = [Candidate(i) for i in range(4)]
    near = {PartitionId("t", p): (p % 4, (p + 1) % 4) for p in range(21)}
    assert not is_short(near, brokers)
    assert is_short({PartitionId("t", p): (p % 3,) for p in range(30)}, brokers)
    assert not is_short({}, brokers)
