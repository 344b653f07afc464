"""Requests that would take more than a broker has: each is bounded or refused by name, and others go on."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.core.batch.batch import encode_batch
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from tests.conformance.script import Place, Script, cluster

MIB = 1 << 20


async def bombs(s: Script, place: Place, count: int, unpacked_bytes: int) -> None:
    """Batches of zeros: a few hundred bytes each on the disk."""
    data = encode_batch(
        [None],
        [bytes(unpacked_bytes)],
        timestamps_ms=[1],
        codec=2,
        topic_id=place.topic_id,
        partition=place.partition,
    )
    assert len(data) < 8_192
    for _ in range(count):
        await s.produce(place, data)


async def fetch_records(s: Script, place: Place, offset: int) -> pa.FetchRecordsReply:
    request = pa.FetchRecordsRequest(
        topic=place.topic,
        partition=place.partition,
        offset=offset,
        isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED,
        max_bytes=50 * MIB,
    )
    return await s.call(s.leader(place), methods.FETCH_RECORDS, request)


async def test_small_batches_that_unpack_to_much_are_answered_a_few_at_a_time(s: Script) -> None:
    place = await s.place()
    await bombs(s, place, 4, 7 * MIB)
    offset, rounds = 0, []
    while offset < 4:
        reply = await fetch_records(s, place, offset)
        assert [record.offset for record in reply.records] == list(range(offset, reply.next_offset))
        rounds.append(len(reply.records))
        offset = reply.next_offset
    assert rounds == [2, 2]


async def test_one_batch_that_unpacks_to_too_much_is_refused_with_its_offset_and_a_way_past_it(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "before")
    await bombs(s, place, 1, 17 * MIB)
    await s.write(place, writer, "after", seq=1)
    assert (await fetch_records(s, place, 0)).next_offset == 1
    with pytest.raises(errors.MessageTooLargeError) as refusal:
        await fetch_records(s, place, 1)
    context = refusal.value.context
    assert (context["offset"], context["next_offset"], context["limit"]) == ("1", "2", str(16 * MIB))
    assert [record.value for record in (await fetch_records(s, place, 2)).records] == [b"after"]


async def test_many_small_records_are_answered_a_part_of_a_batch_at_a_time(s: Script) -> None:
    place = await s.place()
    data = encode_batch(
        [None] * 60_000,
        [b""] * 60_000,
        timestamps_ms=[1] * 60_000,
        codec=2,
        topic_id=place.topic_id,
        partition=place.partition,
    )
    await s.produce(place, data)
    offset, sizes = 0, []
    while offset < 60_000:
        reply = await fetch_records(s, place, offset)
        assert reply.records[0].offset == offset
        sizes.append(len(reply.records))
        offset = reply.next_offset
    assert sizes == [50_000, 10_000]


@cluster(partitions_per_broker_max=30, transaction_shards=5, group_shards=5)
async def test_partitions_for_which_no_broker_has_room_are_refused_with_the_numbers_and_nothing_is_written(
    s: Script,
) -> None:
    [place] = await s.topic("fits", 1)
    view = s.broker(s.leader(place)).view
    controller = next(name for name, broker in s.cluster.brokers() if broker.controller.is_controller)
    held = len(view.partitions)
    create = pa.CreateTopicRequest(topic="too-much", partitions=30, replication_factor=3, timeout_ms=1_000)
    with pytest.raises(
        errors.PolicyViolationError, match=rf"takes 30 partitions and has {held}, so 30 more"
    ) as refusal:
        await s.call(controller, methods.CREATE_TOPIC, create)
    assert not refusal.value.retriable
    grow = pa.AlterTopicRequest(topic="fits", partitions=30, timeout_ms=1_000)
    with pytest.raises(errors.PolicyViolationError, match="more do not fit"):
        await s.call(controller, methods.ALTER_TOPIC, grow)
    assert "too-much" not in view.topics
    assert len(view.partitions) == held
    await s.write(place, await s.producer(), "goes on")
    grow.partitions = 30 - held + 1
    await s.call(controller, methods.ALTER_TOPIC, grow)
