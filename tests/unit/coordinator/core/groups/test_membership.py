"""Joining, going on and leaving: who is a member, in which epoch, and what a refused heartbeat says."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.config import ConsumerConfig, load
from oncelog_coordinator.core.groups.group_commands import Heartbeat, Join
from oncelog_coordinator.core.groups.group_records import Subscription
from oncelog_coordinator.core.groups.states import MemberState
from oncelog_coordinator.core.limits import Limits
from tests.unit.coordinator.group_driver import GROUP, Groups, Reader, part, settle

ALL = {part("t", number) for number in range(4)}


def pair(groups: Groups) -> tuple[Reader, Reader]:
    """Two stable members."""
    a, b = Reader(groups, "a"), Reader(groups, "b")
    a.join()
    b.join()
    settle(groups, a, b)
    return a, b


def test_the_first_member_gets_everything_with_its_first_answer() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    reply = a.join()
    assert (reply.epoch, set(reply.assigned or ())) == (1, ALL)
    assert groups.member("a").state is MemberState.STABLE


def test_a_partition_moves_when_its_owner_has_let_go_and_not_before() -> None:
    groups = Groups()
    a, b = Reader(groups, "a", holds=True), Reader(groups, "b")
    a.join()
    a.let_go()
    groups.wait(1_000)
    b.join()
    assert b.reading == set(), "a owns all of it"
    kept = set(a.beat().assigned or ())
    assert groups.member("a").state is MemberState.UNREVOKED
    for _ in range(3):
        a.beat()
        b.beat()
    assert b.reading == set(), "a has not said that it let go"
    a.let_go()
    a.beat()
    b.beat()
    assert (a.reading, b.reading) == (kept, ALL - kept)


def test_a_partition_moves_when_the_session_of_its_owner_has_ended() -> None:
    groups = Groups()
    a, b = Reader(groups, "a", holds=True), Reader(groups, "b")
    a.join()
    groups.wait(1_000)
    b.join()
    for _ in range(20):
        groups.wait(2_000)
        b.beat()
    assert b.reading == set()
    groups.wait(6_000)
    b.beat()
    assert b.reading == ALL


def test_a_member_that_keeps_a_partition_never_stops_owning_it() -> None:
    groups = Groups(t=6)
    a, b = Reader(groups, "a"), Reader(groups, "b")
    a.join()
    kept = set(a.reading)
    groups.wait(1_000)
    b.join()
    for _ in range(5):
        groups.wait(200)
        a.beat()
        kept &= a.reading
        assert set(groups.member("a").assigned) >= kept
        b.beat()
    assert len(kept) == 3


def test_an_unknown_member_is_refused() -> None:
    groups = Groups()
    Reader(groups, "a").join()
    with pytest.raises(errors.UnknownMemberError, match="join it with epoch 0"):
        groups.do(Heartbeat(GROUP, "b", 1))
    with pytest.raises(errors.UnknownMemberError):
        groups.do(Heartbeat("other", "a", 1))  # a member of another group
    with pytest.raises(errors.UnknownMemberError):
        groups.do(Heartbeat("other", "a", -1))


@pytest.mark.parametrize("epoch", [7, -3])
def test_a_wrong_epoch_is_fenced_and_a_new_membership_goes_on(epoch: int) -> None:
    groups = Groups()
    a, b = pair(groups)
    with pytest.raises(errors.FencedMemberEpochError, match="leave with epoch -1"):
        groups.do(Heartbeat(GROUP, "a", epoch))
    a.leave()
    again = Reader(groups, "a2")
    again.join()
    settle(groups, b, again)
    assert b.reading | again.reading == ALL
    assert len(again.reading) == 2


def test_an_epoch_that_is_too_old_is_fenced() -> None:
    groups = Groups()
    a, b = pair(groups)
    old = a.epoch
    for name in ("c", "d"):
        other = Reader(groups, name)
        other.join()
        settle(groups, a, b, other)
    with pytest.raises(errors.FencedMemberEpochError):
        groups.do(Heartbeat(GROUP, "a", old))


def test_answers_that_are_lost_are_asked_for_again() -> None:
    groups = Groups()
    a, b = pair(groups)
    b.leave()
    groups.wait(1_000)
    for name in ("c", "d", "e"):
        groups.do(Heartbeat(GROUP, "a", a.epoch, a.received, a.applied))  # the answer is lost
        other = Reader(groups, name)
        other.join()
        groups.wait(1_000)
    for _ in range(4):
        a.beat()
    assert a.epoch == groups.table.groups.groups[GROUP].record.assignment_epoch


def test_a_join_that_comes_twice_is_one_membership() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    first = a.join()
    log = len(groups.log)
    assert groups.do(Heartbeat(GROUP, "a", 0, join=Join(Subscription(1, ("t",))))) == first
    assert len(groups.log) == log


def test_a_copy_of_a_join_does_not_say_that_anything_was_let_go() -> None:
    groups = Groups()
    a, b = Reader(groups, "a", holds=True), Reader(groups, "b")
    a.join()
    groups.wait(1_000)
    b.join()
    a.beat()
    groups.do(Heartbeat(GROUP, "a", 0, join=Join(Subscription(1, ("t",)))))
    b.beat()
    assert b.reading == set()


@pytest.mark.parametrize("copy", ["join", "older heartbeat"])
def test_a_late_copy_does_not_move_a_member_past_the_epochs_that_it_knows(copy: str) -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    late = Heartbeat(GROUP, "a", 0, join=Join(Subscription(1, ("t",))))
    if copy == "older heartbeat":
        late = Heartbeat(GROUP, "a", a.epoch, a.received, a.applied)
        other = Reader(groups, "b")
        other.join()
        settle(groups, a, other, rounds=2)
    Reader(groups, "c").join()
    groups.wait(1_000)
    known = groups.member("a")
    assert groups.table.groups.groups[GROUP].record.assignment_epoch > known.epoch > late.epoch
    groups.do(late)
    assert groups.member("a").epoch == known.epoch
    a.beat()  # it shows the epoch that it knows, and is not fenced


def test_a_member_whose_answer_was_lost_moves_on_with_its_next_heartbeat() -> None:
    groups = Groups()
    a, _ = pair(groups)
    Reader(groups, "c").join()
    groups.wait(1_000)
    lost = groups.do(Heartbeat(GROUP, "a", a.epoch, a.received, a.applied))
    assert not lost.is_settled
    for _ in range(3):
        reply = a.beat()
    assert reply.is_settled
    assert a.epoch == groups.table.groups.groups[GROUP].record.assignment_epoch


def test_an_id_is_for_one_membership() -> None:
    groups = Groups()
    a, _ = pair(groups)
    a.leave()
    a.leave()  # a copy
    with pytest.raises(errors.FencedMemberEpochError, match="new member id"):
        a.join()
    with pytest.raises(errors.FencedMemberEpochError):
        groups.do(Heartbeat(GROUP, "a", 1))
    groups.fail_over()
    with pytest.raises(errors.FencedMemberEpochError):
        a.join()
    groups.wait(600_000)
    assert "a" not in groups.table.groups.groups[GROUP].left


def test_a_late_copy_of_an_older_subscription_is_not_heeded() -> None:
    groups = Groups(t=4, u=2)
    a = Reader(groups, "a")
    a.join()
    a.beat(Join(Subscription(3, ("u",))))
    settle(groups, a)
    assert a.reading == {part("u", 0), part("u", 1)}
    a.beat(Join(Subscription(2, ("t",))))
    settle(groups, a)
    assert a.reading == {part("u", 0), part("u", 1)}


def test_a_member_cannot_apply_what_it_was_not_sent() -> None:
    groups = Groups()
    a, _ = pair(groups)
    for received, applied in ((a.received + 1, 0), (a.received, a.received + 1), (0, 1), (1, -1)):
        with pytest.raises(errors.InvalidRequestError):
            groups.do(Heartbeat(GROUP, "a", a.epoch, received, applied))


# ---------------------------------------------------------------- static members


def test_a_static_member_comes_back_to_its_partitions_without_a_new_epoch() -> None:
    groups = Groups()
    a, b = Reader(groups, "a1", instance_id="a"), Reader(groups, "b")
    a.join()
    b.join()
    settle(groups, a, b)
    before, epoch = set(a.reading), groups.table.groups.groups[GROUP].record.epoch
    a.leave(-2)
    settle(groups, b)
    assert len(b.reading) == 2, "its partitions wait for it"
    again = Reader(groups, "a2", instance_id="a")
    again.join()
    assert again.reading == before
    assert groups.table.groups.groups[GROUP].record.epoch == epoch == again.epoch
    with pytest.raises(errors.FencedInstanceIdError):
        groups.do(Heartbeat(GROUP, "a1", a.epoch))


def test_a_static_member_that_stays_away_is_gone_with_its_session() -> None:
    groups = Groups()
    a, b = Reader(groups, "a1", instance_id="a"), Reader(groups, "b")
    a.join()
    b.join()
    settle(groups, a, b)
    a.leave(-2)
    for _ in range(15):
        groups.wait(3_000)
        b.beat()
    groups.wait(3_000)
    b.beat()
    assert b.reading == ALL


def test_an_instance_id_that_is_in_use_is_not_released() -> None:
    groups = Groups()
    Reader(groups, "a1", instance_id="a").join()
    with pytest.raises(errors.UnreleasedInstanceIdError) as caught:
        Reader(groups, "a2", instance_id="a").join()
    assert caught.value.retriable


def test_only_a_static_member_goes_away() -> None:
    groups = Groups()
    a, _ = pair(groups)
    with pytest.raises(errors.InvalidRequestError, match="leave with epoch -1"):
        a.leave(-2)


def test_the_longest_interval_between_reads_that_a_consumer_takes_is_taken_by_the_coordinator() -> None:
    longest_ms = load(ConsumerConfig, {"max_poll_interval_ms": 3_600_000}).max_poll_interval_ms
    Reader(Groups(), "a").join(rebalance_timeout_ms=longest_ms)
    with pytest.raises(errors.InvalidRequestError):
        Reader(Groups(), "a").join(rebalance_timeout_ms=longest_ms + 1)
    with pytest.raises(errors.ConfigError, match=r"`max_poll_interval_ms`.* to 3600000"):
        load(ConsumerConfig, {"max_poll_interval_ms": longest_ms + 1})


def test_a_heartbeat_of_a_member_that_is_away_is_fenced() -> None:
    groups = Groups()
    a = Reader(groups, "a1", instance_id="a")
    a.join()
    a.leave(-2)
    with pytest.raises(errors.FencedMemberEpochError):
        a.beat()
    a.epoch = 0
    with pytest.raises(errors.FencedMemberEpochError):
        a.join()  # under the same id
    a.leave(-2)  # a copy


# ---------------------------------------------------------------- bounds


def test_a_full_group_takes_nobody_and_goes_on() -> None:
    groups = Groups(Limits(group_max_size=2))
    a, b = pair(groups)
    with pytest.raises(errors.GroupMaxSizeReachedError):
        Reader(groups, "c").join()
    a.beat()
    b.leave()
    Reader(groups, "c").join()


def test_a_static_member_comes_back_into_a_full_group() -> None:
    groups = Groups(Limits(group_max_size=2))
    a, b = Reader(groups, "a1", instance_id="a"), Reader(groups, "b")
    a.join()
    b.join()
    settle(groups, a, b)
    before = set(a.reading)
    a.leave(-2)
    with pytest.raises(errors.GroupMaxSizeReachedError):
        Reader(groups, "c").join()
    again = Reader(groups, "a2", instance_id="a")
    again.join()
    assert again.reading == before


@pytest.mark.parametrize(
    ("join", "error"),
    [
        ({"topics": ()}, errors.InvalidRequestError),
        ({"version": 0}, errors.InvalidRequestError),
        ({"topics": ("bad name",)}, errors.InvalidTopicError),
        ({"pattern": "(a"}, errors.InvalidRegularExpressionError),
        ({"assignor": "best"}, errors.UnsupportedAssignorError),
        ({"instance_id": "x" * 300}, errors.InvalidRequestError),
        ({"rack": "\n"}, errors.InvalidRequestError),
        ({"member_id": "a b"}, errors.InvalidRequestError),
        ({"member_id": ""}, errors.InvalidRequestError),
        ({"topics": ("t", "u", "v")}, errors.PolicyViolationError),
    ],
)
def test_a_bad_join_is_refused_by_name(join: dict[str, Any], error: type[errors.OncelogError]) -> None:
    groups = Groups(Limits(max_subscribed_topics=2))
    a, _ = pair(groups)
    with pytest.raises(error):
        Reader(groups, **{"member_id": "new", **join}).join()
    assert len(a.reading) == 2
    assert len(groups.table.groups.groups[GROUP].members) == 2


def test_a_join_says_what_it_subscribes_to() -> None:
    with pytest.raises(errors.InvalidRequestError):
        Groups().do(Heartbeat(GROUP, "a", 0))


def test_a_rebalance_timeout_has_a_bound() -> None:
    with pytest.raises(errors.InvalidRequestError, match="rebalance_timeout_ms"):
        Reader(Groups(), "a").join(rebalance_timeout_ms=10**9)
