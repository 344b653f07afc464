"""Who leads next: hole 2, KIP-966, semantics F 142-143."""

from __future__ import annotations

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.election import (
    QUARANTINED,
    LogState,
    elect,
    give_up,
    hand_over,
    prefer,
    recover,
    returned,
    stopped_whole,
    transfer,
)
from oncelog_runtime.cluster import Partition

A, B, C = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(3, 13)
ALL = {1: 11, 2: 12, 3: 13}


def partition(leader: BrokerRef | None, *isr: BrokerRef, epoch: int = 4) -> Partition:
    return Partition("t", (1, 2, 3), leader, epoch, isr)


def test_nothing_changes_while_the_whole_isr_lives() -> None:
    assert elect(partition(A, A, B, C), ALL) is None


def test_a_dead_leader_is_replaced_by_the_preferred_living_member_in_a_new_epoch() -> None:
    elected = elect(partition(A, C, B, A), {2: 12, 3: 13})
    assert elected is not None
    assert (elected.leader, elected.leader_epoch, elected.isr) == (B, 5, (C, B))
    assert elected.last_known_leader == A


def test_a_restarted_leader_is_somebody_else() -> None:
    elected = elect(partition(A, A, B), {1: 99, 2: 12})
    assert elected is not None
    assert (elected.leader, elected.isr) == (B, (B,))


def test_a_restarted_follower_leaves_the_isr_without_an_election() -> None:
    changed = elect(partition(A, A, B, C), {1: 11, 2: 99, 3: 13})
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.isr) == (A, 4, (A, C))


def test_who_is_proven_dead_is_dropped_though_it_is_registered() -> None:
    elected = elect(partition(A, A, B), ALL, [A])
    assert elected is not None
    assert (elected.leader, elected.isr) == (B, (B,))


def test_nobody_outside_of_the_isr_is_ever_elected() -> None:
    assert elect(partition(A, A), {2: 12, 3: 13}) is None
    assert elect(partition(A, A), ALL, [A]) is None


def test_a_leader_hands_over_only_to_the_isr() -> None:
    handed = hand_over(partition(A, A, B, C), A, ALL)
    assert handed is not None
    assert (handed.leader, handed.leader_epoch, handed.isr) == (B, 5, (B, C))
    assert hand_over(partition(A, A), A, ALL) is None
    assert hand_over(partition(B, A, B), A, ALL) is None, "it leads no more"


def test_who_drains_is_avoided_and_not_excluded() -> None:
    elected = elect(partition(A, A, B, C), {2: 12, 3: 13}, avoid=[B])
    assert elected is not None
    assert elected.leader == C
    last = elect(partition(A, A, B), {2: 12, 3: 13}, avoid=[B])
    assert last is not None
    assert last.leader == B, "better than nobody"
    assert prefer(partition(B, B, A), ALL, avoid=[A]) is None


def test_a_transfer_of_leadership_costs_no_replica() -> None:
    changed = transfer(partition(A, A, B, C), C, ALL)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.isr, changed.last_known_leader) == (C, 5, (A, B, C), A)
    assert transfer(partition(A, A, B), C, ALL) is None, "not in the ISR"
    assert transfer(partition(A, A, B), A, ALL) is None, "it leads already"
    assert transfer(partition(A, A, B), B, {1: 11, 2: 99}) is None, "another incarnation"
    assert transfer(partition(A, A, B), B, {1: 99, 2: 12}) is None, "a dead leader is the election's"


def test_who_gives_a_leadership_up_stays_in_the_isr() -> None:
    changed = give_up(partition(A, A, C, B), A, ALL)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.isr) == (B, 5, (A, C, B))
    assert give_up(partition(A, A), A, ALL) is None
    assert give_up(partition(B, A, B), A, ALL) is None, "it leads no more"


def test_the_preferred_replica_takes_over_only_from_the_isr() -> None:
    preferred = prefer(partition(B, B, A), ALL)
    assert preferred is not None
    assert (preferred.leader, preferred.leader_epoch) == (A, 5)
    assert prefer(partition(B, B, C), ALL) is None
    assert prefer(partition(A, A, B), ALL) is None


def test_after_a_stop_of_the_whole_isr_everybody_is_waited_for() -> None:
    state = partition(A, A, B)
    assert not stopped_whole(state, {1: 11, 2: 99})
    assert stopped_whole(state, {2: 99, 3: 13})
    assert returned(state, {2: 99, 3: 13}) is None
    assert returned(state, {1: 98, 2: 99, 3: 13}) == (BrokerRef(1, 98), BrokerRef(2, 99))


def test_the_longest_log_of_the_last_isr_wins() -> None:
    a, b = BrokerRef(1, 98), BrokerRef(2, 99)
    state = partition(A, A, B)
    by_end = recover(state, {a: LogState(4, 90), b: LogState(4, 100)})
    assert (by_end.leader, by_end.leader_epoch, by_end.isr) == (b, 5, (b,))
    by_epoch = recover(state, {a: LogState(4, 90), b: LogState(3, 100)})
    assert by_epoch.leader == a
    tie = recover(state, {b: LogState(4, 90), a: LogState(4, 90)})
    assert tie.leader == a, "the preferred one among equals"
    sound = recover(state, {a: QUARANTINED, b: LogState(-1, 0)})
    assert sound.leader == b, "a log that was set aside never wins"
