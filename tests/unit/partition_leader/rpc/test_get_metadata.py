"""What clients are told of the cluster is this broker's view of it, at the listener by which they came."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.errors import LeaderNotAvailableError, UnknownTopicError
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.rpc.get_metadata import MetadataService, metadata_reply, to_ref
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import Broker, Cluster, Reassignment, ShardOwner, broker_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from tests.unit.partition_leader.cluster_place import P0, TOPIC_ID, Place, run


def asked(place: Place, *topics: str, listener: str = "internal", every: bool = False) -> pb.GetMetadataReply:
    return metadata_reply(place.view, pb.GetMetadataRequest(topics=topics, all_topics=every), listener)


def test_an_empty_cluster_says_what_it_knows() -> None:
    async def scenario(place: Place) -> None:
        reply = asked(place)
        assert (reply.cluster_id, len(reply.topics)) == ("", 0)
        assert [item.broker for item in reply.brokers] == [to_ref(ref) for ref in place.refs(0, 1, 2)]
        assert reply.revision == place.view.revision
        assert not reply.HasField("controller")
        await place.put(cluster_keys.CLUSTER_KEY, Cluster("c", 4, 5).encode())
        reply = asked(place)
        assert (reply.cluster_id, reply.transaction_shard_count, reply.group_shard_count) == ("c", 4, 5)

    run(scenario)


def test_after_a_restore_it_is_told_that_logs_are_searched_until_all_brokers_have_told_theirs() -> None:
    async def scenario(place: Place) -> None:
        assert not asked(place).searches_logs
        await place.put(cluster_keys.RESTORED_KEY, b"1")
        place.view.restart(await place.etcd.list("/oncelog/"))
        assert asked(place).searches_logs
        await place.put(cluster_keys.LOGS_TOLD_KEY, str(place.view.restored_at()).encode())
        assert not asked(place).searches_logs

    run(scenario)


def test_addresses_are_those_of_the_callers_listener() -> None:
    async def scenario(place: Place) -> None:
        await place.put(broker_key(0), Broker("in:1", "client:1", "n", external_address="out:1").encode())
        found = {name: asked(place, listener=name).brokers[0].address for name in ("internal", "client", "external")}
        assert found == {"internal": "in:1", "client": "client:1", "external": "out:1"}

    run(scenario)


def test_a_controller_that_is_gone_is_not_told() -> None:
    async def scenario(place: Place) -> None:
        await place.put(cluster_keys.CONTROLLER_KEY, cluster_keys.encode_ref(place.ref(1)))
        reply = asked(place)
        assert reply.controller == to_ref(place.ref(1))
        entry = place.view.controller
        assert entry is not None
        assert reply.controller_term == entry.mod_revision
        await place.leave(1)
        assert not asked(place).HasField("controller")

    run(scenario)


def test_shards_have_an_address_and_an_epoch_when_somebody_owns_them() -> None:
    async def scenario(place: Place) -> None:
        await place.put(cluster_keys.shard_owner_key("txn", 3), ShardOwner("c:1", "n", 7).encode())
        await place.put(cluster_keys.shard_owner_key("group", 1), ShardOwner("c:1", "n", 2).encode())
        await place.put(cluster_keys.shard_epoch_key("group", 1), b"3")
        reply = asked(place)
        assert [(item.shard, item.address, item.epoch) for item in reply.transaction_shards] == [(3, "c:1", 7)]
        assert not reply.group_shards, "a newer epoch was given"

    run(scenario)


def test_a_topic_is_told_with_its_replicas_leaders_and_moves() -> None:
    async def scenario(place: Place) -> None:
        await place.topic(partitions=2, retention_ms="7")
        await place.lead(P0, epoch=4, isr=(0, 1), replicas=(0, 1, 2))
        await place.put(cluster_keys.reassignment_key(*P0), Reassignment((0, 1), (0, 2, 8)).encode())
        (info,) = asked(place, "t").topics
        assert (info.topic_id, info.internal, info.config[0].value) == (TOPIC_ID, False, "7")
        led, missing = info.partitions
        assert (led.leader, led.leader_epoch, list(led.replicas)) == (to_ref(place.ref(0)), 4, [0, 1, 2])
        assert [ref.broker_id for ref in led.isr] == [0, 1]
        assert list(led.adding) == [2], "8 is not among the replicas yet"
        assert (missing.partition, missing.HasField("leader")) == (1, False)

    run(scenario)


def test_a_leader_that_is_gone_is_none() -> None:
    async def scenario(place: Place) -> None:
        await place.topic()
        await place.lead(P0)
        await place.leave(0)
        (info,) = asked(place, "t").topics
        assert not info.partitions[0].HasField("leader")

    run(scenario)


def test_an_unknown_topic_carries_its_error_beside_the_others() -> None:
    async def scenario(place: Place) -> None:
        await place.topic()
        unknown, known = asked(place, "unknown", "t").topics
        assert isinstance(from_detail(unknown.error), UnknownTopicError)
        assert known.topic_id == TOPIC_ID

    run(scenario)


def test_all_topics_are_told_by_name_the_clusters_own_ones_as_such() -> None:
    async def scenario(place: Place) -> None:
        await place.topic("z")
        await place.topic(cluster_keys.OFFSETS_TOPIC, "b" * 32)
        found = {info.name: info.internal for info in asked(place, every=True).topics}
        assert found == {cluster_keys.OFFSETS_TOPIC: True, "z": False}
        errors: list[Any] = [info for info in asked(place, every=True).topics if info.HasField("error")]
        assert errors == [], "where replicas are is told to everybody"

    run(scenario)


def test_before_its_first_listing_a_broker_tells_nothing() -> None:
    view = ClusterView()
    service = MetadataService(BrokerConfig(node_id=0), view)
    with pytest.raises(LeaderNotAvailableError):
        asyncio.run(service.get_metadata(pb.GetMetadataRequest(), b""))
    view.revision = 5
    reply, _ = asyncio.run(service.get_metadata(pb.GetMetadataRequest(), b""))
    assert reply.revision == 5
