"""Healing goes on with everybody else's transactions when one shard's owner, or one partition, does not answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from oncelog.core.batch.control import Marker
from oncelog.errors import InvalidTxnStateError, NotEnoughReplicasError, OncelogError, RequestTimedOutError
from oncelog.types import PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.appends.commands import AppendMarkerCommand, Written
from oncelog_partition_leader.core.producers.transactions import OpenTransaction, TxnName
from oncelog_partition_leader.partition.hanging_transactions import Healer
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.sim import SimWorld


class FakeCoordinators:
    """Shard 1 is silent; every other one says: aborted."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def resolve(self, partition: PartitionId, opened: OpenTransaction) -> Marker:
        self.asked.append(opened.txn_shard)
        if opened.txn_shard == 1:
            await asyncio.sleep(5)
            raise RequestTimedOutError
        return Marker(committed=False, coordinator_epoch=1, session_epoch=0)


class FakeLeadership:
    """Open transactions, one of each shard, and what becomes of their markers."""

    def __init__(self, shards: list[int], refusals: dict[int, OncelogError]) -> None:
        opened = [OpenTransaction(TxnName(shard, 1), shard, 0, shard, -1_000_000) for shard in shards]
        self.partition = PartitionId("0" * 32, 0)
        self.ended = None
        self.log = SimpleNamespace(producers=SimpleNamespace(open_transactions=opened))
        self.refusals = refusals
        self.closed: list[int] = []

    def submit(self, command: AppendMarkerCommand) -> None:
        error = self.refusals.get(command.txn_shard)
        if error is not None:
            raise error
        self.closed.append(command.txn_shard)
        command.done.set_result(Written(0, 0, 0, False))


def heal(*leaderships: FakeLeadership) -> list[int]:
    coordinators = FakeCoordinators()
    with SimWorld(1) as world:
        clock = world.node("a").clock
        healer = Healer(
            {},
            cast(Any, coordinators),
            BrokerConfig(node_id=1, transaction_resolve_after_ms=1),
            clock,
            Bugs(NodeMetrics(), clock),
        )

        async def scenario() -> None:
            silent: dict[int, None] = {}
            for leadership in leaderships:
                where = SimpleNamespace(leadership=leadership, topic="t", id=leadership.partition)
                await healer.heal(cast(Any, where), silent)

        world.run(scenario())
    return coordinators.asked


def test_a_silent_shard_is_asked_once_a_round() -> None:
    one, two = FakeLeadership([1, 1, 2], {}), FakeLeadership([1, 3], {})
    assert heal(one, two) == [1, 2, 3]
    assert (one.closed, two.closed) == ([2], [3])


def test_a_partition_that_takes_nothing_is_left_but_one_refused_marker_stops_nobody() -> None:
    stuck = FakeLeadership([2, 3], {2: NotEnoughReplicasError()})
    odd = FakeLeadership([2, 3], {2: InvalidTxnStateError()})
    heal(stuck, odd)
    assert (stuck.closed, odd.closed) == ([], [3])


def test_a_clock_that_is_behind_delays_no_healing() -> None:
    leadership = FakeLeadership([2], {})
    leadership.log.producers.open_transactions[0] = OpenTransaction(TxnName(2, 1), 2, 0, 2, 1_000_000_000_000_000)
    coordinators = FakeCoordinators()
    with SimWorld(1) as world:
        clock = world.node("a").clock
        config = BrokerConfig(node_id=1, transaction_resolve_after_ms=60_000)
        healer = Healer({}, cast(Any, coordinators), config, clock, Bugs(NodeMetrics(), clock))

        async def scenario() -> None:
            where = SimpleNamespace(leadership=leadership, topic="t", id=leadership.partition)
            for expected in ([], [], [2]):
                await healer.heal(cast(Any, where))
                assert leadership.closed == expected
                await asyncio.sleep(30)

        world.run(scenario())
