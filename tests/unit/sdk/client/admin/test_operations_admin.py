"""Brokers are taken out of use and back by the controller; how far that is can be looked at as often as one likes."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.client.admin.operations_admin import BrokerLoad
from oncelog.v1 import placement_pb2 as pl
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster

REPLY = pl.DecommissionBrokersReply(
    brokers=[pl.BrokerLoad(broker_id=2, registered=True, decommissioned=True, replicas=3, leaderships=1, moving=2)]
)


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.answers["DecommissionBrokers"] = REPLY
    return made


def test_each_call_asks_the_controller_for_its_own_action(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            loads = [BrokerLoad(2, True, True, 3, 1, 2)]
            assert await client.admin.broker_loads() == loads
            assert await client.admin.decommission([2]) == loads
            assert await client.admin.recommission([2, 3]) == loads

    cluster.run(work)
    asked = [(r.action, list(r.broker_ids), bool(r.call.nonce)) for r in cluster.requests("DecommissionBrokers")]
    assert asked == [
        (pl.DECOMMISSION_ACTION_STATUS, [], False),
        (pl.DECOMMISSION_ACTION_START, [2], True),
        (pl.DECOMMISSION_ACTION_CANCEL, [2, 3], True),
    ], "a change is known by its copies, a look needs not be"
    assert {a for a, method, _ in cluster.calls if method.endswith("DecommissionBrokers")} == {BROKERS[0]}


def test_too_few_brokers_left_is_raised_and_not_tried_again(cluster: FakeCluster) -> None:
    cluster.fail("DecommissionBrokers", errors.InvalidReplicaAssignmentError("too few would be left"))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.InvalidReplicaAssignmentError, match="too few would be left"):
                await client.admin.decommission([0, 1])

    cluster.run(work)
    assert cluster.count("DecommissionBrokers") == 1
