"""When a command is answered, and what an error after the append means (hole 10; cases F130, F138)."""

from __future__ import annotations

import pytest

from oncelog.errors import NotEnoughReplicasAfterAppendError, NotLeaderError, RequestTimedOutError
from oncelog.types import BrokerRef
from oncelog_partition_leader.core.appends.answers import Answers
from oncelog_partition_leader.core.appends.commands import Command
from oncelog_partition_leader.core.appends.effects import Committed, Effect, Fail, Finish
from oncelog_partition_leader.core.replication.replica_set import Ends, Registered, ReplicaSet
from tests.unit.partition_leader.core.appends.a_reply import command

A, B = BrokerRef(1, 11), BrokerRef(2, 12)


class Led:
    """A leads with B in the ISR; both are needed."""

    def __init__(self, *, needs_disk: bool = False) -> None:
        self.replicas = ReplicaSet(
            A,
            Registered((1, 2), (A, B), mod_revision=5),
            Ends(high_watermark=0, log=0, own=0),
            min_insync_replicas=2,
            lag_max_ms=1_000,
            now_ms=0,
        )
        self.answers = Answers(self.replicas, needs_disk=needs_disk)
        self.replicas.start_session(B, 1, 0)

    def acknowledged(self, end: int) -> list[Effect]:
        return self.answers.committed() if self.replicas.acknowledge(B, 1, end, 0) else []


def waiting(led: Led, *, acks: int = -1, end: int = 5) -> Command:
    """A command whose batch ends at `end`, and which is not answered yet."""
    one = command(acks=acks)
    assert led.answers.answer_at(end, one, 0) is None
    return one


def test_acks_all_is_answered_at_the_high_watermark() -> None:
    led = Led()
    first, second = waiting(led, end=5), waiting(led, end=7)
    assert led.answers.grew(7, 0, 0) == []
    assert led.acknowledged(4) == [Committed([], 4)]
    assert led.acknowledged(5) == [Committed([first], 5)]
    assert len(led.answers) == 1
    assert led.acknowledged(7) == [Committed([second], 7)]
    late = command()
    assert led.answers.answer_at(7, late, 0) == Finish(late), "a repeat of what is committed waits for nothing"


@pytest.mark.parametrize(("acks", "needs_disk", "waits"), [(0, True, False), (1, False, False), (1, True, True)])
def test_other_acks_wait_for_the_disk_at_most(acks: int, needs_disk: bool, waits: bool) -> None:
    led, one = Led(needs_disk=needs_disk), command(acks=acks)
    assert led.answers.answer_at(5, one, 4) == (None if waits else Finish(one))
    led.answers.grew(5, 4, 0)
    assert led.answers.grew(5, 5, 0) == ([Finish(one)] if waits else [])
    assert led.answers.answer_at(5, one, 5) == Finish(one)


def test_below_the_minimum_what_is_appended_is_unknown() -> None:
    led = Led()
    one = waiting(led)
    led.replicas.resolve((A,), 6, 0)
    (failed,) = led.answers.isr_changed(led.replicas.advanced())
    assert isinstance(failed, Fail)
    assert failed.command is one
    assert isinstance(failed.error, NotEnoughReplicasAfterAppendError)
    at_once = led.answers.answer_at(5, command(), 0)
    assert isinstance(at_once, Fail)
    assert isinstance(at_once.error, NotEnoughReplicasAfterAppendError)


def test_a_change_of_the_isr_may_commit() -> None:
    led = Led()
    one = waiting(led)
    led.answers.grew(5, 0, 0)
    led.replicas.require_in_sync(1)
    led.replicas.resolve((A,), 6, 0)
    assert led.answers.isr_changed(led.replicas.advanced()) == [Committed([one], 5)]


def test_when_acknowledgements_no_longer_wait_for_the_disk_they_are_given() -> None:
    led = Led(needs_disk=True)
    one = waiting(led, acks=1)
    assert led.answers.need_disk(True) == []
    assert led.answers.need_disk(False) == [Finish(one)]


def test_when_acknowledgements_begin_to_wait_for_the_disk_an_end_does_not_go_back() -> None:
    led = Led()
    led.answers.grew(5, 0, 0)
    led.answers.need_disk(True)
    assert led.answers.grew(5, 0, 0) == []
    assert led.replicas.own_end == 5


def test_a_deadline_and_the_end_of_the_leadership_leave_the_outcome_unknown() -> None:
    led = Led(needs_disk=True)
    follower, disk = waiting(led), waiting(led, acks=1)
    assert led.answers.expired(999) == []
    late = led.answers.expired(1_000)
    assert [(one.command, type(one.error)) for one in late if isinstance(one, Fail)] == [
        (follower, RequestTimedOutError),
        (disk, RequestTimedOutError),
    ]
    again = waiting(led)
    (ended,) = led.answers.end(NotLeaderError("deposed"))
    assert isinstance(ended, Fail)
    assert (ended.command, type(ended.error)) == (again, RequestTimedOutError)
    assert "unknown" in ended.error.message
    assert len(led.answers) == 0


@pytest.mark.parametrize(("acks", "needs_disk"), [(-1, False), (1, True)])
def test_it_says_whether_anything_waits(acks: int, needs_disk: bool) -> None:
    led = Led(needs_disk=needs_disk)
    assert not led.answers.is_waiting
    waiting(led, acks=acks)
    assert led.answers.is_waiting
    led.answers.end(NotLeaderError("deposed"))
    assert not led.answers.is_waiting
