"""What a producer's core decides: each step of its order, without a loop, a clock or a network."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from oncelog import errors
from oncelog.config import ProducerConfig
from oncelog.core.batch.identity import Identity
from oncelog.core.produce.accumulator import Batch, Row, row_bytes
from oncelog.core.produce.actions import (
    Acknowledged,
    Action,
    AskState,
    Failed,
    Refresh,
    RenewIdentity,
    Send,
    WaitForCall,
    WakeAt,
)
from oncelog.core.produce.attempt import AttemptState
from oncelog.core.produce.deliveries import Deliveries
from oncelog.core.produce.producer_core import ProducerCore
from oncelog.types import PartitionId
from tests.unit.sdk.core.produce.known_facts import BROKER, P0, P1, PRODUCER, KnownFacts

LOST = errors.NetworkError()


class Machine:
    """A core whose shell only notes what it should do."""

    def __init__(self, can_renew: bool = True, **options: Any) -> None:
        config = ProducerConfig(**{"linger_ms": 0, **options})
        self.facts = KnownFacts()
        self.deliveries = Deliveries(config, self.facts, None, can_renew)
        self.core = ProducerCore(config, self.deliveries)
        self.core.renewed(PRODUCER)

    def add(self, partition: PartitionId = P0, value: bytes = b"v", now_ms: int = 0) -> Batch:
        return self.core.add(partition, Row("orders", None, None, value, 0, (), 17 + len(value)), now_ms)[0]

    def tick(self, now_ms: int = 0) -> list[Action]:
        return self.core.tick(now_ms)

    def sent(self, now_ms: int = 0) -> list[Batch]:
        """The batches of a tick's only call."""
        (send,) = self.tick(now_ms)
        assert isinstance(send, Send)
        return send.batches

    def answered(
        self, batch: Batch, error: errors.OncelogError | None, now_ms: int = 0, offset: int = 7
    ) -> list[Action]:
        return self.core.answered(batch, error, offset, now_ms)


def test_a_batch_goes_to_its_leader_and_is_acknowledged() -> None:
    machine = Machine()
    batch = machine.add()
    assert machine.core.is_due
    (send,) = machine.tick()
    assert isinstance(send, Send)
    assert (send.address, send.batches, send.size_bytes) == (BROKER, [batch], len(batch.encoded))
    assert machine.answered(batch, None) == [Acknowledged(batch)]
    assert (batch.error, batch.base_offset, machine.deliveries.acked) == (None, 7, {P0: 1})
    assert (machine.deliveries.open, machine.deliveries.queues.used_bytes) == ({}, 0)
    assert machine.tick() == []


def test_all_that_is_ready_for_a_broker_goes_in_one_call_a_batch_for_each_partition() -> None:
    machine = Machine()
    batches = [machine.add(P0), machine.add(P1)]
    assert machine.sent() == batches


def test_a_call_that_is_full_is_followed_by_another_one() -> None:
    machine = Machine(max_request_size=1_000, batch_size=1_000, compression_type="none")
    batches = [machine.add(P0, bytes(400)), machine.add(P1, bytes(400))]
    sends = machine.tick()
    assert [send.batches for send in sends if isinstance(send, Send)] == [[batch] for batch in batches]


def test_an_open_batch_lingers_and_a_full_one_or_a_flush_does_not() -> None:
    machine = Machine(linger_ms=20, batch_size=700)
    first = machine.add(now_ms=5)
    assert machine.tick(5) == [WakeAt(P0, 25)]
    machine.core.begin_flush()
    assert machine.sent(6) == [first]
    machine.core.end_flush()
    second = machine.add(now_ms=7)
    assert machine.tick(7) == [WakeAt(P0, 27)]
    while machine.add(value=bytes(100), now_ms=8) is second:
        pass
    assert machine.sent(8) == [second]


@pytest.mark.parametrize("together", [False, True], ids=["one row", "a run"])
def test_a_batch_that_is_just_full_waits_for_no_other_row(together: bool) -> None:
    machine = Machine(linger_ms=20, batch_size=700)
    batch = machine.add()
    assert machine.tick() == [WakeAt(P0, 20)]
    rest = Row("orders", None, None, b"", 0, (), 700 - batch.size_bytes)
    if together:
        machine.core.add_rows(P0, [rest], 1)
    else:
        machine.core.add(P0, rest, 1)
    assert machine.sent(1) == [batch]


def test_without_a_known_leader_the_metadata_is_asked_for() -> None:
    machine = Machine()
    machine.facts.leaders.clear()
    machine.add()
    assert machine.tick() == [Refresh()]


def test_a_quota_holds_a_broker_until_it_is_over() -> None:
    machine = Machine()
    machine.facts.held[BROKER] = 90
    machine.add()
    assert machine.tick(10) == [WakeAt(P0, 90)]


