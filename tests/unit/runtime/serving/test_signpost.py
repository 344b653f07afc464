"""Who cannot serve a call says where to go: by the door at which it was asked, and never back to where it came from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.core.listeners import CLIENT, EXTERNAL, INTERNAL
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN, Broker, Partition, ShardOwner
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned
from oncelog_runtime.serving.call_context import CALL, CallInfo
from oncelog_runtime.serving.signpost import Signpost

P0, P1, P2 = (PartitionId("t" * 32, number) for number in range(3))


@pytest.fixture
def asked_at() -> Iterator[None]:
    token = CALL.set(CallInfo("somebody", listener=CLIENT))
    yield
    CALL.reset(token)


def known() -> ClusterView:
    view = ClusterView()
    for number, revision in ((0, 10), (1, 11)):
        broker = Broker(f"b{number}:9093", f"b{number}:9092", "n", external_address=f"out:{number}")
        view.brokers[number] = Versioned(broker, revision)
    view.controller = Versioned(BrokerRef(1, 11), 12)
    for partition, leader in ((P0, BrokerRef(1, 11)), (P1, BrokerRef(1, 7)), (P2, None)):
        view.partitions[partition] = Versioned(Partition("t", (0, 1), leader, 1, ()), 13)
    view.shard_owners[KIND_TXN, 3] = ShardOwner("c1:9193", "n", 5, "c1:9192")
    return view


@pytest.mark.parametrize(("listener", "address"), [(INTERNAL, "b1:9093"), (CLIENT, "b1:9092"), (EXTERNAL, "out:1")])
def test_addresses_are_those_of_the_door(listener: str, address: str) -> None:
    signpost = Signpost(known(), client_listener=True, broker_id=0)
    token = CALL.set(CallInfo("somebody", listener=listener))
    try:
        assert signpost.controller() == signpost.leader(P0) == signpost.broker(1) == address
    finally:
        CALL.reset(token)


@pytest.mark.usefixtures("asked_at")
def test_a_broker_that_is_gone_or_that_nobody_knows_is_no_address() -> None:
    view = known()
    signpost = Signpost(view, client_listener=True, broker_id=0)
    assert signpost.leader(P1) == "", "it was another incarnation"
    assert signpost.leader(P2) == signpost.leader(PartitionId("u" * 32, 0)) == signpost.broker(7) == ""
    view.controller = Versioned(BrokerRef(1, 7), 12)
    assert signpost.controller() == ""
    view.controller = None
    assert signpost.controller() == ""


@pytest.mark.usefixtures("asked_at")
def test_nobody_is_sent_back_to_where_it_came_from() -> None:
    view = known()
    assert Signpost(view, client_listener=True, broker_id=1).controller() == ""
    coordinator = Signpost(view, client_listener=True)
    assert (coordinator.owner(KIND_TXN, 3), coordinator.any_coordinator()) == ("c1:9192", "c1:9192")
    assert coordinator.owner(KIND_GROUP, 3) == coordinator.owner(KIND_TXN, 4) == ""
    coordinator.own_address = "c1:9193"
    assert coordinator.owner(KIND_TXN, 3) == coordinator.any_coordinator() == ""


@pytest.mark.usefixtures("asked_at")
def test_an_owner_of_an_older_epoch_is_none() -> None:
    view = known()
    view.shard_epochs[KIND_TXN, 3] = 6
    assert Signpost(view, client_listener=True).owner(KIND_TXN, 3) == ""
