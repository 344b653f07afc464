"""Each kind of key has its place: its value is entered there and removed again, and what must never go back stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog.core.malformed import MALFORMED
from oncelog.errors import LeaderNotAvailableError, UnknownTopicError
from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.metadata.cluster_keys import (
    Broker,
    Cluster,
    DeletedTopic,
    Drain,
    Partition,
    Reassignment,
    SessionKey,
    ShardOwner,
    ShardTrouble,
    Topic,
)
from oncelog_runtime.metadata.cluster_values import ClusterValues, Versioned
from oncelog_runtime.ports import KeyValue

P0 = PartitionId("0" * 32, 0)
ME = BrokerRef(1, 5)
STATE = Partition("t", (1,), ME, 0, (ME,))
TOPIC = Topic("t", P0.topic_id, 1, 1, {})
MOVE = Reassignment((1, 2), (2,))
SHARD = (keys.KIND_TXN, 3)
OWNER = ShardOwner("a:1", "n", 4)

KINDS: dict[str, tuple[str, bytes, Callable[[ClusterValues], Any], Any]] = {
    "partition": (keys.partition_key(*P0), STATE.encode(), lambda v: v.partitions.get(P0), Versioned(STATE, 7)),
    "broker": (keys.broker_key(1), Broker("a:1", "", "n").encode(), lambda v: v.live().get(1), 7),
    "topic": (keys.topic_key("t"), TOPIC.encode(), lambda v: v.topic_by_id(P0.topic_id), TOPIC),
    "deleted topic": (
        keys.deleted_topic_key("x"),
        DeletedTopic("t", 1).encode(),
        lambda v: v.deleted_topics.get("x"),
        Versioned(DeletedTopic("t", 1), 7),
    ),
    "owner": (f"{keys.SHARDS}txn/3/owner", OWNER.encode(), lambda v: v.owner_of(*SHARD), OWNER),
    "trouble": (
        f"{keys.SHARD_TROUBLES}txn/3",
        ShardTrouble("a:1", "why").encode(),
        lambda v: v.shard_troubles.get(SHARD),
        ShardTrouble("a:1", "why"),
    ),
    "coordinator": (f"{keys.COORDINATORS}a:1", b"", lambda v: v.coordinators.get("a:1"), 7),
    "allocator": (f"{keys.ALLOCATORS}a:1", b"", lambda v: v.allocators.get("a:1"), 7),
    "move": (keys.reassignment_key(*P0), MOVE.encode(), lambda v: v.reassignments.get(P0), Versioned(MOVE, 7)),
    "decommission": (keys.decommission_key(4), b"{}", lambda v: v.decommissioned.get(4), 7),
    "broker's drain": (
        keys.BROKER_DRAIN_KEY,
        Drain("1", 5, 0).encode(),
        lambda v: v.broker_drain,
        Versioned(Drain("1", 5, 0), 7),
    ),
    "coordinator's drain": (
        keys.COORDINATOR_DRAIN_KEY,
        Drain("a:1", 5, 0).encode(),
        lambda v: v.coordinator_drain,
        Versioned(Drain("a:1", 5, 0), 7),
    ),
    "controller": (keys.CONTROLLER_KEY, keys.encode_ref(ME), lambda v: v.controller, Versioned(ME, 7)),
}
KEPT: dict[str, tuple[str, bytes, Callable[[ClusterValues], Any], Any]] = {
    "cluster": (keys.CLUSTER_KEY, Cluster("c", 1, 1).encode(), lambda v: v.cluster, Cluster("c", 1, 1)),
    "restore": (keys.RESTORED_KEY, b"3", lambda v: v.restored, Versioned(3, 7)),
    "epoch": (f"{keys.SHARDS}txn/3/epoch", b"4", lambda v: v.shard_epochs.get(SHARD), 4),
    "session key": (keys.SESSION_KEY, SessionKey(b"k" * 32).encode(), lambda v: v.session_key, b"k" * 32),
    "ids": (keys.PRODUCER_ID_BLOCK_KEY, b'{"block_end": 9}', lambda v: v.producer_ids_end, 9),
}


@pytest.mark.parametrize("kind", [*KINDS, *KEPT])
def test_a_value_is_entered_in_its_place(kind: str) -> None:
    key, value, found, expected = {**KINDS, **KEPT}[kind]
    values = ClusterValues()
    assert found(values) != expected
    assert values.enter(KeyValue(key, value, 7))
    assert found(values) == expected
    values.remove(key)
    assert found(values) == (expected if kind in KEPT else None)


@pytest.mark.parametrize(
    ("kind", "older"), [("epoch", b"2"), ("ids", b'{"block_end": 3}')], ids=["epoch of a shard", "end of producer ids"]
)
def test_some_numbers_never_go_back(kind: str, older: bytes) -> None:
    key, value, found, expected = KEPT[kind]
    values = ClusterValues()
    values.enter(KeyValue(key, value, 7))
    values.enter(KeyValue(key, older, 8))
    values.clear()
    assert found(values) == expected


def test_a_key_that_is_not_ours_is_not_entered() -> None:
    assert not ClusterValues().enter(KeyValue(f"{keys.ROOT}/of_a_later_version", b"x", 7))


@pytest.mark.parametrize("kind", sorted({*KINDS, *KEPT} - {"coordinator", "allocator", "decommission"}))
def test_a_value_that_cannot_be_parsed_is_refused(kind: str) -> None:
    key, _, found, expected = {**KINDS, **KEPT}[kind]
    values = ClusterValues()
    with pytest.raises(MALFORMED):
        values.enter(KeyValue(key, b"\xff no value", 7))
    assert found(values) != expected


def test_a_topic_that_is_created_again_has_one_id() -> None:
    values = ClusterValues()
    values.enter(KeyValue(keys.topic_key("t"), TOPIC.encode(), 7))
    values.enter(KeyValue(keys.topic_key("t"), Topic("t", "1" * 32, 1, 1, {}).encode(), 8))
    assert values.topic_names == {"1" * 32: "t"}
    assert values.topic_by_id(P0.topic_id) is None
    assert values.topic("t").topic_id == "1" * 32
    assert values.topic_name("1" * 32) == "t"


def test_an_owner_of_an_older_epoch_owns_nothing_and_reports_no_trouble() -> None:
    values = ClusterValues()
    for kind in ("owner", "trouble"):
        values.enter(KeyValue(*KINDS[kind][:2], 7))
    assert values.trouble_of(*SHARD) == "why"
    values.shard_epochs[SHARD] = 4
    values.remove(f"{keys.SHARDS}txn/3/epoch")
    assert values.owner_of(*SHARD) == OWNER
    values.shard_epochs[SHARD] = 5
    assert values.owner_of(*SHARD) is None
    values.shard_owners[SHARD] = ShardOwner("b:1", "n", 5)
    assert values.trouble_of(*SHARD) == "", "the one that reported it is not the owner any more"


def test_a_leader_must_live_under_the_incarnation_that_is_named() -> None:
    values = ClusterValues()
    with pytest.raises(LeaderNotAvailableError, match="not read"):
        values.require_leader(P0)
    values.revision = 9
    with pytest.raises(UnknownTopicError):
        values.require_leader(P0)
    values.enter(KeyValue(keys.partition_key(*P0), STATE.encode(), 7))
    for incarnation in (4, 6):
        values.enter(KeyValue(keys.broker_key(1), Broker("a:1", "", "n").encode(), incarnation))
        with pytest.raises(LeaderNotAvailableError):
            values.require_leader(P0)
        assert values.draining_broker() is None
    values.enter(KeyValue(keys.broker_key(1), Broker("a:1", "", "n").encode(), 5))
    assert values.require_leader(P0) == ME
    values.enter(KeyValue(keys.BROKER_DRAIN_KEY, Drain("1", 5, 0).encode(), 7))
    assert values.draining_broker() == ME
    assert (values.address_of(1), values.address_of(2)) == ("a:1", None)
