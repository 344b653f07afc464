"""Topics that change under those who use them: partitions that are added, a topic that is created again, records that grow
old where nobody writes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.consume.consumer import Consumer
from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.script import Script, cluster

SOON: dict[str, Any] = {"metadata_max_age_ms": 1_000}


async def read(s: Script, consumer: Consumer, count: int) -> list[bytes]:
    """So many values, sorted; a topic that is away for a moment is waited for."""
    found: list[bytes] = []
    until = s.world.loop.time() + 20
    while len(found) < count and s.world.loop.time() < until:
        with contextlib.suppress(errors.UnknownTopicError):
            found += [record.value for record in await consumer.getmany(timeout_ms=500)]
    return sorted(found)


def controller(s: Script) -> str:
    item = s.world.metadata.get(keys.CONTROLLER_KEY)
    return f"broker-{keys.decode_ref(item.value).broker_id}" if item is not None else ""


async def test_partitions_that_are_added_are_read_and_written_by_those_who_run(s: Script) -> None:
    await s.topic("work", 1)
    async with (
        s.client(**SOON) as reader,
        s.client() as writer,
        s.client() as operator,
        reader.consumer("work") as consumer,
        reader.consumer() as late,
        writer.producer() as producer,
    ):
        await consumer.getmany(timeout_ms=100)
        await producer.send_and_wait("work", b"0", partition=0)
        await operator.admin.add_partitions("work", 3)
        await late.assign([("work", 2)])
        for number in (1, 2):
            await producer.send_and_wait("work", b"%d" % number, partition=number)
        assert await read(s, consumer, 3) == [b"0", b"1", b"2"]
        assert [where.partition for where in consumer.assignment()] == [0, 1, 2]


async def test_a_running_consumer_goes_on_with_a_topic_that_was_created_again(s: Script) -> None:
    await s.topic("work", 2)
    async with (
        s.client(**SOON, default_api_timeout_ms=3_000) as client,
        s.client() as operator,
        client.consumer("work", auto_offset_reset="earliest") as consumer,
        operator.producer() as producer,
    ):
        for number in range(4):
            await producer.send_and_wait("work", b"old", partition=number % 2)
        assert await read(s, consumer, 4) == [b"old"] * 4
        await operator.admin.delete_topic("work")
        with pytest.raises(errors.UnknownTopicError, match="does not exist"):
            await consumer.getmany(timeout_ms=10_000)
        await operator.admin.create_topic("work", partitions=3)
        for number in range(3):
            await producer.send_and_wait("work", b"new %d" % number, partition=number)
        assert await read(s, consumer, 3) == [b"new 0", b"new 1", b"new 2"]


async def test_offsets_of_a_topic_that_was_created_again_are_never_committed_for_the_new_one(s: Script) -> None:
    await s.topic("work", 1)
    group: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with (
        s.client() as client,
        s.client() as operator,
        client.consumer(**group) as consumer,
        client.producer(transactional_id="t") as copier,
        operator.producer() as producer,
    ):
        await consumer.assign_topics("work")
        for _ in range(2):
            await producer.send_and_wait("work", b"old")
        records = await consumer.getmany()
        await consumer.commit(records.offsets)
        await operator.admin.delete_topic("work")
        await operator.admin.create_topic("work")
        for number in range(4):
            await producer.send_and_wait("work", b"new %d" % number)
        await consumer.commit(records.offsets)  # whether or not this client has heard of the new topic
        await client._metadata.refresh(client._context.deadline_ms())
        txn = await copier.begin_transaction()
        with pytest.raises(errors.UnknownTopicError, match="created again"):
            await txn.send_offsets(records)
        await txn.abort()
        await consumer.commit(records.offsets)
        async with operator.consumer(**group) as late:
            await late.assign_topics("work")
            assert await late.committed() == {}
            assert await read(s, late, 4) == [b"new %d" % number for number in range(4)]


async def test_a_partition_that_was_assigned_by_its_number_comes_back_with_a_later_topic_that_has_it(s: Script) -> None:
    await s.topic("work", 2)
    async with (
        s.client(**SOON) as client,
        s.client() as operator,
        client.consumer(auto_offset_reset="latest") as consumer,
        operator.producer() as producer,
    ):
        await consumer.assign([("work", 1)])
        assert await consumer.getmany(timeout_ms=100) == []
        await operator.admin.delete_topic("work")
        await operator.admin.create_topic("work", partitions=1)
        with pytest.raises(errors.UnknownTopicError, match="has the partitions 0 to 0"):
            await consumer.getmany(timeout_ms=10_000)
        await operator.admin.add_partitions("work", 2)
        await producer.send_and_wait("work", b"new", partition=1)
        assert await read(s, consumer, 1) == [b"new"]


async def test_a_broker_that_is_cut_off_from_etcd_does_not_bring_an_old_topic_back(s: Script) -> None:
    await s.topic("work", 1)
    async with s.client() as client, s.client() as operator, operator.producer() as producer:
        old = await operator.admin.describe_topic("work")
        late = next(f"broker-{number}" for number in range(3) if f"broker-{number}" != controller(s))
        s.cut_from_etcd(late)
        await operator.admin.delete_topic("work")
        created = await operator.admin.create_topic("work")
        await producer.send_and_wait("work", b"new")
        while (found := (await client.admin.describe_topic("work")).topic_id) == old.topic_id:
            pass
        for _ in range(20):
            assert (await client.admin.describe_topic("work")).topic_id == found == created.topic_id
        ends = await client.admin.offsets_of_topic("work", found, {0: -1})
        assert ends[0].offset == 1
        with pytest.raises(errors.UnknownTopicError, match="created again"):
            await client.admin.offsets_of_topic("work", old.topic_id, {0: -1})
        s.heal_etcd(late)


@cluster(retention_interval_ms=500)
async def test_records_of_a_partition_to_which_nobody_writes_are_deleted_by_time_on_every_replica(s: Script) -> None:
    place = await s.place(retention_ms="5000", segment_ms="2000")
    plain = await s.producer()
    await s.write(place, plain, "a", "b")
    open_one = await s.session("t")
    await s.write(place, open_one, "open")
    await s.write(place, plain, "c", seq=2)
    await s.sleep(20)
    assert await s.read(place, committed=False, auto_offset_reset="none") == ["a", "b", "open", "c"], "one is open"
    await s.end(open_one, counts={place: 1}, visible=True)
    assert await s.latest(place) == 5
    logs = [s.broker(node).replicas.partitions[place.id].log for node in ("broker-0", "broker-1", "broker-2")]
    await s.until(lambda: [log.log_start_offset for log in logs] == [5, 5, 5])
    assert [log.size_bytes for log in logs] == [0, 0, 0]
    follower = s.followers(place)[0]
    s.restart(follower)
    await s.rejoined(follower, place)
    await s.until(lambda: len(s.isr(place)) == 3)
    await s.write(place, plain, "d", seq=3)
    assert await s.read(place, from_offset=5) == ["d"]


async def test_a_topic_becomes_a_compacted_one_and_refuses_records_without_a_key_from_then_on(s: Script) -> None:
    place = await s.place()
    async with s.client() as client:
        await client.admin.alter_topic("work", config={"cleanup.policy": "compact,delete"})
        await s.until(lambda: s.replica(s.leader(place), place).log.config.is_compacted)
        async with client.producer() as producer:
            await producer.send_and_wait("work", b"v", key=b"k", partition=0)
            with pytest.raises(errors.InvalidRecordError, match="every record needs a key"):
                await producer.send_and_wait("work", b"v", partition=0)
