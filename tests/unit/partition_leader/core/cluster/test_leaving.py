"""A broker takes itself out of one partition."""

from __future__ import annotations

from dataclasses import replace

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.leaving import forgotten, is_named, without
from oncelog_runtime.metadata.cluster_keys import Partition

A, B, C = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(3, 13)
LIVE = {1: 11, 2: 12, 3: 13}


def partition(leader: BrokerRef | None, *isr: BrokerRef) -> Partition:
    return Partition("work", (1, 2, 3), leader, 7, isr)


def test_a_leader_that_leaves_is_followed_by_another_member_of_the_isr() -> None:
    left = without(partition(A, A, B, C), A, LIVE, 2)
    assert left is not None
    assert (left.leader, left.leader_epoch, left.isr) == (B, 8, (B, C))
    assert not is_named(left, A)


def test_a_follower_that_leaves_changes_neither_leader_nor_epoch() -> None:
    left = without(partition(A, A, B, C), B, LIVE, 2)
    assert left is not None
    assert (left.leader, left.leader_epoch, left.isr) == (A, 7, (A, C))


def test_the_last_one_does_not_leave() -> None:
    assert without(partition(A, A), A, LIVE, 2) is None
    assert without(partition(None, A), A, LIVE, 2) is None


def test_a_leader_does_not_leave_to_dead_members() -> None:
    assert without(partition(A, A, B), A, {1: 11}, 2) is None
    assert without(partition(A, A, B), A, {1: 11, 2: 99}, 2) is None


def test_who_is_not_named_has_nothing_to_leave() -> None:
    assert without(partition(A, A, B), C, LIVE, 2) is None
    assert without(partition(A, A, B), BrokerRef(2, 99), LIVE, 2) is None
    assert not is_named(partition(A, A, B), BrokerRef(2, 99))


def test_below_the_minimum_who_leaves_stays_eligible_and_who_lost_its_log_does_not() -> None:
    before = partition(A, A, B)
    left, lost = without(before, B, LIVE, 2), forgotten(before, B, LIVE, 2)
    assert left is not None
    assert lost is not None
    assert (left.isr, left.eligible) == ((A,), (B,))
    assert (lost.isr, lost.eligible) == ((A,), ())


def test_who_is_eligible_only_is_forgotten_too() -> None:
    before = replace(partition(A, A), eligible=(B, C))
    lost = forgotten(before, B, LIVE, 2)
    assert lost is not None
    assert (lost.leader, lost.leader_epoch, lost.isr, lost.eligible) == (A, 7, (A,), (C,))


def test_who_is_not_named_writes_the_same_so_that_the_leader_hears_of_it() -> None:
    assert forgotten(partition(A, A, B), C, LIVE, 2) == partition(A, A, B)


def test_the_last_one_is_not_forgotten() -> None:
    assert forgotten(partition(A, A), A, LIVE, 2) is None
    assert forgotten(partition(A, A, B), A, {1: 11}, 2) is None
