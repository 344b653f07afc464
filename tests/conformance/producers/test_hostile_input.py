"""Requests that no honest client sends: each is refused by name, changes nothing, and harms nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.batch import MAX_UNCOMPRESSED_BYTES
from oncelog.core.batch.header import BatchHeader, partition_tag
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.shard.log_port import LogLostError
from oncelog_partition_leader.core.log.batch_check import RECORD_BYTES_MIN
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_runtime.metadata.cluster_keys import shard_writer_id
from tests.conformance.calls import unread_payloads
from tests.conformance.script import COMMITTED, Place, Script, Writer, cluster

EPOCH_MAX = (1 << 31) - 1


@asynccontextmanager
async def unharmed(s: Script, place: Place, writer: Writer, *meanwhile: str) -> AsyncIterator[None]:
    """Before and after whatever happens inside, a healthy client can write, and sees just what was written honestly."""
    await s.write(place, writer, "before")
    yield
    await s.write(place, writer, "after", seq=1)
    assert await s.read(place) == ["before", *meanwhile, "after"]


def nobody() -> Writer:
    return Writer(-1, -1)


@pytest.mark.parametrize("claims", [{}, {"record_count": (1 << 31) - 1}, {"uncompressed_length": 1 << 30}])
async def test_counts_that_the_bytes_cannot_hold_are_refused(s: Script, claims: dict[str, int]) -> None:
    place = await s.place()
    too_many = MAX_UNCOMPRESSED_BYTES // RECORD_BYTES_MIN + 1
    async with unharmed(s, place, await s.producer()):
        with pytest.raises((errors.InvalidRecordError, errors.MessageTooLargeError)) as refusal:
            await s.produce(place, s.huge_batch(place, nobody(), -1, too_many, **claims))
        assert not refusal.value.retriable


@pytest.mark.parametrize("payload", [b"no Arrow message at all, though its checksum is right", bytes(4096)])
async def test_a_payload_that_would_stop_every_consumer_is_refused(s: Script, payload: bytes) -> None:
    place = await s.place()
    async with unharmed(s, place, await s.producer()):
        with pytest.raises(errors.InvalidRecordError) as refusal:
            await s.produce(place, s.huge_batch(place, nobody(), -1, 1, payload=payload))
        assert not refusal.value.retriable


async def test_a_partition_that_stands_twice_in_one_request_is_refused_by_name(s: Script) -> None:
    place = await s.place()
    async with unharmed(s, place, await s.producer()):
        data = s.batch(place, nobody(), "twice", seq=-1)
        item = pa.ProducePartition(topic_id=place.topic_id, partition=place.partition, length=len(data))
        request = pa.ProduceRequest(acks=-1, timeout_ms=1_500, partitions=[item, item])
        with pytest.raises(errors.InvalidRequestError, match="twice") as refusal:
            await s.call(s.leader(place), methods.PRODUCE, request, data * 2)
        assert refusal.value.context["topic_id"] == place.topic_id


async def test_as_many_offsets_as_are_allowed_end_segments_and_no_broker(s: Script) -> None:
    """600 small batches with 4 million offsets each: more than a segment's index can count. All of them wait at once."""
    place = await s.place()
    writer = await s.producer()
    most = MAX_UNCOMPRESSED_BYTES // RECORD_BYTES_MIN
    data = s.huge_batch(place, nobody(), -1, most)
    with unread_payloads():
        await asyncio.gather(*(s.produce(place, data, timeout_ms=20_000) for _ in range(600)))
    leader = s.leader(place)
    log = s.replica(leader, place).log
    log.check()
    assert log.log_end_offset == 600 * most
    s.kill(leader)
    await s.new_leader(place, leader)
    s.restart(leader)
    await s.until(lambda: leader in s.isr(place), "the old leader opens its log again")
    s.replica(leader, place).log.check()
    await s.write(place, writer, "after")
    assert await s.read(place, from_offset=600 * most) == ["after"]


@pytest.mark.parametrize("claims", [{"producer_epoch": EPOCH_MAX}, {"producer_id": -1}, {"base_sequence": -1}])
async def test_a_settled_batch_that_cannot_be_is_refused_and_the_queue_goes_on(
    s: Script, claims: dict[str, int]
) -> None:
    place = await s.place()
    writer = await s.producer()
    fields = {"producer_id": writer.producer_id, "producer_epoch": 0, "settle": True, **claims}
    request = pa.GetProducerStateRequest(topic_id=place.topic_id, partition=place.partition, **fields)
    async with unharmed(s, place, writer, "beside"):
        asked = s.start(s.call(s.leader(place), methods.GET_PRODUCER_STATE, request))
        beside = s.start(s.write(place, nobody(), "beside", seq=-1))
        with pytest.raises((errors.InvalidRequestError, errors.InvalidPidMappingError)):
            await asked
        await beside


