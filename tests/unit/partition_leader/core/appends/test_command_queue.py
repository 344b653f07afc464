"""The queue's bounds and order."""

from __future__ import annotations

import pytest

from oncelog.core.batch.control import Marker
from oncelog.errors import CoordinatorNotAvailableError, ResourceExhaustedError
from oncelog_partition_leader.core.appends.command_queue import KEPT_FOR_MARKERS, Bounds, CommandQueue
from oncelog_partition_leader.core.appends.commands import AppendMarkerCommand
from oncelog_partition_leader.core.producers.decisions import NeedsEnrolment
from oncelog_partition_leader.core.producers.transactions import TxnName, TxnSession
from tests.unit.partition_leader.core.appends.a_reply import AReply, command

WIDE = Bounds(100, 1 << 20)


def test_commands_are_taken_in_the_order_of_arrival() -> None:
    queue = CommandQueue(WIDE)
    commands = [command(number) for number in range(3)]
    for one in commands:
        queue.add(one, len(one.data), 0)
    assert len(queue) == 3
    assert queue.take() == commands
    assert queue.take() == []


def test_what_waits_for_followers_or_for_an_enrolment_counts_in_the_bounds() -> None:
    queue = CommandQueue(WIDE)
    held = command(7, txn=(7, 1))
    queue.enrolments.hold(held, NeedsEnrolment(TxnSession(7, 1, 0), 3))
    queue.bounds = Bounds(3, 1 << 20)
    queue.add(command(1), 10, 1)
    with pytest.raises(ResourceExhaustedError) as refusal:
        queue.add(command(2), 10, 1)
    assert refusal.value.retry_after_ms == 50
    queue.bounds = Bounds(100, len(held.data) + 10)
    with pytest.raises(ResourceExhaustedError):
        queue.add(command(2), 1, 0)
    assert len(queue) == 2, "a refused command does not wait"
    queue.take()
    queue.add(command(2), 10, 0)


def test_markers_have_places_that_batches_cannot_take_and_their_number_is_bounded() -> None:
    queue = CommandQueue(Bounds(2, 1 << 20))
    for number in range(2):
        queue.add(command(number), 10, 0)
    with pytest.raises(ResourceExhaustedError):
        queue.add(command(2), 10, 0)
    for _ in range(KEPT_FOR_MARKERS):
        queue.add(a_marker(), 0, 0)
    with pytest.raises(ResourceExhaustedError):
        queue.add(a_marker(), 0, 0)
    assert len(queue) == 2 + KEPT_FOR_MARKERS


def a_marker() -> AppendMarkerCommand:
    """A coordinator's decision about a transaction."""
    return AppendMarkerCommand(AReply(), 1, name=TxnName(7, 1), txn_shard=1, marker=Marker(True, 1, 0))


def test_batches_that_are_enrolled_are_decided_before_all_others() -> None:
    queue = CommandQueue(WIDE)
    held, other = command(7, txn=(7, 1)), command(1)
    session = TxnSession(7, 1, 0)
    queue.enrolments.hold(held, NeedsEnrolment(session, 3))
    queue.add(other, 10, 0)
    assert list(queue.enrolled(session, None)) == []
    queue.bounds = Bounds(100, 10 + len(held.data))
    with pytest.raises(ResourceExhaustedError):
        queue.add(command(2), 1, 0)
    assert queue.take() == [held, other]


def test_batches_that_are_refused_leave_the_queue() -> None:
    queue = CommandQueue(WIDE)
    held, error = command(7, txn=(7, 1)), CoordinatorNotAvailableError()
    queue.enrolments.hold(held, NeedsEnrolment(TxnSession(7, 1, 0), 3))
    assert list(queue.enrolled(TxnSession(7, 1, 0), error)) == [(held, error)]
    assert len(queue) == 0


def test_the_end_returns_every_command() -> None:
    queue = CommandQueue(WIDE)
    held, waiting = command(7, txn=(7, 1)), command(1)
    queue.enrolments.hold(held, NeedsEnrolment(TxnSession(7, 1, 0), 3))
    queue.add(waiting, 10, 0)
    assert queue.drain() == [waiting, held]
    assert len(queue) == 0
