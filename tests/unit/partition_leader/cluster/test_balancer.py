"""The marks of brokers out of use, and what operators are told when the controller's write did not happen."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from oncelog.errors import InvalidReplicaAssignmentError, RequestTimedOutError
from oncelog_partition_leader.cluster.balancer import Balancer
from oncelog_partition_leader.cluster.reassigner import Mover
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.kept_logs import KeptLogs
from oncelog_runtime.adapters.system import SystemClock
from oncelog_runtime.metadata.cluster_keys import Broker, broker_key, decommission_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import KeyValue
from tests.unit.partition_leader.cluster_place import Place, run


async def plan(place: Place) -> None:
    """When the brokers have not changed for the time that has to pass first."""
    config = BrokerConfig(node_id=0, replica_balance_delay_ms=1, replica_balance_enabled=False)
    mover = Mover(config, place.metadata, place.view, place.commit)
    balancer = Balancer(config, place.view, place.clock, mover, place.commit)
    await asyncio.sleep(0.1)
    await balancer.plan()


def test_a_mark_that_is_taken_back_while_another_is_removed_is_left_alone() -> None:
    async def scenario(place: Place) -> None:
        for broker_id in (7, 8):
            await place.put(decommission_key(broker_id), b"{}")

        async def take_back() -> None:
            await place.delete(decommission_key(8))

        place.metadata.before_commit = take_back
        await plan(place)
        assert place.view.decommissioned == {}

    run(scenario)


def test_a_broker_that_must_tell_of_its_logs_may_be_decommissioned_though_etcd_has_never_heard_of_it() -> None:
    async def scenario(place: Place) -> None:
        config = BrokerConfig(node_id=0)
        mover = Mover(config, place.metadata, place.view, place.commit)
        missing = KeptLogs(missing=frozenset({7}))
        balancer = Balancer(config, place.view, place.clock, mover, place.commit, lambda: missing)
        with pytest.raises(InvalidReplicaAssignmentError):
            await balancer.decommission([8])
        await balancer.decommission([7])
        await place.seen()
        assert set(place.view.decommissioned) == {7}

    run(scenario)


def test_the_mark_of_a_broker_that_comes_back_while_it_is_removed_stays() -> None:
    async def scenario(place: Place) -> None:
        await place.put(decommission_key(7), b"{}")

        async def come_back() -> None:
            await place.register(7)

        place.metadata.before_commit = come_back
        await plan(place)
        assert set(place.view.decommissioned) == {7}

    run(scenario)


async def _in_vain(*_: object) -> bool:
    return False


@pytest.mark.parametrize("out_of_use", [True, False])
def test_a_change_that_was_not_written_is_not_reported_as_done(out_of_use: bool) -> None:
    view = ClusterView()
    for number in (1, 2):
        view.learn([KeyValue(broker_key(number), Broker("b:1", "b:1", "n").encode(), number)])
    if out_of_use:
        view.learn([KeyValue(decommission_key(1), b"{}", 3)])
    balancer = Balancer(BrokerConfig(), view, SystemClock(), cast(Any, None), _in_vain)
    with pytest.raises(RequestTimedOutError, match="try again"):
        asyncio.run(balancer.recommission([1]) if out_of_use else balancer.decommission([1]))