async def test_the_writer_of_a_shard_cannot_be_fenced_by_a_question(s: Script) -> None:
    """Nobody settles batches in the cluster's own topics: the fence would stop the shard for ever."""
    place = s.internal("__transaction_state", 0)
    request = pa.GetProducerStateRequest(
        topic_id=place.topic_id, partition=0, producer_id=shard_writer_id("txn", 0), producer_epoch=9, settle=True
    )
    with pytest.raises(errors.InvalidTopicError):
        await s.call(s.leader(place), methods.GET_PRODUCER_STATE, request)


@pytest.mark.parametrize("claims", [{"txn_shard": 1 << 16}, {"txn_shard": -1}])
async def test_a_marker_of_no_shard_is_refused_and_the_queue_goes_on(s: Script, claims: dict[str, int]) -> None:
    place = await s.place()
    async with unharmed(s, place, await s.producer()):
        item = pa.TxnMarker(
            topic_id=place.topic_id, partition=place.partition, txn_producer_id=7, txn_no=1, outcome=COMMITTED
        )
        request = pa.WriteTxnMarkersRequest(coordinator_epoch=1 << 30, markers=[item], **claims)
        reply = await s.call(s.leader(place), methods.WRITE_TXN_MARKERS, request)
        assert reply.markers[0].error.code == errors.ErrorCode.INVALID_REQUEST


@cluster(coordinators=1)
async def test_a_batch_with_another_shard_than_its_ids_is_refused_and_the_transaction_lives(s: Script) -> None:
    """Its leader would ask the wrong shard what became of it, be told "aborted", and tear the transaction."""
    first, second = await s.topic("work", 2, min_insync_replicas="2")
    writer = await s.session("t")
    for wrong in (1 - writer.txn_shard, 49, 50, (1 << 16) - 2):
        if wrong != writer.txn_shard:
            with pytest.raises(errors.InvalidPidMappingError):
                await s.write(first, writer.of(txn_shard=wrong), "lost")
    await s.write(first, writer, "p1")
    await s.write(second, writer, "p2")
    reply = await s.end(writer, counts={first: 1, second: 1}, visible=True)
    assert reply.outcome == COMMITTED
    assert (await s.read(first), await s.read(second)) == (["p1"], ["p2"])


async def test_more_names_than_a_record_holds_are_refused_and_the_shard_lives_on(s: Script) -> None:
    writer = await s.session("t")
    lives = s.lives()
    groups = [f"{number:05d}" + "g" * 1_000 for number in range(9_000)]
    with pytest.raises(errors.PolicyViolationError):
        await s.enrol(writer, groups=groups)
    assert s.lives() == lives
    await s.enrol(writer, groups=groups[:500])
    assert (await s.end(writer)).outcome == COMMITTED, "what could be opened can be ended"
    assert s.lives() == lives


def offsets_of(group: str, count: int, metadata: str, **changes: str) -> co.CommitOffsetsRequest:
    entries = [
        co.OffsetEntry(**{"topic_id": f"{number:032x}", "topic": "t", "offset": 1, "metadata": metadata, **changes})
        for number in range(count)
    ]
    return co.CommitOffsetsRequest(member=co.GroupMember(group_id=group), offsets=entries)


@cluster(coordinators=1)
async def test_offsets_fit_into_the_groups_log_or_are_refused_by_name(s: Script) -> None:
    lives = s.lives()
    with pytest.raises(errors.InvalidRequestError, match="too many bytes"):
        await s.ask_group("g", methods.COMMIT_OFFSETS, offsets_of("g", 3_000, "m" * 4_096))
    for changes in ({"topic": "t" * (9 << 20)}, {"topic": "a/../b"}, {"topic_id": "a:b:c"}, {"topic_id": ""}):
        reply = await s.ask_group("g", methods.COMMIT_OFFSETS, offsets_of("g", 1, "", **changes))
        assert [item.error.code for item in reply.errors] == [errors.ErrorCode.INVALID_REQUEST]
    for count, metadata in ((10_000, ""), (900, "m" * 4_096)):
        reply = await s.ask_group("g", methods.COMMIT_OFFSETS, offsets_of("g", count, metadata))
        assert not reply.errors
    deleted = await s.ask_group("g", methods.DELETE_OFFSETS, co.DeleteOffsetsRequest(group_id="g", all=True))
    assert deleted.deleted == 10_000
    assert s.lives() == lives


