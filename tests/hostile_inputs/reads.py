"""Rows about reading: offsets, epochs, isolation, bounds, messages that are no requests."""

from __future__ import annotations

from typing import Any

from oncelog import errors
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from tests.conformance.names import Place
from tests.hostile_inputs.hands import batch_of, refused
from tests.hostile_inputs.rows import row

COMMITTED = types_pb2.ISOLATION_LEVEL_READ_COMMITTED


def fetch(place: Place, offset: int = 0, epoch: int = -1, **more: Any) -> pb.FetchRequest:
    """Of one partition."""
    item = pb.FetchPartition(
        topic_id=place.topic_id, partition=place.partition, fetch_offset=offset, leader_epoch=epoch
    )
    return pb.FetchRequest(**{"isolation_level": COMMITTED, "partitions": [item], **more})


@row(37, says="a partition that stands twice in one request")
async def twice(s: Any, place: Place) -> None:
    data = batch_of(s, place)
    item = pb.ProducePartition(topic_id=place.topic_id, partition=0, length=len(data))
    request = pb.ProduceRequest(acks=-1, timeout_ms=1_000, partitions=[item, item])
    await refused(s.call(s.leader(place), methods.PRODUCE, request, data * 2), errors.InvalidRequestError)
    read = fetch(place)
    read.partitions.append(read.partitions[0])
    await refused(s.call(s.leader(place), methods.FETCH, read), errors.InvalidRequestError)


@row(43, says="partitions that cannot be, and topic ids that are none")
async def partitions(s: Any, place: Place) -> None:
    leader = s.leader(place)
    for topic_id, number in (
        *((place.topic_id, number) for number in (-1, 1, (1 << 31) - 1, -(1 << 31))),
        *((topic_id, 0) for topic_id in ("", "f" * 32, "a/b", "\0", place.topic_id.upper(), place.topic)),
    ):
        other = place._replace(topic_id=topic_id, partition=number)
        if other == place:
            continue
        unknown = errors.UnknownTopicError
        await refused(s.call(leader, methods.FETCH, fetch(other)), unknown)
        data = batch_of(s, place)
        item = pb.ProducePartition(topic_id=topic_id, partition=number, length=len(data))
        produce = pb.ProduceRequest(acks=-1, timeout_ms=1_000, partitions=[item])
        await refused(s.call(leader, methods.PRODUCE, produce, data), unknown)
        offsets = pb.ListOffsetsPartition(topic_id=topic_id, partition=number, timestamp_ms=-1)
        asked = pb.ListOffsetsRequest(isolation_level=COMMITTED, partitions=[offsets])
        await refused(s.call(leader, methods.LIST_OFFSETS, asked), unknown)
        named: dict[str, Any] = {"topic_id": topic_id, "partition": number}
        for spec, request in (
            (methods.OFFSET_FOR_LEADER_EPOCH, pb.OffsetForLeaderEpochRequest(leader_epoch=0, **named)),
            (methods.DESCRIBE_PRODUCERS, pb.DescribeProducersRequest(**named)),
            (methods.DELETE_RECORDS, pb.DeleteRecordsRequest(before_offset=0, **named)),
        ):
            await refused(s.call(leader, spec, request), unknown)


@row(44, says="offsets below zero and behind the end, to read from, to delete before, and as unknown kinds")
async def offsets(s: Any, place: Place) -> None:
    leader = s.leader(place)
    for offset in (-5, -1, 2, (1 << 63) - 1, -(1 << 63)):
        await refused(s.call(leader, methods.FETCH, fetch(place, offset)), errors.OffsetOutOfRangeError)
        if offset != -1:  # -1 = the high watermark
            before = pb.DeleteRecordsRequest(topic_id=place.topic_id, partition=0, before_offset=offset)
            await refused(s.call(leader, methods.DELETE_RECORDS, before), errors.OffsetOutOfRangeError)
    for kind in (-4, -(1 << 63)):
        item = pb.ListOffsetsPartition(topic_id=place.topic_id, partition=0, timestamp_ms=kind)
        asked = pb.ListOffsetsRequest(isolation_level=COMMITTED, partitions=[item])
        await refused(s.call(leader, methods.LIST_OFFSETS, asked), errors.InvalidRequestError)


