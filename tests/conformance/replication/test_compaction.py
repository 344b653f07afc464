"""Every replica compacts its own log; readers, followers and new replicas get every last record, and none twice."""

from __future__ import annotations

from oncelog.client.produce.producer import Producer
from oncelog.core.batch.batch import decode_batch, iter_batches
from oncelog.core.batch.header import read_header
from oncelog.core.batch.record import Record
from oncelog.types import TopicPartition
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from tests.conformance.script import Place, Script, cluster

COMPACTING = cluster(compaction_interval_ms=500)
OPTIONS = {"cleanup_policy": "compact", "segment_bytes": "3000", "min_cleanable_dirty_ratio": "0.01"}
NODES = ("broker-0", "broker-1", "broker-2")


def records(s: Script, node: str, place: Place) -> list[Record]:
    """The records in the files of one replica."""
    log = s.replica(node, place).log
    log._tail.clear()
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        for header, data in iter_batches(log.read(offset, 1 << 20, log.log_end_offset)):
            offset = header.next_offset
            if not header.is_control:
                found += decode_batch(data, header)
    return found


def is_compacted(s: Script, node: str, place: Place, most: int) -> bool:
    return len(records(s, node, place)) <= most


async def write(s: Script, first: int, end: int) -> dict[bytes, bytes]:
    """Values under ten keys, one batch of three each; returns the last ones."""
    async with s.client() as client, client.producer() as producer:
        return await write_with(producer, first, end)


async def write_with(producer: Producer, first: int, end: int) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    for number in range(first, end, 3):
        for sent in [
            await producer.send("work", b"value %d" % n, key=b"key %d" % (n % 10), partition=0)
            for n in range(number, number + 3)
        ]:
            await sent
        table |= {b"key %d" % (n % 10): b"value %d" % n for n in range(number, number + 3)}
    return table


async def consumed(s: Script, place: Place, count: int, first: int = 0) -> dict[bytes | None, bytes | None]:
    """What a consumer reads from an offset on, up to the end."""
    table: dict[bytes | None, bytes | None] = {}
    async with s.client() as client, client.consumer(auto_offset_reset="none") as consumer:
        await consumer.assign([TopicPartition("work", 0)])
        consumer.seek(TopicPartition("work", 0), first)
        offsets = []
        while await consumer.position(TopicPartition("work", 0)) < count:
            for record in await consumer.getmany(timeout_ms=200):
                table[record.key] = record.value
                offsets.append(record.offset)
        assert offsets == sorted(set(offsets))
    return table


@COMPACTING
async def test_all_replicas_shrink_and_readers_find_the_last_value_of_each_key(s: Script) -> None:
    place = await s.place(**OPTIONS)
    table = await write(s, 0, 600)
    before = s.replica(s.leader(place), place).log.size_bytes
    await s.until(lambda: all(is_compacted(s, node, place, 100) for node in NODES), "compaction")
    assert all(s.replica(node, place).log.size_bytes < before / 3 for node in NODES)
    assert await consumed(s, place, 600) == table
    assert await consumed(s, place, 600, first=301) == table, "from the middle of what is gone"
    isolation = types_pb2.ISOLATION_LEVEL_READ_COMMITTED
    request = pb.FetchRecordsRequest(topic="work", partition=0, offset=2, isolation_level=isolation)
    seen: dict[bytes, bytes] = {}
    while request.offset < 600:
        answer = await s.call(s.leader(place), methods.FETCH_RECORDS, request)
        assert all(request.offset <= record.offset < answer.next_offset for record in answer.records)
        seen |= {record.key: record.value for record in answer.records}
        request.offset = answer.next_offset
    assert seen == table
    async with s.client() as client:
        consumer = client.consumer()
        rows = [rows async for rows in consumer.read_range(TopicPartition("work", 0), 3, 600)]
        offsets = [offset for some in rows for offset in some.column("offset").to_pylist()]
        assert offsets == [record.offset for record in records(s, s.leader(place), place)]
    s.check()


@COMPACTING
async def test_a_replica_that_lost_everything_is_fed_from_a_compacted_log(s: Script) -> None:
    place = await s.place(**OPTIONS)
    table = await write(s, 0, 600)
    await s.until(lambda: all(is_compacted(s, node, place, 100) for node in NODES), "compaction")
    follower = s.followers(place)[0]
    s.lose_volume(follower)
    s.restart(follower)
    await s.rejoined(follower, place)
    assert {record.key: record.value for record in records(s, follower, place)} == table
    old = s.leader(place)
    s.kill(*(node for node in NODES if node not in (follower, old)))
    s.restart(*(node for node in NODES if node not in (follower, old)))
    await s.rejoined(next(node for node in NODES if node not in (follower, old)), place)
    s.kill(old)
    await s.new_leader(place, old)
    assert await consumed(s, place, 600) == table
    table |= await write(s, 600, 630)
    assert await consumed(s, place, 630) == table


@COMPACTING
async def test_a_follower_whose_log_ends_within_a_gap_of_its_leader_catches_up(s: Script) -> None:
    place = await s.place(**{**OPTIONS, "segment_bytes": "20000"})
    async with s.client() as client, client.producer() as producer:
        await write_with(producer, 0, 90)
        follower = s.followers(place)[0]
        await s.until(lambda: s.replica(follower, place).high_watermark == 90)
        s.kill(follower)
        table = await write_with(producer, 90, 600)
    leader = s.leader(place)
    await s.until(lambda: is_compacted(s, leader, place, 200), "compaction")
    gap = read_header(s.replica(leader, place).log.read(90, 1, 600))
    assert gap.base_offset < 90 < gap.next_offset, "the follower's log ends within a gap of the leader's"
    s.restart(follower)
    await s.rejoined(follower, place)
    await s.until(lambda: is_compacted(s, follower, place, 200), "compaction")
    assert {record.key: record.value for record in records(s, follower, place)} == table
    s.check()
