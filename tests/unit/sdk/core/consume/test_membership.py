"""The member's side of a group: what goes out, what the consumer may read, when it stops."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog import errors
from oncelog.core.consume.member_states import MemberState
from oncelog.core.consume.membership import (
    EPOCH_LEAVE,
    EPOCH_LEAVE_FOR_NOW,
    Heartbeat,
    HeartbeatAnswer,
    Membership,
    NewAssignment,
    Subscription,
)
from oncelog.types import PartitionId, TopicPartition

INTERVAL_MS, SESSION_MS, POLL_MS = 3_000, 30_000, 60_000


def partitions(*numbers: int) -> dict[PartitionId, TopicPartition]:
    return {PartitionId("id", n): TopicPartition("orders", n) for n in numbers}


def member(**subscription: str) -> Membership:
    ids = count(1)
    return Membership(
        Subscription(("orders",), **subscription),
        max_poll_interval_ms=POLL_MS,
        make_id=lambda: f"m{next(ids)}",
        pause_ms=lambda failures: 100 * failures,
    )


def answer(epoch: int, number: int = 0, *numbers: int) -> HeartbeatAnswer:
    assignment = NewAssignment(number, partitions(*numbers)) if number else None
    return HeartbeatAnswer(epoch, INTERVAL_MS, SESSION_MS, assignment)


def call(membership: Membership, now_ms: int) -> Heartbeat:
    found = membership.next_call(now_ms)
    assert found is not None
    return found


def joined(*numbers: int, **subscription: str) -> Membership:
    """A member that reads these partitions of its assignment 1; its next heartbeat is to be sent."""
    membership = member(**subscription)
    membership.read(0)
    membership.answered(call(membership, 0), answer(1, 1, *numbers))
    membership.carried_out(1)
    assert membership.owned == partitions(*numbers)
    return membership


def be_idle(membership: Membership) -> None:
    """The coordinator answers each heartbeat, and nobody reads."""
    for now_ms in range(0, POLL_MS, INTERVAL_MS):
        beat = membership.next_call(now_ms)
        if beat is not None:
            membership.answered(beat, answer(1))
        membership.tick(now_ms)
        assert membership.owned == partitions(0)
    membership.tick(POLL_MS)


def test_nothing_is_sent_before_the_first_read() -> None:
    membership = member()
    assert membership.next_call(0) is None
    assert membership.wake_ms() is None


def test_the_first_read_joins_with_the_subscription_and_asks_for_an_answer_at_once() -> None:
    membership = member(pattern="b*", assignor="range", instance_id="i", rack="r")
    membership.read(5)
    join = call(membership, 5)
    assert (join.member_id, join.epoch, join.received, join.applied, join.max_wait_ms) == ("m1", 0, 0, 0, 0)
    assert join.version == 1
    assert join.subscription == Subscription(("orders",), "b*", "range", instance_id="i", rack="r")
    assert membership.next_call(5) is None, "it is in flight"


def test_the_subscription_is_said_until_it_was_acknowledged() -> None:
    membership = member()
    membership.read(0)
    first = call(membership, 0)
    membership.failed(first, errors.RequestTimedOutError(), 10)
    again = call(membership, 110)
    assert again == first, "a copy: the first may have arrived"
    membership.answered(again, answer(1))
    later = call(membership, 110)
    assert (later.subscription, later.version) == (None, 0)


def test_an_assignment_is_carried_out_by_the_next_read_and_then_told() -> None:
    membership = joined(0, 1)
    beat = call(membership, 10)
    assert (beat.received, beat.applied, beat.max_wait_ms) == (1, 1, INTERVAL_MS)
    membership.answered(beat, answer(2, 2, 1))
    change = membership.change
    assert change is not None
    assert (change.revoked, change.added, change.partitions) == (partitions(0), {}, partitions(1))
    received = call(membership, 20)
    assert (received.epoch, received.received, received.applied) == (2, 2, 1), "partition 0 is still read"
    assert membership.owned == partitions(0, 1)
    membership.carried_out(2)
    assert membership.owned == partitions(1)
    applied = call(membership, 21)
    assert (applied.received, applied.applied) == (2, 2), "instead of the one that is in flight"


def test_an_assignment_that_takes_nothing_away_is_told_before_the_next_read() -> None:
    membership = joined(0)
    membership.answered(call(membership, 10), answer(2, 2, 0, 1))
    assert call(membership, 10).applied == 2
    assert membership.owned == partitions(0)
    assert membership.change is not None
    assert membership.change.added == partitions(1)


def test_a_newer_assignment_replaces_one_that_was_not_carried_out() -> None:
    membership = joined(0, 1)
    membership.answered(call(membership, 10), answer(2, 2, 0))
    membership.answered(call(membership, 10), answer(3, 3, 0, 2))
    membership.carried_out(2)
    assert membership.owned == partitions(0, 1), "that was the older one"
    assert membership.change is not None
    assert (membership.change.revoked, membership.change.added) == (partitions(1), partitions(2))


def test_an_answer_to_an_older_heartbeat_is_not_looked_at() -> None:
    membership = joined(0, 1)
    beat = call(membership, 10)
    membership.answered(beat, answer(2, 2, 0))
    slow = call(membership, 10)
    membership.carried_out(2)
    assert call(membership, 10) != slow
    membership.answered(slow, answer(9, 9))
    assert (membership.epoch, membership.owned) == (2, partitions(0))
    membership.failed(slow, errors.UnknownMemberError(), 10)
    assert membership.is_member


def test_an_assignment_that_is_told_twice_changes_nothing() -> None:
    membership = joined(0)
    membership.answered(call(membership, 10), answer(1, 1, 0))
    assert membership.change is None


def test_a_heartbeat_that_says_the_same_waits_for_the_interval() -> None:
    membership = joined(0)
    membership.answered(call(membership, 10), answer(1))
    assert membership.next_call(11) is None
    assert membership.wake_ms() == 10 + INTERVAL_MS
    assert membership.next_call(10 + INTERVAL_MS) is not None


@pytest.mark.parametrize("error", [errors.UnknownMemberError(), errors.FencedMemberEpochError()])
def test_a_fenced_member_stops_reading_and_joins_under_a_new_id(error: errors.OncelogError) -> None:
    membership = joined(0, 1)
    membership.failed(call(membership, 10), error, 20)
    assert membership.owned == {}
    assert membership.take_lost() == partitions(0, 1)
    assert membership.take_lost() == {}
    assert membership.next_call(20) is None, "after a pause"
    join = call(membership, 120)
    assert (join.member_id, join.epoch, join.received, join.version) == ("m2", 0, 0, 1)
    assert join.subscription is not None


def test_a_member_that_is_not_answered_stops_before_its_session_ends() -> None:
    membership = joined(0)
    membership.answered(call(membership, 1_000), answer(1))  # sent at 1,000: the coordinator heard of it later
    membership.read(1_000 + SESSION_MS - 1)
    membership.tick(1_000 + SESSION_MS - 1)
    assert membership.owned == partitions(0)
    assert membership.wake_ms() in (1_000 + INTERVAL_MS, 1_000 + SESSION_MS)
    membership.tick(1_000 + SESSION_MS)
    assert membership.owned == {}
    assert membership.state is MemberState.JOINING
    leave = call(membership, 1_000 + SESSION_MS)
    assert (leave.member_id, leave.epoch) == ("m1", EPOCH_LEAVE), (
        "a coordinator that was away begins all sessions again"
    )
    membership.failed(leave, errors.UnknownMemberError(), 1_000 + SESSION_MS)
    assert call(membership, 1_100 + SESSION_MS).member_id == "m2"


@pytest.mark.parametrize(("instance", "epoch"), [("", EPOCH_LEAVE), ("i", EPOCH_LEAVE_FOR_NOW)])
def test_a_consumer_that_does_not_read_leaves_and_joins_with_the_next_read(instance: str, epoch: int) -> None:
    membership = joined(0, instance_id=instance)
    be_idle(membership)
    assert (membership.owned, membership.take_lost()) == ({}, partitions(0))
    leave = call(membership, POLL_MS)
    assert (leave.member_id, leave.epoch) == ("m1", epoch)
    membership.read(POLL_MS + 5)
    assert membership.next_call(POLL_MS + 5) is None, "rule 4"
    membership.answered(leave, answer(epoch))
    assert (join := call(membership, POLL_MS + 5)).epoch == 0
    assert join.member_id != "m1"


def test_leaving_tells_the_coordinator_once() -> None:
    membership = joined(0)
    waiting = call(membership, 10)
    membership.leave()
    membership.leave()
    assert (membership.owned, membership.take_lost()) == ({}, {}), "the consumer let them go itself"
    leave = call(membership, 20)
    assert (leave.member_id, leave.epoch, leave.max_wait_ms) == ("m1", EPOCH_LEAVE, 0)
    membership.answered(waiting, answer(1, 2, 0, 1))
    assert not membership.is_over
    membership.failed(leave, errors.RequestTimedOutError(), 30)
    assert membership.is_over, "the session time-out tells it"
    assert membership.next_call(1_000_000) is None


def test_who_never_sent_anything_has_nobody_to_tell() -> None:
    for membership in (member(), member()):
        membership.leave()
        assert membership.is_over
    membership = member()
    membership.read(0)
    membership.leave()
    assert membership.is_over
    assert membership.next_call(0) is None


def test_a_leave_while_the_leave_of_an_idle_member_is_in_flight_waits_for_it() -> None:
    membership = joined(0)
    be_idle(membership)
    leave = call(membership, POLL_MS)
    membership.leave()
    assert not membership.is_over
    membership.answered(leave, answer(EPOCH_LEAVE))
    assert membership.is_over


def test_a_refusal_is_told_once_and_the_next_read_joins_again() -> None:
    membership = member()
    membership.read(0)
    refused = errors.InvalidGroupIdError()
    membership.failed(call(membership, 0), refused, 10)
    assert membership.take_refusal() is refused
    assert membership.take_refusal() is None
    assert (membership.state, membership.next_call(500)) == (MemberState.OUTSIDE, None)
    membership.read(600)
    assert call(membership, 600).member_id == "m2"


@pytest.mark.parametrize("is_answered", [False, True], ids=["before the answer", "in the answer"])
def test_a_defect_ends_the_membership_is_told_once_and_the_next_read_joins_again(is_answered: bool) -> None:
    membership = joined(0)
    beat, defect = call(membership, 10), errors.IllegalStateError()
    if is_answered:
        membership.answered(beat, answer(2))
    membership.crashed(beat, defect, 20)
    assert membership.take_refusal() is defect
    assert membership.take_refusal() is None
    assert membership.take_lost() == partitions(0)
    leave = call(membership, 200)
    assert leave.epoch == EPOCH_LEAVE
    membership.crashed(leave, defect, 210)
    assert membership.take_refusal() is None, "a farewell is not tried again, and nobody waits for it"
    membership.read(10_000)
    assert call(membership, 10_000).member_id == "m2"


def test_a_defect_in_an_outdated_heartbeat_ends_nothing() -> None:
    membership = joined(0)
    beat = call(membership, 10)
    membership.failed(beat, errors.UnknownMemberError(), 20)
    state = membership.state
    membership.crashed(beat, errors.IllegalStateError(), 30)
    assert (membership.take_refusal(), membership.state) == (None, state)


def test_a_member_that_is_refused_leaves() -> None:
    membership = joined(0)
    membership.failed(call(membership, 10), errors.InvalidGroupIdError(), 20)
    assert membership.take_lost() == partitions(0)
    assert call(membership, 120).epoch == EPOCH_LEAVE


def test_what_a_server_asks_to_wait_is_waited() -> None:
    membership = joined(0)
    membership.failed(call(membership, 10), errors.ResourceExhaustedError(retry_after_ms=700), 20)
    assert membership.next_call(719) is None
    assert membership.next_call(720) is not None


def test_a_new_subscription_is_said_at_once_with_a_larger_version() -> None:
    membership = joined(0)
    call(membership, 10)
    membership.resubscribe(Subscription(("bills",)))
    beat = call(membership, 11)
    assert (beat.version, beat.subscription, beat.member_id) == (2, Subscription(("bills",)), "m1")
    assert membership.owned == partitions(0)


def test_an_incident_that_is_not_listed_is_a_mistake() -> None:
    membership = member()
    membership.leave()
    with pytest.raises(AssertionError):
        membership.read(0)


class Walk:
    """One member in any order of events; `check` says what holds after each."""

    def __init__(self) -> None:
        self.membership = member()
        self.now_ms = self.number = 0
        self.flying: Heartbeat | None = None
        self.spent: set[str] = set()

    def read(self) -> None:
        if self.membership.state not in (MemberState.LEAVING, MemberState.OVER):
            self.membership.read(self.now_ms)

    def carry(self) -> None:
        self.membership.carried_out(self.number)

    def call(self) -> None:
        self.flying = self.membership.next_call(self.now_ms) or self.flying

    def resubscribe(self) -> None:
        self.membership.resubscribe(Subscription(("orders", str(self.now_ms))))

    def leave(self) -> None:
        self.membership.leave()

    def wait(self) -> None:
        self.now_ms += 1_000
        self.membership.tick(self.now_ms)

    def long_wait(self) -> None:
        self.now_ms += SESSION_MS
        self.membership.tick(self.now_ms)

    def answer(self) -> None:
        if self.flying is not None:
            self.membership.answered(self.flying, answer(max(self.flying.epoch, 1)))

    def news(self) -> None:
        self.number += 1
        if self.flying is not None:
            numbers = {self.number % 3, (self.number + 1) % 3}
            self.membership.answered(self.flying, answer(self.number, self.number, *numbers))

    def fail(self, error: errors.OncelogError) -> None:
        if self.flying is not None:
            self.membership.failed(self.flying, error, self.now_ms)

    def retry(self) -> None:
        self.fail(errors.RequestTimedOutError())

    def fence(self) -> None:
        self.fail(errors.UnknownMemberError())

    def refuse(self) -> None:
        self.fail(errors.InvalidGroupIdError())

    def crash(self) -> None:
        if self.flying is not None:
            self.membership.crashed(self.flying, errors.IllegalStateError(), self.now_ms)

    def step(self, name: str) -> None:
        member_id, owned = self.membership.member_id, self.membership.owned
        getattr(self, name)()
        if self.membership.member_id != member_id:
            self.spent.add(member_id)
        assert self.membership.member_id not in self.spent
        assert name == "carry" or self.membership.owned in (owned, {})
        if not self.membership.is_member:
            assert (self.membership.owned, self.membership.change) == ({}, None)


STEPS = [
    "read",
    "carry",
    "call",
    "resubscribe",
    "leave",
    "wait",
    "long_wait",
    "answer",
    "news",
    "retry",
    "fence",
    "refuse",
    "crash",
]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_whatever_happens_the_member_reads_only_what_it_was_assigned(steps: list[str]) -> None:
    """Any order of events: no assertion fails, and a member id that is spent never comes back."""
    walk = Walk()
    for name in steps:
        walk.step(name)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=40))
def test_whatever_happened_a_member_that_reads_is_let_in_and_one_that_leaves_is_over(steps: list[str]) -> None:
    walk = Walk()
    for name in steps:
        if name != "leave":
            walk.step(name)
    for _ in range(10):
        for name in ("read", "long_wait", "read", "call", "answer"):
            walk.step(name)
        if walk.membership.is_member:
            break
    assert walk.membership.is_member
    for name in ("leave", "call", "answer"):
        walk.step(name)
    assert walk.membership.is_over