def test_a_broker_with_as_many_calls_as_allowed_gets_no_other_one() -> None:
    machine = Machine()
    machine.facts.in_flight[BROKER] = 16
    batch = machine.add()
    assert machine.tick() == [WaitForCall(P0, BROKER)]
    machine.facts.in_flight[BROKER] = 4
    machine.deliveries.wake((P0,))
    assert machine.sent() == [batch]


def test_at_five_calls_a_batch_that_can_grow_waits_behind_others_of_its_partition() -> None:
    machine = Machine(batch_size=700)
    machine.facts.in_flight[BROKER] = 15
    first = machine.add()
    assert machine.sent() == [first], "it is the only one of its partition"
    machine.facts.in_flight[BROKER] = 5
    batch = machine.add()
    assert machine.tick() == [WaitForCall(P0, BROKER)]
    while machine.add(value=bytes(100)) is batch:
        pass
    assert machine.sent() == [batch]
    machine.deliveries.wake((P0,))
    assert machine.tick() == [WaitForCall(P0, BROKER)], "the one that was begun behind it"
    machine.core.begin_flush()
    assert machine.sent()[0].record_count == 1


def test_at_five_calls_a_batch_is_sent_again_whatever_waits_behind_it() -> None:
    machine = Machine(batch_size=700)
    first = machine.add()
    assert machine.sent() == [first]
    machine.add()
    machine.facts.in_flight[BROKER] = 15
    machine.answered(first, errors.NotEnoughReplicasError(), now_ms=0)
    assert machine.sent(1_000) == [first]


def test_above_two_mebibytes_no_batch_follows_five_of_its_partition() -> None:
    machine = Machine(batch_size=1_000)
    sent = []
    for _ in range(5):
        machine.add(value=bytes(500 << 10))
        sent += machine.sent()
    machine.add(value=bytes(500 << 10))
    assert machine.tick() == []
    machine.answered(sent[0], None)
    assert len(machine.sent()) == 1


def test_after_a_quota_no_batch_follows_five_of_its_partition() -> None:
    machine = Machine(batch_size=600)
    machine.facts.was_held = True
    sent = []
    for _ in range(5):
        machine.add(value=bytes(100))
        sent += machine.sent()
    machine.add(value=bytes(100))
    assert machine.tick() == []
    machine.facts.was_held = False
    machine.deliveries.wake((P0,))
    assert len(machine.sent()) == 1


def test_at_five_batches_of_a_partition_only_full_ones_follow() -> None:
    machine = Machine(batch_size=700)
    for _ in range(5):
        batch = machine.add()
        assert machine.sent() == [batch]
    open_one = machine.add()
    assert machine.tick() == []
    while machine.add(value=bytes(100)) is open_one:
        pass
    assert machine.sent() == [open_one]
    assert machine.tick() == [], "the one that was begun behind it takes records"
    machine.answered(open_one, None)
    assert machine.tick() == [], "five are in flight still"
    machine.answered(batch, None)
    assert machine.sent()[0].record_count == 1


def test_a_batch_that_was_not_written_is_sent_again_after_its_pause() -> None:
    machine = Machine()
    batch = machine.add()
    machine.tick()
    assert machine.answered(batch, errors.NotEnoughReplicasError(), now_ms=10) == []
    assert machine.tick(10) == [WakeAt(P0, 10 + machine.facts.delay)]
    machine.deliveries.wake((P0,))
    assert machine.sent(10 + machine.facts.delay) == [batch]
    assert batch.attempt.tries == 2


@pytest.mark.parametrize("error", [LOST, errors.RequestTimedOutError(), errors.NotLeaderError()], ids=repr)
def test_an_answer_that_another_leader_may_explain_asks_for_the_metadata(error: errors.OncelogError) -> None:
    machine = Machine()
    batch = machine.add()
    machine.tick()
    assert machine.answered(batch, error) == [Refresh()]


def test_an_answer_to_a_batch_that_failed_already_asks_for_nothing() -> None:
    machine = Machine(batch_size=600)
    first, second = machine.add(value=bytes(500)), machine.add(value=bytes(500))
    assert machine.sent() == [first]
    assert machine.sent() == [second]
    machine.answered(first, errors.MessageTooLargeError())
    assert second.done
    assert machine.answered(second, LOST) == []


def test_the_outcome_of_a_batch_in_doubt_is_asked_for_when_its_time_is_over_once() -> None:
    machine = Machine(delivery_timeout_ms=31_000)
    batch = machine.add()
    machine.tick()
    machine.answered(batch, LOST, now_ms=30_999)
    assert machine.tick(31_000) == [AskState(P0, batch)]
    machine.deliveries.wake((P0,))
    assert machine.tick(31_001) == [], "the question is under way"
    machine.core.question_over(P0)
    assert machine.tick(31_002) == [AskState(P0, batch)]


