"""What a leader does with one command: holes 10, 12, 22, case F138."""

from __future__ import annotations

import pytest

from oncelog.core.batch.control import Fence, Marker, control_of
from oncelog.errors import InvalidProducerEpochError, NotEnoughReplicasError
from oncelog.types import BrokerRef
from oncelog_partition_leader.core.appends.commands import (
    AppendMarkerCommand,
    Command,
    SettleCommand,
    Settled,
    Written,
)
from oncelog_partition_leader.core.appends.verdicts import AnswerAt, Facts, ToAppend, verdict_on
from oncelog_partition_leader.core.producers.decisions import NeedsEnrolment
from oncelog_partition_leader.core.producers.transactions import TxnName, TxnSession
from oncelog_partition_leader.core.replication.replica_set import Ends, Registered, ReplicaSet
from tests.unit.partition_leader.core.appends.a_reply import AReply, command
from tests.unit.partition_leader.log_helpers import NOW_MS, SHARD, TAG, States, batch

A, B = BrokerRef(1, 11), BrokerRef(2, 12)


class Led:
    """What a leader knows, with a log of its own."""

    def __init__(self, *isr: BrokerRef) -> None:
        self.log = States()
        ends = Ends(high_watermark=0, log=0, own=0)
        registered = Registered((1, 2), isr or (A, B), 5)
        self.replicas = ReplicaSet(A, registered, ends, min_insync_replicas=2, lag_max_ms=1, now_ms=0)

    def judge(self, judged: Command, *verified: TxnSession) -> ToAppend | AnswerAt | NeedsEnrolment:
        facts = Facts(self.log.states, self.replicas, verified, 2, 0, TAG, NOW_MS)
        return verdict_on(judged, facts)


def marker(committed: bool = True) -> AppendMarkerCommand:
    record = Marker(committed=committed, coordinator_epoch=1, session_epoch=0)
    return AppendMarkerCommand(AReply(), 0, name=TxnName(7, 1), txn_shard=SHARD, marker=record)


def settle(sequence: int, *, settle: bool = True) -> SettleCommand:
    return SettleCommand(
        AReply(), 0, producer_id=1, producer_epoch=0, base_sequence=sequence, last_sequence=sequence, settle=settle
    )


def test_a_new_batch_is_appended_as_it_came() -> None:
    one = command()
    assert Led().judge(one) == ToAppend(one.header, one.data)


def test_a_repeated_batch_is_answered_with_its_first_place_when_its_producers_newest_batch_is_committed() -> None:
    led = Led()
    led.log.write(batch(1, 0))
    led.log.write(batch(1, 1))
    assert led.judge(command(1, 0)) == AnswerAt(2, Written(0, NOW_MS, 0, True))


def test_the_first_batch_of_a_transaction_needs_an_enrolment_of_its_own_session() -> None:
    led, session = Led(), TxnSession(7, 1, 0)
    one = command(7, txn=(7, 1))
    assert led.judge(one) == NeedsEnrolment(session, SHARD)
    assert led.judge(one, TxnSession(7, 1, 1)) == NeedsEnrolment(session, SHARD)
    assert led.judge(one, session) == ToAppend(one.header, one.data)


def test_below_the_minimum_nothing_is_appended_and_what_is_written_is_still_known() -> None:
    led = Led(A)
    led.log.write(batch(1, 0))
    for refused in (command(1, 1), command(7, txn=(7, 1)), marker(), settle(5)):
        with pytest.raises(NotEnoughReplicasError) as refusal:
            led.judge(refused)
        assert refusal.value.context == {"isr": "1", "min_insync_replicas": "2"}
    assert isinstance(led.judge(command(1, 0)), AnswerAt)
    assert isinstance(led.judge(command(1, 1, acks=1)), ToAppend)


def test_a_marker_is_sealed_with_the_leaders_time_and_a_repeat_names_the_first_one() -> None:
    led = Led()
    verdict = led.judge(marker())
    assert isinstance(verdict, ToAppend)
    assert control_of(verdict.data) == Marker(committed=True, coordinator_epoch=1, session_epoch=0)
    assert (verdict.header.base_timestamp_ms, verdict.header.partition_tag) == (NOW_MS, TAG)
    led.log.apply(bytes(verdict.data))
    assert led.judge(marker()) == AnswerAt(1, Written(0, -1, 0, True))


def test_a_batch_in_doubt_that_is_written_is_never_fenced() -> None:
    led = Led()
    led.log.write(batch(1, 0))
    assert led.judge(settle(0)) == AnswerAt(1, Written(0, -1, 0, True), Settled(True, True, 0, 0, 0))


def test_not_written_is_final_only_with_a_fence() -> None:
    led = Led()
    led.log.write(batch(1, 0))
    only_asked = led.judge(settle(1, settle=False))
    assert only_asked == AnswerAt(0, Written(-1, -1, 0, False), Settled(True, False, -1, 0, 0))
    verdict = led.judge(settle(1))
    assert isinstance(verdict, ToAppend)
    assert (verdict.answer, verdict.settled) == (Written(-1, -1, 0, False), Settled(True, False, -1, 1, -1))
    fence = control_of(verdict.data)
    assert isinstance(fence, Fence)
    assert fence.producer_epoch == 1
    led.log.apply(bytes(verdict.data))
    with pytest.raises(InvalidProducerEpochError):
        led.judge(command(1, 1))