async def test_offsets_of_a_transaction_are_bounded_by_what_their_marker_writes(s: Script) -> None:
    writer = await s.session("t")
    group = "g" * 1_000
    entries = [co.OffsetEntry(topic_id=f"{number:032x}", topic="t", offset=1) for number in range(10_000)]
    request = co.SendOffsetsRequest(
        name=writer.name, member=co.GroupMember(group_id=group), commit_sequence=1, offsets=entries
    )
    with pytest.raises(errors.InvalidRequestError, match="too many bytes"):
        await s.ask_group(group, methods.SEND_OFFSETS, request)
    del request.offsets[1_000:]
    await s.ask_group(group, methods.SEND_OFFSETS, request)
    assert (await s.end(writer, visible=True)).outcome == COMMITTED
    fetched = await s.ask_group(group, methods.FETCH_OFFSETS, co.FetchOffsetsRequest(group_id=group))
    assert len(fetched.offsets) == 1_000


@cluster(coordinators=1)
async def test_a_shard_that_cannot_live_is_seen_and_tried_again_with_patience(
    s: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever keeps it from its log, here the code itself."""

    def broken(*_: object) -> None:
        raise errors.CorruptMessageError("a record of the shard's log cannot be read")

    shard = s.shard_of(s.owner("t"), "t")
    lives = shard.lives
    async with s.client() as client:
        assert (await client.admin.cluster_health()).healthy
        with monkeypatch.context() as patch:
            patch.setattr(TransactionTable, "decode", broken)
            await s.call(s.owner("t"), methods.INIT_PRODUCER_ID, _session_request("t"))
            assert shard.is_serving
            shard.life._log._lose(LogLostError("the script ends this life"))  # type: ignore[attr-defined]
            with pytest.raises(errors.CoordinatorNotAvailableError):
                await s.call(s.owner("t"), methods.INIT_PRODUCER_ID, _session_request("t"))
            await s.sleep(60)
            assert shard.lives - lives <= 20
            health = await client.admin.cluster_health()
            assert not health.healthy
            assert health.troubled_shards == ((shard.name, "a record of the shard's log cannot be read"),)
        await s.until(lambda: shard.is_serving)
        await s.sleep(8)
        assert (await client.admin.cluster_health()).healthy


async def test_a_broker_that_cannot_open_one_log_serves_the_others(s: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the fault is, and for as long as it lasts; then the log is opened, too."""
    bad, good = await s.place("bad"), await s.place("good")
    writer = await s.producer()
    await s.write(bad, writer, "1")
    await s.write(good, writer, "1")
    broker = s.followers(good)[0]
    healthy = ProducerStates.apply

    def apply(states: ProducerStates, header: BatchHeader, *more: Any) -> Any:
        if header.partition_tag == partition_tag(bad.topic_id, bad.partition):
            raise ZeroDivisionError
        return healthy(states, header, *more)

    s.kill(broker)
    await s.until(lambda: broker not in s.isr(good))
    with monkeypatch.context() as patch:
        patch.setattr(ProducerStates, "apply", apply)
        s.restart(broker)
        await s.until(lambda: broker in s.isr(good), "the other logs are open and in sync")
        assert broker not in s.isr(bad)
        replicas = s.broker(broker).replicas
        assert list(replicas.unopened) == [bad.id]
        assert replicas.recovered, "what was tried once keeps no broker from being ready"
        await s.write(good, writer, "2", seq=1)
    s.world.loop.errors.clear()
    await s.until(lambda: broker in s.isr(bad), "it is tried again")
    assert not s.broker(broker).replicas.unopened
    assert await s.read(bad) == ["1"]


def _session_request(transactional_id: str) -> co.InitProducerIdRequest:
    return co.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)


def test_the_largest_record_of_a_shard_is_below_what_its_log_takes() -> None:
    """The arithmetic behind those bounds: everything at its limit at once."""
    from oncelog_coordinator.core.limits import Limits
    from oncelog_coordinator.core.sizes import LOG_BATCH_BYTES

    limits = Limits()
    winners = 21 * limits.max_winners
    opened = limits.max_enrolled_bytes + winners
    tokens = limits.max_apps * (6 * 256 + 40)
    names = 2 * (limits.fenced_runs + limits.ended_attempts) * 3 * 6 * 256 + limits.expected_partitions * 3_200
    largest = limits.max_pending_bytes + opened + tokens + names
    step = 512 << 10
    assert largest + step < LOG_BATCH_BYTES
