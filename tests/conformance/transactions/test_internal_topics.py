"""The cluster's own topics are closed to clients, by every method and at every broker: what stands in them decides what is
committed."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog.wire.wire_errors import from_detail
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, TOPICS, shard_writer_id
from oncelog_runtime.ports import Listing
from tests.conformance.script import Place, Script, Writer, cluster
from tests.simulation.cluster import DOORS

REFUSED = errors.TopicAuthorizationError


async def knock(
    s: Script, node: str, door: str, spec: MethodSpec[Any, Any], request: Any, payload: bytes = b"", who: str = "script"
) -> Any:
    """A call of a client at one of its doors; what one item of the reply refuses is raised."""
    reply, _ = await spec.call(s.world.client(who), f"{node}:{DOORS[door]}", request, 5_000, payload)
    for item in getattr(reply, "partitions", getattr(reply, "topics", [])):
        if not isinstance(item, int) and item.HasField("error"):
            raise from_detail(item.error)
    return reply


def forged(s: Script, place: Place, epoch: int) -> tuple[pa.ProduceRequest, bytes]:
    """What the owner of a shard in its next epoch would write."""
    data = s.batch(place, Writer(shard_writer_id("txn", place.partition), epoch), "forged")
    item = pa.ProducePartition(topic_id=place.topic_id, partition=place.partition, length=len(data))
    claim = types_pb2.ForwardedCaller(listener="internal", peer="broker-0")
    return pa.ProduceRequest(acks=-1, timeout_ms=1_000, partitions=[item], forwarded_for=claim), data


def by_records(place: Place, epoch: int) -> pa.ProduceRecordsRequest:
    return pa.ProduceRecordsRequest(
        topic=place.topic,
        partition=place.partition,
        records=[types_pb2.Record(key=b"k", value=b"forged", timestamp_ms=1)],
        acks=-1,
        timeout_ms=1_000,
        producer_id=shard_writer_id("txn", place.partition),
        producer_epoch=epoch,
    )


def questions(place: Place) -> list[tuple[MethodSpec[Any, Any], Any]]:
    """Every method that names a topic or a partition, beside those that write."""
    named: dict[str, Any] = {"topic_id": place.topic_id, "partition": place.partition}
    committed = types_pb2.ISOLATION_LEVEL_READ_COMMITTED
    return [
        (methods.FETCH, pa.FetchRequest(isolation_level=committed, partitions=[pa.FetchPartition(**named)])),
        (
            methods.FETCH_RECORDS,
            pa.FetchRecordsRequest(topic=place.topic, partition=place.partition, isolation_level=committed),
        ),
        (
            methods.LIST_OFFSETS,
            pa.ListOffsetsRequest(
                isolation_level=committed, partitions=[pa.ListOffsetsPartition(timestamp_ms=-1, **named)]
            ),
        ),
        (methods.OFFSET_FOR_LEADER_EPOCH, pa.OffsetForLeaderEpochRequest(**named)),
        (
            methods.GET_PRODUCER_STATE,
            pa.GetProducerStateRequest(
                producer_id=shard_writer_id("txn", 0), producer_epoch=(1 << 31) - 2, settle=True, **named
            ),
        ),
        (methods.DESCRIBE_PRODUCERS, pa.DescribeProducersRequest(**named)),
        (methods.DELETE_RECORDS, pa.DeleteRecordsRequest(before_offset=-1, **named)),
        (methods.CREATE_TOPIC, pa.CreateTopicRequest(topic=place.topic, partitions=1)),
        (methods.ALTER_TOPIC, pa.AlterTopicRequest(topic=place.topic, partitions=100)),
        (methods.DELETE_TOPIC, pa.DeleteTopicRequest(topic=place.topic)),
    ]


@cluster(doors=True)
async def test_no_client_reads_or_writes_the_clusters_own_topics_at_any_broker(s: Script) -> None:
    await s.session("t")  # the log of its shard is written
    for place in (s.internal(name, 0) for name in INTERNAL_TOPICS):
        end = s.replica(s.leader(place), place).log.log_end_offset
        epoch = s.world.metadata.revision + 1  # above every epoch of a shard
        for door in DOORS:
            for node in ("broker-0", "broker-1", "broker-2"):
                with pytest.raises(REFUSED):
                    await knock(s, node, door, methods.PRODUCE_RECORDS, by_records(place, epoch))
                for spec, request in questions(place):
                    is_leaders = spec not in (methods.FETCH_RECORDS, *_TOPIC_METHODS)
                    if not is_leaders or node == s.leader(place):
                        with pytest.raises(REFUSED):
                            await knock(s, node, door, spec, request)
            with pytest.raises(REFUSED):
                await knock(s, s.leader(place), door, methods.PRODUCE, *forged(s, place, epoch))
        assert s.replica(s.leader(place), place).log.log_end_offset == end, "a refused call writes nothing"
    assert (await s.end(await s.session("t"))).outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED, "the shard lives on"


_TOPIC_METHODS = (methods.CREATE_TOPIC, methods.ALTER_TOPIC, methods.DELETE_TOPIC)


@cluster(doors=True)
async def test_what_a_broker_passes_on_is_judged_by_the_client_that_asked(s: Script) -> None:
    """As a broker of a version that does not ask before it passes a request on: the leader refuses it all the same."""
    place = s.internal("__transaction_state", 0)
    request, data = forged(s, place, s.world.metadata.revision + 1)
    request.forwarded_for.CopyFrom(types_pb2.ForwardedCaller(listener="client", peer="10.0.0.7:1"))
    reply = await s.call(s.leader(place), methods.PRODUCE, request, data)
    assert reply.partitions[0].error.code == errors.ErrorCode.TOPIC_AUTHORIZATION_FAILED


@cluster(doors=True)
async def test_plain_records_of_users_still_go_by_any_broker(s: Script) -> None:
    place = await s.place()
    for number in range(3):
        request = pa.ProduceRecordsRequest(
            topic=place.topic, partition=0, records=[types_pb2.Record(value=b"x")], acks=-1, timeout_ms=1_000
        )
        reply = await knock(s, f"broker-{number}", "client", methods.PRODUCE_RECORDS, request)
        assert reply.base_offset == number
    fetch = pa.FetchRecordsRequest(
        topic=place.topic, partition=0, isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED
    )
    for number in range(3):
        found = await knock(s, f"broker-{number}", "external", methods.FETCH_RECORDS, fetch)
        assert len(found.records) == 3


@cluster(doors=True)
async def test_operators_see_where_the_clusters_own_topics_are(s: Script) -> None:
    async with s.cluster.client(door="client") as client:
        found = {topic.name for topic in await client.admin.list_topics(internal=True)}
    assert set(INTERNAL_TOPICS) <= found
    place = s.internal("__transaction_state", 0)
    item = pa.DescribePartition(topic_id=place.topic_id, partition=0)
    request = pa.DescribePartitionsRequest(partitions=[item])
    assert (await knock(s, s.leader(place), "client", methods.DESCRIBE_PARTITIONS, request)).partitions


async def test_no_transaction_takes_in_the_clusters_own_topics(s: Script) -> None:
    writer = await s.session("t")
    with pytest.raises(errors.InvalidTopicError):
        await s.enrol(writer, s.internal("__consumer_offsets", 0))
    with pytest.raises(errors.InvalidTopicError):
        await s.write(s.internal("__consumer_offsets", 0), writer, "x")
    assert (await s.end(writer)).outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED


async def test_a_transaction_over_partitions_that_do_not_exist_is_refused_before_it_begins(s: Script) -> None:
    """It costs one look at etcd for all of them, and nobody else waits."""
    place = await s.place()
    healthy, stranger = await s.session("healthy"), await s.session("stranger")
    node, looks, healthy_list = s.owner("stranger"), [], s.world.metadata.list

    def count(prefix: str) -> Listing:
        looks.append(prefix)
        return healthy_list(prefix)

    s.world.metadata.list = count  # type: ignore[method-assign]
    names = [types_pb2.TopicPartition(topic_id=f"{number:032x}", partition=0) for number in range(9_000)]
    request = co.EnrolPartitionsRequest(name=stranger.name, partitions=names)
    refused = s.start(s.call(node, methods.ENROL_PARTITIONS, request))
    await s.write(place, healthy, "a")
    assert (await s.end(healthy, counts={place: 1}, visible=True)).outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED
    with pytest.raises(errors.UnknownTopicError):
        await refused
    assert looks == [TOPICS]
    far = Place(place.topic, place.topic_id, 7)
    with pytest.raises(errors.UnknownTopicError):
        await s.enrol(stranger, place, far)
    request = co.EnrolPartitionsRequest(name=stranger.name, partitions=names + names)
    with pytest.raises(errors.ResourceExhaustedError):
        await s.call(node, methods.ENROL_PARTITIONS, request)
    record = s.coordinator(node).shards.transaction_shard("stranger").life.table.index.find("stranger")  # type: ignore[attr-defined]
    assert record is not None
    assert record.open is None
    assert (await s.end(stranger)).outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED
