"""Drains, moves and marks in etcd: what is written is read, by this version and the one before; what is gone is gone."""

from __future__ import annotations

import json

from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import (
    BROKER_DRAIN_KEY,
    COORDINATOR_DRAIN_KEY,
    Broker,
    Drain,
    Partition,
    Reassignment,
    broker_key,
    decommission_key,
    partition_key,
    reassignment_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Change, KeyValue, Listing

WHERE = PartitionId("0" * 32, 3)
MOVE = Reassignment((1, 2, 3), (4, 2, 3))


def view_of(*items: tuple[str, bytes]) -> ClusterView:
    view = ClusterView()
    view.listed(Listing(tuple(KeyValue(key, value, i + 1) for i, (key, value) in enumerate(items)), 100))
    return view


def test_what_is_written_is_read() -> None:
    drain = Drain("2", 7, 99)
    assert Drain.decode(drain.encode()) == drain
    assert drain.broker == BrokerRef(2, 7)
    assert Reassignment.decode(MOVE.encode()) == MOVE
    assert MOVE.adding == (4,)


def test_a_partition_of_the_version_before_is_read_and_has_the_same_fields() -> None:
    before = {
        "version": 1, "topic": "t", "replicas": [1, 2, 3], "leader": [1, 5], "leader_epoch": 4, "isr": [[1, 5], [2, 6]],
        "last_known_leader": None,
    }  # fmt: skip
    state = Partition.decode(json.dumps(before).encode())
    assert (state.replicas, state.leader_epoch) == ((1, 2, 3), 4)
    assert json.loads(state.encode()) == before, "whoever writes it back loses nothing"


def test_a_drain_counts_while_its_incarnation_is_registered() -> None:
    registered = (broker_key(2), Broker("a:1", "a:1", "n").encode())
    assert view_of(registered, (BROKER_DRAIN_KEY, Drain("2", 1, 0).encode())).draining_broker() == BrokerRef(2, 1)
    assert view_of(registered, (BROKER_DRAIN_KEY, Drain("2", 9, 0).encode())).draining_broker() is None
    assert view_of(registered).draining_broker() is None


def test_keys_come_and_go() -> None:
    view = view_of(
        (reassignment_key(*WHERE), MOVE.encode()),
        (decommission_key(4), b"{}"),
        (BROKER_DRAIN_KEY, Drain("2", 9, 0).encode()),
        (COORDINATOR_DRAIN_KEY, Drain("host:1", 5, 0).encode()),
    )
    assert view.reassignments[WHERE].value == MOVE
    assert view.adding(WHERE) == (4,)
    assert list(view.decommissioned) == [4]
    assert view.coordinator_drain is not None
    keys = (reassignment_key(*WHERE), decommission_key(4), BROKER_DRAIN_KEY, COORDINATOR_DRAIN_KEY)
    for revision, key in enumerate(keys, 101):
        view.change(Change(key, None, revision))
    assert not view.reassignments
    assert not view.decommissioned
    assert (view.broker_drain, view.coordinator_drain) == (None, None)
    assert view.adding(WHERE) == ()


def test_a_value_that_makes_no_sense_harms_nobody_else() -> None:
    state = Partition("t", (1,), BrokerRef(1, 1), 0, (BrokerRef(1, 1),))
    view = view_of(
        (BROKER_DRAIN_KEY, Drain("not a broker", 1, 0).encode()),
        (f"{cluster_keys.REASSIGNMENTS}x/y", MOVE.encode()),
        (f"{cluster_keys.DECOMMISSIONS}x", b"{}"),
        (partition_key(*WHERE), state.encode()),
    )
    assert (view.broker_drain, dict(view.reassignments), view.decommissioned) == (None, {}, {})
    assert view.partitions[WHERE].value == state
