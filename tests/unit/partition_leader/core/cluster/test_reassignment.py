"""The steps of a move: new replicas first, old ones last, each step an election."""

from __future__ import annotations

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.reassignment import begin, cancelled, finish, has_begun, is_done
from oncelog_runtime.metadata.cluster_keys import Partition, Reassignment

A, B, C, D = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(3, 13), BrokerRef(4, 14)
ALL = {1: 11, 2: 12, 3: 13, 4: 14}
MOVE = Reassignment((1, 2, 3), (4, 2, 3))


def partition(*isr: BrokerRef, replicas: tuple[int, ...] = (1, 2, 3), leader: BrokerRef = A) -> Partition:
    return Partition("t", replicas, leader, 7, isr)


def test_new_replicas_come_first_beside_all_old_ones_in_a_new_epoch() -> None:
    begun = begin(partition(A, B, C), MOVE, ALL, 2)
    assert begun == Partition("t", (1, 2, 3, 4), A, 8, (A, B, C), A)
    assert has_begun(begun, MOVE)
    assert begin(begun, MOVE, ALL, 2) is None, "once is enough"
    assert not is_done(begun, MOVE)


def test_nothing_begins_without_a_living_leader_or_with_a_target_that_is_away() -> None:
    assert begin(partition(A, B), MOVE, {2: 12, 3: 13, 4: 14}, 2) is None
    assert begin(partition(A, B), MOVE, ALL, 2, [A]) is None
    assert begin(partition(A, B), MOVE, {1: 11, 2: 12, 3: 13}, 2) is None
    assert begin(partition(A, B), MOVE, ALL, 2, [D]) is None
    assert begin(partition(A, B), MOVE, {**ALL, 4: 99}, 2, [D]) is not None, "it is dead no more: it is registered anew"


def test_old_replicas_leave_when_all_new_ones_are_in_the_isr() -> None:
    union = (1, 2, 3, 4)
    assert finish(partition(A, B, C, replicas=union), MOVE, ALL, 2) is None, "D is not in sync"
    done = finish(partition(A, B, C, D, replicas=union), MOVE, ALL, 2)
    assert done == Partition("t", (4, 2, 3), D, 8, (B, C, D), A), "the preferred one of the target leads"
    assert done is not None
    assert is_done(done, MOVE)
    assert finish(done, MOVE, ALL, 2) is None


def test_old_replicas_stay_while_too_few_of_the_target_are_in_sync() -> None:
    union = (1, 2, 3, 4)
    assert finish(partition(A, D, replicas=union), MOVE, ALL, 2) is None, "D alone is below the minimum"
    assert finish(partition(A, B, D, replicas=union), MOVE, ALL, 2) is not None, "C may be down as ever"
    assert finish(partition(A, B, D, replicas=union), MOVE, ALL, 5) is None
    small = Reassignment((1,), (4,))
    alone = finish(partition(A, D, replicas=(1, 4)), small, ALL, 2)
    assert alone is not None, "no more can be asked than the target has"


def test_only_registered_incarnations_count() -> None:
    union = (1, 2, 3, 4)
    assert finish(partition(A, B, D, replicas=union), MOVE, {**ALL, 4: 99}, 1) is None
    assert finish(partition(A, B, D, replicas=union), MOVE, ALL, 1, dead=[D]) is None
    assert finish(partition(A, B, D, replicas=union), MOVE, {2: 12, 3: 13, 4: 14}, 1) is None, (
        "the election comes first"
    )


def test_who_drains_does_not_become_the_leader_by_a_move() -> None:
    done = finish(partition(A, B, C, D, replicas=(1, 2, 3, 4)), MOVE, ALL, 2, avoid=[D])
    assert done is not None
    assert done.leader == B


def test_a_move_is_cancelled_by_moving_back() -> None:
    back = cancelled(MOVE)
    assert is_done(partition(A, B, C), back)
    undone = finish(partition(A, B, C, D, replicas=(1, 2, 3, 4)), back, ALL, 2)
    assert undone == Partition("t", (1, 2, 3), A, 8, (A, B, C), A)
    assert finish(partition(D, replicas=(1, 2, 3, 4), leader=D), back, ALL, 1) is None, (
        "nobody of the old ones is in sync"
    )


def test_a_value_of_an_older_version_is_the_same_value() -> None:
    begun = begin(partition(A, B, C), MOVE, ALL, 2)
    assert begun is not None
    assert sorted(__import__("json").loads(begun.encode())) == sorted(
        __import__("json").loads(partition(A, B, C).encode())
    ), "a move adds no field to the partition, so who does not know moves writes back all of it"