def test_a_batch_that_was_certainly_not_written_fails_when_its_time_is_over() -> None:
    machine = Machine(delivery_timeout_ms=31_000)
    batch = machine.add()
    machine.tick()
    machine.answered(batch, errors.NotEnoughReplicasError(isr=1, min_insync_replicas=2), now_ms=30_999)
    (failed,) = machine.tick(31_000)
    assert isinstance(failed, Failed)
    assert failed.error.context["written"] == "false"
    assert batch.attempt.state is AttemptState.DONE


def test_a_batch_with_no_retry_left_has_no_time_left() -> None:
    machine = Machine(retries=0)
    batch = machine.add()
    machine.tick()
    machine.answered(batch, errors.NotEnoughReplicasError(), now_ms=10)
    (failed,) = machine.tick(10)
    assert isinstance(failed, Failed)


def test_a_sweep_fails_what_waited_too_long_for_its_first_try() -> None:
    machine = Machine(delivery_timeout_ms=31_000)
    machine.facts.leaders.clear()
    batch = machine.add()
    machine.tick()
    assert machine.core.sweep(30_999) == []
    (failed,) = machine.core.sweep(31_000)
    assert isinstance(failed, Failed)
    assert "never sent" in str(failed.error)
    assert isinstance(failed.error.__cause__, errors.LeaderNotAvailableError)
    assert (failed.batch, machine.deliveries.open) == (batch, {})


def test_a_sweep_wakes_what_is_under_way() -> None:
    machine = Machine()
    machine.add()
    machine.tick()
    assert not machine.core.is_due
    machine.core.sweep(500)
    assert machine.core.is_due


def test_an_identity_is_asked_for_once_and_all_partitions_wait_for_it() -> None:
    machine = Machine()
    machine.deliveries.identities.current = None
    batches = [machine.add(P0), machine.add(P1)]
    assert machine.tick() == [RenewIdentity()]
    machine.core.renewed(Identity(8, 0))
    machine.core.renewal_over()
    assert machine.sent() == batches
    assert {batch.identity.producer_id for batch in batches} == {8}


def test_where_the_identity_is_fixed_none_is_asked_for() -> None:
    machine = Machine(can_renew=False)
    machine.deliveries.identities.current = None
    machine.add()
    assert machine.tick() == []


def test_a_refused_renewal_fails_what_waits_and_a_lost_one_does_not() -> None:
    machine = Machine()
    machine.deliveries.identities.current = None
    batch = machine.add()
    machine.tick()
    assert machine.core.renewal_failed(LOST) == []
    refused = errors.ClusterAuthorizationError("not yours")
    assert machine.core.renewal_failed(refused) == [Failed(batch, refused)]


def test_a_batch_that_cannot_be_encoded_fails_alone_and_leaves_no_hole() -> None:
    machine = Machine(max_request_size=500, batch_size=500, compression_type="none")
    large, small = machine.add(value=bytes(500)), machine.add()
    failed, send = machine.tick()
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, errors.MessageTooLargeError)
    assert failed.batch is large
    assert isinstance(send, Send)
    assert (send.batches, small.base_sequence) == ([small], 0)


HEADER = (("a", b"b"),)
TINY = (None, b"v", ())


@pytest.mark.parametrize("limit", [1_000, 20_000, 1 << 20])
@pytest.mark.parametrize(
    "kinds",
    [
        [(None, None, ())],
        [TINY],
        [(b"k", b"v", ())],
        [(b"k", b"v", HEADER), *[TINY] * 50],
        [(b"k", b"v", (("n", None), ("\u20ac" * 10, b"")))],
        [(None, b"v" * 100, ())],
    ],
)
def test_many_small_records_never_make_a_batch_that_is_too_large(kinds: list[Any], limit: int) -> None:
    """Regression: each full batch failed with MESSAGE_TOO_LARGE where `max_request_size` was not above `batch_size`."""
    machine = Machine(max_request_size=limit, batch_size=limit, compression_type="none")
    batches: list[Batch] = []
    for key, value, headers in cycle(kinds):
        row = Row("orders", None, key, value, 0, headers, row_bytes(key, value, headers))
        batches.append(machine.core.add(P0, row, 0)[0])
        if batches[-1] is not batches[0]:
            break
    assert machine.sent() == [batches[0]]
    assert len(batches[0].encoded) <= limit


def test_what_an_exception_left_behind_is_told_with_the_next_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that has its outcome, and is not told, would be waited for without end."""
    machine = Machine(max_request_size=500, batch_size=500, compression_type="none")
    large = machine.add(value=bytes(500))
    machine.add(P1)
    asked = iter([0])
    monkeypatch.setattr(machine.facts, "calls_in_flight", lambda _: next(asked))
    with pytest.raises(StopIteration):
        machine.tick()
    assert large.done
    assert [action.batch for action in machine.deliveries.taken() if isinstance(action, Failed)] == [large]


def test_without_idempotence_no_identity_is_needed() -> None:
    machine = Machine(enable_idempotence=False)
    machine.deliveries.identities.current = Identity()
    batch = machine.add()
    assert machine.sent() == [batch]
    assert batch.base_sequence == -1
