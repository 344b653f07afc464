"""A leader's queue: one append, answers at the high watermark, enrolment, settling. Holes 9, 10, 12, 22; case F138."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.core.causes import told_of
from oncelog.errors import (
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
    OffsetNotAvailableError,
    RequestTimedOutError,
    ResourceExhaustedError,
    TxnEndedError,
)
from oncelog_partition_leader.core.appends.command_queue import Bounds
from oncelog_partition_leader.core.appends.commands import Written
from oncelog_partition_leader.core.log.disk_levels import Level
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.partition.leadership_confirmation import CONFIRM_MS
from tests.unit.partition_leader.leading import A, B, Leading, Run, batch, named, run, turn

__all__ = ["run"]  # the fixture


def test_everything_that_waits_is_one_append_and_is_answered_at_the_watermark(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        answers = [leading.produce(batch(producer_id, 0)) for producer_id in (1, 2, 3)]
        await turn()
        assert leading.host.told.count("appended") == 1
        assert leading.log.log_end_offset == 3
        assert not any(answer.done() for answer in answers)
        leading.acknowledge(2)
        assert [answer.done() for answer in answers] == [True, True, False]
        leading.acknowledge(3)
        assert [answer.result().base_offset for answer in answers] == [0, 1, 2]

    run(scenario)


def test_acks_one_is_answered_after_the_append(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        answer = leading.produce(batch(), acks=1)
        await turn()
        assert answer.result().base_offset == 0

    run(scenario)


def test_several_batches_of_one_producer_in_one_turn_keep_their_order(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        answers = [leading.produce(batch(1, sequence)) for sequence in range(5)]
        await turn()
        leading.acknowledge(5)
        assert [answer.result().base_offset for answer in answers] == [0, 1, 2, 3, 4]

    run(scenario)


def test_below_min_insync_nothing_is_written(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        leading.leadership.isr_is(named(A), 6)
        answer = leading.produce(batch())
        await turn()
        refused = answer.exception()
        assert isinstance(refused, NotEnoughReplicasError)
        assert told_of(refused, "orders", 3) == "NOT_ENOUGH_REPLICAS on orders-3: ISR 1 of 2 needed"
        assert leading.log.log_end_offset == 0

    run(scenario)


def test_an_isr_that_shrinks_after_the_append_is_an_unknown_outcome_and_the_retry_is_deduplicated(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        first = leading.produce(batch(1, 0))
        await turn()
        leading.leadership.isr_is(named(A), 6)
        assert isinstance(first.exception(), NotEnoughReplicasAfterAppendError)
        leading.leadership.isr_is(named(A, B), 7)
        leading.leadership.start_session(B, 2)
        leading.leadership.acknowledge(B, 2, 1)
        again = leading.produce(batch(1, 0))
        await turn()
        assert again.result() == Written(0, again.result().append_timestamp_ms, 0, True)
        assert leading.log.log_end_offset == 1

    run(scenario)


def test_a_duplicate_is_answered_like_its_first_copy(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        first, second = leading.produce(batch(1, 0)), leading.produce(batch(1, 0))
        await turn()
        assert not second.done(), "the first copy is not committed yet"
        leading.acknowledge(1)
        assert first.result().base_offset == second.result().base_offset == 0
        assert second.result().duplicate

    run(scenario)


def test_who_waits_too_long_hears_so(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        answer = leading.produce(batch())
        await turn()
        leading.leadership.expire(leading.host.clock.monotonic_ms())
        assert not answer.done()
        leading.leadership.expire(leading.host.clock.monotonic_ms() + 1_000)
        assert isinstance(answer.exception(), RequestTimedOutError)

    run(scenario)


def test_the_end_of_a_leadership_answers_everybody(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        appended = leading.produce(batch())
        await turn()
        queued = leading.produce(batch())
        leading.leadership.end()
        await turn()
        assert isinstance(appended.exception(), RequestTimedOutError), "it may be in the log: unknown, not refused"
        assert isinstance(queued.exception(), NotLeaderError)
        assert leading.log.log_end_offset == 1
        with pytest.raises(NotLeaderError):
            leading.produce(batch())

    run(scenario)


def test_a_transaction_opens_on_the_coordinators_answer_and_holds_back_nobody_else(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        first, second = leading.produce(batch(7, 0, txn_no=1)), leading.produce(batch(7, 1, txn_no=1))
        other = leading.produce(batch(9, 0))
        await turn()
        assert leading.host.enrolments == [TxnSession(7, 1, 0)]
        assert leading.log.log_end_offset == 1
        leading.leadership.enrolled(TxnSession(7, 1, 0), None)
        await turn()
        leading.acknowledge(3)
        assert [answer.result().base_offset for answer in (other, first, second)] == [0, 1, 2]

    run(scenario)


def test_batches_that_wait_for_their_enrolment_count_in_the_bytes_that_may_wait(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        size = len(batch(7, 0, txn_no=1))
        leading.leadership.queue.bounds = Bounds(batches=100, bytes=2 * size)
        first = leading.produce(batch(7, 0, txn_no=1))
        await turn()
        second = leading.produce(batch(7, 1, txn_no=1))
        await turn()
        with pytest.raises(ResourceExhaustedError):
            leading.produce(batch())
        leading.leadership.enrolled(TxnSession(7, 1, 0), None)
        with pytest.raises(ResourceExhaustedError):
            leading.produce(batch())
        await turn()
        plain = leading.produce(batch())
        await turn()
        leading.acknowledge(3)
        assert [answer.result().base_offset for answer in (first, second, plain)] == [0, 1, 2]
        refused = [leading.produce(batch(7, number, txn_no=2)) for number in range(2)]
        await turn()
        leading.leadership.enrolled(TxnSession(7, 2, 0), CoordinatorNotAvailableError())
        assert all(answer.exception() for answer in refused)
        leading.produce(batch(payload=b"x" * size))

    run(scenario)


def test_participants_of_one_transaction_share_one_enrolment(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        answers = [leading.produce(batch(producer_id, 0, txn_no=1)) for producer_id in (20, 21)]
        await turn()
        assert len(leading.host.enrolments) == 1
        leading.leadership.enrolled(TxnSession(7, 1, 0), None)
        await turn()
        leading.acknowledge(2)
        assert sorted(answer.result().base_offset for answer in answers) == [0, 1]

    run(scenario)


def test_a_refused_enrolment_fails_its_own_transaction_alone(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        refused, plain = leading.produce(batch(7, 0, txn_no=1)), leading.produce(batch(9, 0))
        await turn()
        leading.leadership.enrolled(TxnSession(7, 1, 0), CoordinatorNotAvailableError())
        await turn()
        leading.acknowledge(1)
        assert isinstance(refused.exception(), CoordinatorNotAvailableError)
        assert plain.result().base_offset == 0
        again = leading.produce(batch(7, 0, txn_no=1))
        await turn()
        assert len(leading.host.enrolments) == 2, "it is asked again"
        leading.leadership.enrolled(TxnSession(7, 1, 0), None)
        await turn()
        leading.acknowledge(2)
        assert again.result().base_offset == 1

    run(scenario)


def test_a_yes_that_comes_after_the_marker_opens_nothing(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        late = leading.produce(batch(7, 0, txn_no=1))
        await turn()
        marker = leading.mark(1, committed=False)
        await turn()
        leading.leadership.enrolled(TxnSession(7, 1, 0), None)
        await turn()
        leading.acknowledge(1)
        assert marker.result().base_offset == 0, "a marker that ends nothing is appended all the same"
        assert isinstance(late.exception(), TxnEndedError)

    run(scenario)


def test_a_repeated_marker_is_answered_with_the_first_one(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        first, second = leading.mark(1), leading.mark(1)
        await turn()
        assert not second.done()
        leading.acknowledge(1)
        assert first.result().base_offset == second.result().base_offset == 0
        assert leading.log.log_end_offset == 1

    run(scenario)


def test_not_written_is_final(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        leading.produce(batch(7, 0))
        await turn()
        leading.acknowledge(1)
        done, command = leading.settle(1)
        await turn()
        assert not done.done(), "the fence is not committed yet"
        leading.acknowledge(2)
        assert done.done()
        assert command.settled is not None
        assert not command.settled.written
        assert command.settled.producer_epoch == 1
        late = leading.produce(batch(7, 1))
        await turn()
        assert isinstance(late.exception(), InvalidProducerEpochError)
        renewed = leading.produce(batch(7, 0, epoch=1))
        await turn()
        leading.acknowledge(3)
        assert renewed.result().base_offset == 2

    run(scenario)


def test_written_is_said_only_below_the_watermark_and_fences_nobody(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        leading.produce(batch(7, 0))
        await turn()
        done, command = leading.settle(0)
        await turn()
        assert not done.done()
        leading.acknowledge(1)
        assert done.done()
        assert command.settled is not None
        assert command.settled.written
        assert command.settled.base_offset == 0
        assert leading.log.log_end_offset == 1

    run(scenario)


def test_a_leader_is_confirmed_by_what_a_follower_accepts_after_the_question(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        leading.leadership.replicas.require_in_sync(1)
        leading.host.told.clear()
        first = asyncio.ensure_future(leading.leadership.confirm())
        await turn()
        assert leading.host.told == ["appended"], "followers are sent something"
        second = asyncio.ensure_future(leading.leadership.confirm())
        await turn()
        leading.leadership.confirming.answered(B.broker_id, 1)
        await turn()
        assert (first.done(), second.done()) == (True, False)
        leading.host.ended.add(B.broker_id)
        leading.leadership.expire(leading.host.clock.monotonic_ms())
        await turn()
        assert second.done()
        await second

    run(scenario)


def test_followers_are_told_at_once_where_the_log_begins_now(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        leading.host.told.clear()
        asked = leading.leadership.confirming.asked
        leading.leadership.log_start_moved()
        assert leading.host.told == ["appended"], "followers are sent something"
        assert leading.leadership.confirming.asked == asked + 1
        assert not leading.leadership.is_waiting, "and nobody waits for it"
        leading.leadership.end()
        leading.host.told.clear()
        leading.leadership.log_start_moved()
        assert "appended" not in leading.host.told

    run(scenario)


def test_followers_are_told_what_every_replica_holds_only_when_that_has_moved_or_may_move(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        def said() -> bool:
            leading.host.told.clear()
            leading.leadership.tell_held()
            return leading.host.told == ["appended"]

        assert not said(), "nobody holds anything"
        answer = leading.produce(batch())
        await turn()
        leading.leadership.acknowledge(B, 1, 1, 0)
        await answer
        assert not said(), "what is in the active segment is not compacted"
        leading.log._roll()
        assert said(), "B has something that was not on its disk when it answered"
        leading.leadership.acknowledge(B, 1, 1, 1)
        assert leading.leadership.held_everywhere == 0, "this leader's own disk counts"
        assert not said()
        await leading.log.sync()
        leading.leadership.synced()
        assert leading.leadership.held_everywhere == 1
        assert [said(), said()] == [True, False]
        leading.leadership.start_session(B, 2)
        assert [said(), said()] == [True, False], "it fell, since B begins again"
        leading.leadership.end()
        leading.leadership.acknowledge(B, 2, 1, 1)
        assert not said()

    run(scenario)


def test_who_waits_for_a_confirmation_hears_when_the_leadership_ends_or_nobody_answers(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        leading.leadership.replicas.require_in_sync(1)
        late = asyncio.ensure_future(leading.leadership.confirm())
        await turn()
        leading.leadership.expire(leading.host.clock.monotonic_ms() + CONFIRM_MS)
        with pytest.raises(OffsetNotAvailableError):
            await late
        waiting = asyncio.ensure_future(leading.leadership.confirm())
        await turn()
        leading.leadership.end()
        with pytest.raises(NotLeaderError):
            await waiting
        with pytest.raises(NotLeaderError):
            await leading.leadership.confirm()

    run(scenario)


def test_the_broker_looks_at_the_clock_for_it_only_while_something_waits(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        leadership, host = leading.leadership, leading.host
        assert (leadership.is_waiting, host.waiting) == (False, [])
        done = leading.produce(batch())
        assert (leadership.is_waiting, host.waiting) == (True, [leadership]), "queued"
        await turn()
        assert leadership.is_waiting, "appended, not acknowledged"
        leading.acknowledge(1)
        assert (await done, leadership.is_waiting)[1] is False
        leadership.replicas.require_in_sync(1)
        confirming = asyncio.ensure_future(leadership.confirm())
        await turn()
        assert (leadership.is_waiting, host.waiting) == (True, [leadership] * 2), "somebody asks whether it leads"
        leadership.end()
        assert not leadership.is_waiting
        with pytest.raises(NotLeaderError):
            await confirming

    run(scenario)


# ---------------------------------------------------------------- a disk that is nearly full


def test_a_nearly_full_disk_takes_markers_and_no_records_and_another_replica_is_to_lead(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        await opened(leading, 7, 0)
        leading.host.disk_room.level = Level.RESERVED
        for refused in (batch(), batch(7, 1, txn_no=1)):
            with pytest.raises(ResourceExhaustedError) as refusal:
                leading.produce(refused)
            assert (refusal.value.context["reason"], refusal.value.retry_after_ms) == ("disk", 1_000)
        assert leading.host.told.count("nearly full") == 2
        ended = leading.mark(1)
        await turn()
        leading.acknowledge(2)
        assert ended.result().base_offset == 1, "what was begun can be decided"
        leading.host.disk_room.level = Level.ROOMY
        leading.produce(batch())
        await turn()
        assert leading.log.log_end_offset == 3

    run(scenario)


def test_a_disk_with_little_room_begins_no_transaction_and_continues_those_that_are_open(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        await opened(leading, 7, 0)
        leading.host.disk_room.level = Level.LOW
        leading.produce(batch(7, 1, txn_no=1))
        leading.produce(batch())
        with pytest.raises(ResourceExhaustedError):
            leading.produce(batch(7, 2, txn_no=2))
        await turn()
        assert leading.log.log_end_offset == 3
        assert "nearly full" not in leading.host.told

    run(scenario)


async def opened(leading: Leading, producer_id: int, sequence: int) -> None:
    """A transaction whose first batch is in the log."""
    leading.produce(batch(producer_id, sequence, txn_no=1))
    await turn()
    (session,) = leading.host.enrolments
    leading.leadership.enrolled(session, None)
    await turn()
    assert leading.log.log_end_offset == 1
    leading.acknowledge(1)


# ---------------------------------------------------------------- overload


def test_a_marker_finds_a_place_where_batches_have_taken_all_others(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        await opened(leading, 7, 0)
        leading.leadership.queue.bounds = Bounds(5, 1 << 20)
        for _ in range(5):
            leading.produce(batch())
        with pytest.raises(ResourceExhaustedError):
            leading.produce(batch())
        ended = leading.mark(1)
        await turn()
        leading.acknowledge(7)
        assert ended.result().base_offset == 6

    run(scenario)