@row(46, says="one fetch of 100,000 partitions")
async def many(s: Any, place: Place) -> None:
    request = fetch(place)
    for number in range(100_000):
        request.partitions.add(topic_id=place.topic_id, partition=number)
    await refused(s.call(s.leader(place), methods.FETCH, request, timeout_ms=30_000), errors.InvalidRequestError)


@row(47, says="a leader epoch that is newer than the leader's")
async def newer_epoch(s: Any, place: Place) -> None:
    for epoch in (100, (1 << 31) - 1):
        await refused(
            s.call(s.leader(place), methods.FETCH, fetch(place, 0, epoch)), errors.UnknownLeaderEpochError, again=True
        )
        asked = pb.OffsetForLeaderEpochRequest(topic_id=place.topic_id, partition=0, leader_epoch=epoch)
        await refused(
            s.call(s.leader(place), methods.OFFSET_FOR_LEADER_EPOCH, asked), errors.UnknownLeaderEpochError, again=True
        )


@row(49, says="an isolation level that is none: never taken for uncommitted")
async def isolation(s: Any, place: Place) -> None:
    leader = s.leader(place)
    for level in (0, 3, 77):
        await refused(s.call(leader, methods.FETCH, fetch(place, isolation_level=level)), errors.InvalidRequestError)
        offsets = pb.ListOffsetsPartition(topic_id=place.topic_id, partition=0, timestamp_ms=-1)
        asked = pb.ListOffsetsRequest(isolation_level=level, partitions=[offsets])
        await refused(s.call(leader, methods.LIST_OFFSETS, asked), errors.InvalidRequestError)
        records = pb.FetchRecordsRequest(topic=place.topic, partition=0, isolation_level=level)
        await refused(s.call(leader, methods.FETCH_RECORDS, records), errors.InvalidRequestError)


@row(49, says="waits and sizes below zero")
async def negative_bounds(s: Any, place: Place) -> None:
    for bound in ({"max_wait_ms": -1}, {"max_bytes": -1}, {"max_wait_ms": -(1 << 31)}):
        await refused(s.call(s.leader(place), methods.FETCH, fetch(place, **bound)), errors.InvalidRequestError)
    for acks in (2, -2, 1 << 30):
        await refused(s.produce(place, batch_of(s, place), acks=acks), errors.InvalidRequiredAcksError)


@row(65, says="bytes that are no message: a wrong wire type, a text that is no UTF-8, 10,000 levels, cut, noise")
async def no_message(s: Any, place: Place) -> None:
    deep = b"\x0b" * 10_000 + b"\x0c" * 10_000  # groups in groups
    wrong_type = b"\x1d\0\0\0\0" + b"\x38\x01"
    no_text = pb.CreateTopicRequest(topic="aa").SerializeToString().replace(b"aa", b"\xff\xfe")
    cut = fetch(place).SerializeToString()[:-3]
    for method, header in (
        ("PartitionLeader.Fetch", deep),
        ("PartitionLeader.Fetch", cut),
        ("PartitionLeader.Fetch", b"\xff" * 64),
        ("PartitionLeader.CreateTopic", no_text),
        ("PartitionLeader.Produce", b"\x1a\xff\xff\xff\xff\x0f"),
    ):
        await refused(s.raw(s.leader(place), method, header), errors.InvalidRequestError)
    # What a newer client may send is passed over: unknown fields, also of another wire type; the rest is as usual.
    known = fetch(place).SerializeToString()
    reply = pb.FetchReply.FromString(
        await s.raw(s.leader(place), "PartitionLeader.Fetch", known + b"\xa0\x1f\x01" + wrong_type)
    )
    assert not reply.partitions[0].HasField("error")
    await refused(s.raw(s.leader(place), "PartitionLeader.Fetch", b""), errors.InvalidRequestError)


@row(64, says="methods that there are not")
async def no_method(s: Any, place: Place) -> None:
    for method in ("PartitionLeader.Nothing", "PartitionLeader.", "PartitionLeader./../Produce", "PartitionLeader.\0"):
        await refused(s.raw(s.leader(place), method, b""), errors.ClusterAuthorizationError, errors.InvalidRequestError)
