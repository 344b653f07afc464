"""What follows the answer about a batch in doubt, and the news that a topic is gone."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.config import ProducerConfig
from oncelog.core.produce.accumulator import Batch, Row
from oncelog.core.produce.actions import Acknowledged, Action, Failed, WakeAt
from oncelog.core.produce.attempt import AttemptState
from oncelog.core.produce.deliveries import Deliveries
from oncelog.core.produce.producer_core import ProducerCore
from oncelog.core.produce.recovery_core import RecoveryCore
from oncelog.types import PartitionId
from tests.unit.sdk.core.produce.known_facts import P0, PRODUCER, KnownFacts, SomeTopic

LOST = errors.NetworkError()
UNKNOWN_TOPIC = errors.UnknownTopicError()
NEW = PartitionId("new", 0)


class Machine:
    """Both cores of a producer that writes to one partition, a batch for each record."""

    def __init__(self) -> None:
        config = ProducerConfig(linger_ms=0, batch_size=600)
        self.facts = KnownFacts()
        self.deliveries = Deliveries(config, self.facts, None, can_renew=True)
        self.sending = ProducerCore(config, self.deliveries)
        self.sending.renewed(PRODUCER)
        self.core = RecoveryCore(self.deliveries)

    def add(self) -> Batch:
        return self.sending.add(P0, Row("orders", None, None, bytes(500), 0, (), 517), 0)[0]

    def sent(self) -> Batch:
        """A batch in flight."""
        batch = self.add()
        self.sending.tick(0)
        assert batch.attempt.state is AttemptState.SENT
        return batch

    def doubtful(self) -> Batch:
        """A batch whose only try got no answer."""
        batch = self.sent()
        self.sending.answered(batch, LOST, -1, 0)
        return batch


def failures(actions: list[Action]) -> list[tuple[Batch, type[errors.OncelogError]]]:
    return [(action.batch, type(action.error)) for action in actions if isinstance(action, Failed)]


def test_a_batch_that_the_leader_has_is_acknowledged() -> None:
    machine = Machine()
    batch = machine.doubtful()
    assert machine.core.awaits_state(batch)
    assert machine.core.state_known(batch, True, 41) == [Acknowledged(batch)]
    assert batch.base_offset == 41
    assert not machine.core.awaits_state(batch)


def test_a_batch_that_the_leader_does_not_have_was_not_written() -> None:
    machine = Machine()
    batch = machine.doubtful()
    (failed,) = machine.core.state_known(batch, False, -1)
    assert isinstance(failed, Failed)
    assert failed.error.context["written"] == "false"


def test_an_unanswered_question_is_told_once_and_asked_again() -> None:
    machine = Machine()
    batch = machine.doubtful()
    (failed,) = machine.core.state_unanswered(batch, LOST)
    assert isinstance(failed, Failed)
    assert "written" not in failed.error.context
    assert machine.core.awaits_state(batch)
    assert machine.core.state_unanswered(batch, LOST) == []
    assert machine.core.state_known(batch, True, 3) == [], "the caller has its answer already"
    assert not machine.core.awaits_state(batch)


def test_a_question_that_is_refused_for_good_ends() -> None:
    machine = Machine()
    batch = machine.doubtful()
    (failed,) = machine.core.state_unanswered(batch, errors.ClusterAuthorizationError("not yours"))
    assert isinstance(failed, Failed)
    assert "not yours" in str(failed.error)
    assert not machine.core.awaits_state(batch)


def test_an_answer_after_a_drop_changes_nothing() -> None:
    machine = Machine()
    batch = machine.doubtful()
    machine.deliveries.drop(lambda _: errors.TxnEndedError("over"))
    machine.deliveries.taken()
    assert machine.core.state_known(batch, True, 1) == []
    assert machine.core.state_unanswered(batch, LOST) == []
    assert isinstance(batch.error, errors.TxnEndedError)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_leader_that_knows_no_such_topic_ends_the_question_only_when_the_topic_is_gone(is_gone: bool) -> None:
    machine = Machine()
    batch = machine.doubtful()
    if is_gone:
        machine.facts.gone.add(P0.topic_id)
    assert failures(machine.core.state_unanswered(batch, UNKNOWN_TOPIC)) == [(batch, errors.DeliveryTimedOutError)]
    assert machine.core.awaits_state(batch) != is_gone


def test_a_topic_that_was_created_again_gets_what_was_certainly_not_written_in_its_order() -> None:
    machine = Machine()
    first, second = machine.sent(), machine.add()
    machine.sending.answered(first, errors.NotLeaderError(), -1, 0)
    machine.facts.gone.add(P0.topic_id)
    machine.facts.newer = SomeTopic(NEW.topic_id, 1)
    assert machine.core.refreshed(None, True, 0) == []
    assert machine.deliveries.queues.drop(NEW) == [first, second]
    assert (first.base_sequence, first.attempt.state) == (-1, AttemptState.QUEUED)
    assert machine.deliveries.due.keys() >= {NEW}


def test_what_may_be_written_to_a_topic_that_is_gone_fails() -> None:
    machine = Machine()
    batch = machine.doubtful()
    machine.facts.gone.add(P0.topic_id)
    machine.facts.newer = SomeTopic(NEW.topic_id, 1)
    assert failures(machine.core.refreshed(None, True, 0)) == [(batch, errors.UnknownTopicError)]


def test_what_is_in_flight_to_a_topic_that_was_created_again_waits_for_its_refusal() -> None:
    machine = Machine()
    batch = machine.sent()
    machine.facts.gone.add(P0.topic_id)
    machine.facts.newer = SomeTopic(NEW.topic_id, 1)
    assert machine.core.refreshed(None, True, 0) == []
    machine.sending.answered(batch, UNKNOWN_TOPIC, -1, 0)
    machine.core.refreshed(None, True, 0)
    assert machine.deliveries.queues.drop(NEW) == [batch]


@pytest.mark.parametrize("newer", [None, SomeTopic("new", 0)], ids=["no topic", "fewer partitions"])
def test_where_there_is_no_such_partition_any_more_all_of_it_fails(newer: SomeTopic | None) -> None:
    machine = Machine()
    batches = [machine.sent(), machine.add()]
    machine.facts.gone.add(P0.topic_id)
    machine.facts.newer = newer
    if newer is not None:  # else the refusal is not waited for
        machine.sending.answered(batches[0], UNKNOWN_TOPIC, -1, 0)
    told = failures(machine.core.refreshed(None, True, 0))
    assert told == [(batch, errors.UnknownTopicError) for batch in batches]
    assert machine.deliveries.windows == {}


def test_metadata_that_is_not_fresh_ends_nothing_and_is_an_obstacle() -> None:
    machine = Machine()
    batch = machine.sent()
    machine.facts.gone.add(P0.topic_id)
    assert machine.core.refreshed(LOST, False, 0) == []
    machine.facts.leaders.clear()
    assert machine.deliveries.obstacle(batch, 0) is LOST


def test_a_partition_without_a_leader_is_looked_at_again_after_a_pause_that_grows() -> None:
    machine = Machine()
    leaders, machine.facts.leaders = machine.facts.leaders, {}
    machine.add()
    for looks in (1, 2):
        machine.sending.tick(0)
        assert machine.core.refreshed(None, True, 50) == [WakeAt(P0, 50 + looks * machine.facts.delay)]
        machine.deliveries.wake((P0,))
    machine.facts.leaders = leaders
    machine.deliveries.due.clear()
    assert machine.core.refreshed(None, True, 60) == []
    assert list(machine.deliveries.due) == [P0]
