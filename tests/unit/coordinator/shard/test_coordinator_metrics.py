"""A transaction is counted when its decision is committed, and a scrape reads what the shards of this process hold."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog_coordinator.core.decision import TransactionEnded
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.shard.coordinator_metrics import CoordinatorCollector, CoordinatorMetrics
from oncelog_coordinator.shard.shard_observer import Observed
from oncelog_runtime.metadata.cluster_keys import KIND_TXN
from oncelog_runtime.observability.metrics import SLICE, Histogram, NodeMetrics
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import USER_TOPIC_ID
from tests.unit.coordinator.serving import Serving, serve


class Counts:
    """The metrics of a process whose clock of durations stands at 5 s."""

    def __init__(self) -> None:
        self.node = NodeMetrics(lambda: 5.0)
        with SimWorld(1) as world:
            self.metrics = CoordinatorMetrics(self.node, Bugs(self.node, world.node("a").clock))

    def told(self) -> dict[str, float | Histogram]:
        """name{labels} -> value."""
        return {
            f"{family.metric.name}{{{labels}}}": value
            for family in self.node.families()
            if family is not None
            for labels, value in family.rows
        }


def scraped(here: Serving) -> dict[str, float]:
    collector = CoordinatorCollector(here.clock, here.owned, here.ids)
    return {
        f"{family.metric.name}{{{labels}}}": value
        for family in collector.collect()
        if family is not None
        for labels, value in family.rows
        if not isinstance(value, Histogram)
    }


@pytest.mark.parametrize("outcome", ["committed", "aborted", "timed_out"])
def test_each_end_is_counted_under_its_outcome_with_its_duration(outcome: str) -> None:
    counts = Counts()
    counts.metrics.committed([Observed(since_s=4.0, ended=(TransactionEnded(outcome, 1_500),))])
    told = counts.told()
    assert {key: value for key, value in told.items() if key.startswith("oncelog_txn_total") and value} == {
        f'oncelog_txn_total{{outcome="{outcome}"}}': 1
    }
    duration, decide = told["oncelog_txn_duration_seconds{}"], counts.metrics.decide
    assert isinstance(duration, Histogram)
    assert (duration.total, sum(duration.counts)) == (1.5, 1)
    assert (decide.total, sum(decide.counts)) == (1.0, 1)


def test_what_never_began_and_what_nobody_asked_for_have_no_duration() -> None:
    counts = Counts()
    counts.metrics.committed([Observed(ended=(TransactionEnded("aborted"),))])
    duration = counts.told()["oncelog_txn_duration_seconds{}"]
    assert isinstance(duration, Histogram)
    assert sum(duration.counts) == sum(counts.metrics.decide.counts) == 0


@pytest.mark.parametrize(
    ("error", "fenced"),
    [
        (errors.FencedMemberEpochError(), 1),
        (errors.UnknownMemberError(), 1),
        (errors.FencedInstanceIdError(), 1),
        (errors.NonEmptyGroupError(), 0),
    ],
)
def test_members_whose_membership_has_ended_are_counted_apart(error: errors.OncelogError, fenced: int) -> None:
    counts = Counts()
    counts.metrics.refused(error)
    counts.metrics.rebalanced()
    told = counts.told()
    assert told["oncelog_consumer_group_fenced_total{}"] == fenced
    assert (told["oncelog_producer_fenced_total{}"], told["oncelog_consumer_group_rebalances_total{}"]) == (0, 1)


@pytest.mark.parametrize(
    ("error", "fenced"),
    [(errors.ProducerFencedError(), 1), (errors.InvalidProducerEpochError(), 1), (errors.TxnAbortedError(), 0)],
)
def test_only_refusals_because_of_a_newer_session_count_as_fenced(error: errors.OncelogError, fenced: int) -> None:
    counts = Counts()
    counts.metrics.refused(error)
    assert counts.told()["oncelog_producer_fenced_total{}"] == fenced


def test_failed_lives_are_counted_by_kind() -> None:
    counts = Counts()
    counts.metrics.life_failed(KIND_TXN)
    told = counts.told()
    assert told['oncelog_shard_failed_lives_total{kind="txn"}'] == 1
    assert told['oncelog_shard_failed_lives_total{kind="group"}'] == 0


def test_a_scrape_tells_what_is_open_what_completes_and_how_old_it_is() -> None:
    async def scenario(here: Serving) -> None:
        first, second = await here.begin("first"), await here.begin("second")
        place = types_pb2.TopicPartition(topic_id=USER_TOPIC_ID, partition=0)
        await here.transactions.enrol_partitions(co.EnrolPartitionsRequest(name=first, partitions=[place]))
        await asyncio.sleep(3)
        await here.transactions.enrol_partitions(co.EnrolPartitionsRequest(name=second, partitions=[place]))
        here.markers_wait = True
        ending = co.EndTransactionRequest(name=second, outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED)
        await here.transactions.end_transaction(ending)
        found = scraped(here)
        assert (found["oncelog_txn_open{}"], found["oncelog_txn_completing{}"]) == (1, 1)
        assert found["oncelog_transactional_ids{}"] == 2
        assert 3 <= found["oncelog_txn_oldest_open_seconds{}"] < 3.5
        assert found["oncelog_producer_ids_in_stock{}"] == here.ids.stock > 0
        here.markers_wait = False

    serve(scenario)


def test_a_shard_that_does_not_serve_is_owned_and_says_nothing_of_its_transactions() -> None:
    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        here.partitions[KIND_TXN, name.txn_shard].refuse = True
        shard = here.owned[KIND_TXN, name.txn_shard]
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await shard.ask(cmd.InitProducerId("t", 60_000, "", 0))
        await asyncio.sleep(3)
        found = scraped(here)
        assert found["oncelog_transactional_ids{}"] == 0
        states = {state: found[f'oncelog_shards{{kind="txn",state="{state}"}}'] for state in ("owned", "serving")}
        assert states == {"owned": 3, "serving": 2}
        assert found['oncelog_shards{kind="txn",state="troubled"}'] == 1

    serve(scenario)


def test_a_scrape_of_many_open_transactions_lets_the_loop_turn() -> None:
    async def scenario(here: Serving) -> None:
        shard = here.shards.transaction_shard("t")
        life = shard.life
        for number in range(2 * SLICE):
            tid = f"t{number}"
            life.tell(cmd.InitProducerId(tid, 60_000, "", number + 1))
            life.tell(cmd.Enrol(cmd.TxnName(tid, number + 1, 1, 0), ((USER_TOPIC_ID, 0),)))  # type: ignore[arg-type]
        await shard.ask(cmd.ListIds())
        pauses = sum(family is None for family in CoordinatorCollector(here.clock, here.owned, here.ids).collect())
        assert pauses == 2

    serve(scenario)
