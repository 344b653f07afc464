"""A client believes no server blindly: what breaks the protocol is named, told to the caller, bounded, and never used.

Each lie is told for a while and then no longer: meanwhile nobody gets a record that is not his next one, and afterwards reading
and writing go on where they were.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.core import told_metadata
from oncelog.core.batch import header as hd
from oncelog.core.batch.batch import encode_batch
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire.wire_errors import to_detail
from tests.unit.sdk.client.fake_cluster import BROKERS, COORDINATOR, TOPIC, TOPIC_ID, FakeCluster

P0 = TopicPartition(TOPIC, 0)
READ: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}


def batch(base: int, values: list[bytes], partition: int = 0) -> bytes:
    """As a leader stores it."""
    made = encode_batch(
        [None] * len(values), values, timestamps_ms=[5] * len(values), topic_id=TOPIC_ID, partition=partition
    )
    return hd.stamp_prefix(base, len(made), 0, 0) + made[hd.PREFIX_BYTES :]


def with_fewer_records(made: bytes) -> bytes:
    raw = bytearray(made)
    struct.pack_into("<i", raw, 48, 1)  # record_count
    return bytes(raw)


@pytest.fixture
def cluster() -> FakeCluster:
    """Offsets 0 to 2 in one batch, 3 and 4 in another."""
    made = FakeCluster()
    for values in ([b"0", b"1", b"2"], [b"3", b"4"]):
        plain = encode_batch(
            [None] * len(values), values, timestamps_ms=[5] * len(values), topic_id=TOPIC_ID, partition=0
        )
        made.logs[PartitionId(TOPIC_ID, 0)].append(plain)
    return made


Edit = Callable[[pb.FetchedPartition, bytes], bytes]
"""Changes what is answered from offset 3 on, and returns the bytes."""


def answering(next_offset: int, data: bytes = b"", **changes: Any) -> Edit:
    def edit(item: pb.FetchedPartition, _: bytes) -> bytes:
        item.next_offset = next_offset
        for name, value in changes.items():
            setattr(item, name, value)
        return data

    return edit


FAR = {"high_watermark": 1 << 50, "last_stable_offset": 1 << 50}
LIES: dict[str, tuple[Edit, str]] = {
    "another partition's batch": (answering(5, batch(3, [b"other", b"other"], partition=1)), "another partition"),
    "the records before, again": (answering(5, batch(0, [b"0", b"1", b"2"])), "before what was asked for"),
    "a next offset that goes back": (answering(0, batch(3, [b"3", b"4"])), "next offset does not lie behind"),
    "a next offset that stays": (answering(3, batch(3, [b"3", b"4"])), "next offset does not lie behind"),
    "a gap": (answering(55, batch(53, [b"3", b"4"]), **FAR), "left out records"),
    "a gap between batches": (answering(9, batch(3, [b"3"]) + batch(8, [b"4"]), **FAR), "left out records"),
    "batches that overlap": (answering(6, batch(3, [b"3", b"4"]) + batch(4, [b"4", b"5"]), **FAR), "overlap"),
    "a next offset behind the last batch": (answering(9, batch(3, [b"3", b"4"]), **FAR), "than where its last batch ends"),
    "far away, without a batch": (answering(10**12, **FAR), "without sending a batch"),
    "back, without a batch": (answering(-7, high_watermark=5), "without sending a batch"),
    "offsets that no log has": (answering((1 << 63) - 1, batch((1 << 63) - 2, [b"3"]), **FAR), "next offset does not lie"),
    "more than may be read": (answering(6, batch(3, [b"3", b"4", b"5"])), "within what may be read"),
    "a high watermark that goes back": (answering(3, high_watermark=4, last_stable_offset=4), "high watermark went back"),
    "a last stable offset that goes back": (answering(3, last_stable_offset=3), "last stable offset went back"),
    "a last stable offset above": (answering(3, last_stable_offset=6), "does not lie between"),
    "negative watermarks": (answering(3, high_watermark=-5, last_stable_offset=-9), "does not lie between"),
    "another leader epoch": (answering(5, batch(3, [b"3", b"4"]), leader_epoch=(1 << 31) - 1), "another leader epoch"),
    "another topic": (answering(5, batch(3, [b"3", b"4"]), topic_id="d" * 32), "does not fit the question"),
    "fewer records than offsets": (answering(5, with_fewer_records(batch(3, [b"3", b"4"]))), "fewer records than offsets"),
}  # fmt: skip


def lie_about_fetches(cluster: FakeCluster, edit: Edit) -> None:
    """Honest up to offset 3."""

    def answer(request: pb.FetchRequest, reply: pb.FetchReply, payload: bytes) -> tuple[Any, bytes]:
        (item,), (question,) = reply.partitions, request.partitions
        if question.fetch_offset < 3:
            first = hd.read_header(payload)
            payload, item.next_offset = payload[: first.batch_length], first.next_offset
        else:
            item.ClearField("error")
            payload = edit(item, payload)
        item.length = len(payload)
        return reply, payload

    cluster.lies["Fetch"] = answer


async def read_while_lied_to(consumer: Any, got: list[int], with_arrow: bool) -> list[errors.OncelogError]:
    raised: list[errors.OncelogError] = []
    for _ in range(8):
        try:
            await take(consumer, got, with_arrow)
        except errors.OncelogError as error:
            raised.append(error)
    return raised


async def take(consumer: Any, got: list[int], with_arrow: bool) -> None:
    if with_arrow:
        rows = await consumer.read_arrow(300)
        got += [] if rows is None else rows.column("offset").to_pylist()
    else:
        got += [record.offset for record in await consumer.getmany(timeout_ms=300)]


@pytest.mark.parametrize("with_arrow", [False, True], ids=["records", "arrow"])
@pytest.mark.parametrize("name", LIES)
def test_no_record_comes_twice_or_is_left_out(cluster: FakeCluster, name: str, with_arrow: bool) -> None:
    edit, words = LIES[name]

    async def work(_: FakeCluster) -> None:
        lie_about_fetches(cluster, edit)
        async with cluster.client() as client, client.consumer(**READ) as consumer:
            await consumer.assign([P0])
            got: list[int] = []
            raised = await read_while_lied_to(consumer, got, with_arrow)
            # What is certain of an answer may be handed out before its lie is met: in order, once, and as it was written.
            assert got == list(range(len(got)))
            assert {0, 1, 2} <= set(got) <= {0, 1, 2, 3, 4}
            assert raised, "the caller is told"
            assert words in str(raised[0])
            for error in raised:
                assert type(error) is errors.InvalidResponseError
                assert (error.context["topic"], error.context["partition"]) == (TOPIC, "0")
            assert cluster.count("Fetch") < 60, "it is asked again with pauses"
            del cluster.lies["Fetch"]
            while len(got) < 5:
                await take(consumer, got, with_arrow)
            assert got == [0, 1, 2, 3, 4]
            assert await consumer.position(P0) == 5

    cluster.run(work)


def test_a_leader_that_does_not_wait_is_not_asked_without_end(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        lie_about_fetches(cluster, answering(3))
        async with cluster.client() as client, client.consumer(**READ | {"fetch_max_wait_ms": 500}) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany(timeout_ms=1_000)) == 3
            assert await consumer.getmany(timeout_ms=3_000) == []
            assert cluster.count("Fetch") < 40

    cluster.run(work)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _, reply, payload: (b"\xff" * 50, payload),
        lambda _, reply, payload: (pb.FetchReply(), b""),
        lambda _, reply, payload: (pb.FetchReply(partitions=[*reply.partitions, *reply.partitions]), payload),
        lambda _, reply, payload: (reply, payload + b"x"),
        lambda _, reply, payload: (reply, payload[:-1]),
        lambda _, reply, payload: (_with_length(reply, -5), payload),
        lambda _, reply, payload: (_with_length(reply, (1 << 31) - 1), payload),
    ],
    ids=["garbage", "empty", "twice", "longer", "shorter", "a negative length", "an endless length"],
)
def test_an_answer_that_does_not_fit_its_question_is_told_and_not_used(cluster: FakeCluster, answer: Any) -> None:
    async def work(_: FakeCluster) -> None:
        cluster.lies["Fetch"] = answer
        async with cluster.client() as client, client.consumer(**READ) as consumer:
            await consumer.assign([P0])
            with pytest.raises(errors.InvalidResponseError):
                await consumer.getmany(timeout_ms=1_000)
            del cluster.lies["Fetch"]
            assert [record.offset for record in await consumer.getmany(timeout_ms=5_000)] == [0, 1, 2, 3, 4]

    cluster.run(work)


def _with_length(reply: pb.FetchReply, length: int) -> pb.FetchReply:
    reply.partitions[0].length = length
    return reply


def test_a_way_past_records_that_are_gone_is_in_the_error(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        lie_about_fetches(cluster, answering(10, batch(8, [b"8", b"9"]), **FAR))
        async with cluster.client() as client, client.consumer(**READ) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany(timeout_ms=1_000)) == 3
            with pytest.raises(errors.InvalidResponseError) as caught:
                await consumer.getmany(timeout_ms=1_000)
            assert (caught.value.context["offset"], caught.value.context["next_offset"]) == ("3", "8")
            consumer.seek(P0, int(caught.value.context["next_offset"]))
            assert [record.value for record in await consumer.getmany(timeout_ms=1_000)] == [b"8", b"9"]

    cluster.run(work)


def in_place_of(reply: pb.FetchReply, error: errors.OncelogError) -> tuple[Any, bytes]:
    reply.partitions[0].error.CopyFrom(to_detail(error))
    reply.partitions[0].length = 0
    return reply, b""


@pytest.mark.parametrize(
    "error",
    [errors.StorageError("the disk is slow"), errors.NetworkError("gone"), errors.error_for(7777, "?" * 100_000)],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_never_passes_is_told_in_time_and_reading_goes_on_when_it_passes(
    cluster: FakeCluster, error: errors.OncelogError
) -> None:
    def refuse(*_: Any) -> Any:
        raise errors.error_for(int(error.code), error.message) if isinstance(error, errors.NetworkError) else error

    def refuse_in_its_place(_: Any, reply: pb.FetchReply, __: bytes) -> tuple[Any, bytes]:
        return in_place_of(reply, error)

    async def work(_: FakeCluster) -> None:
        cluster.lies["Fetch"] = refuse if isinstance(error, errors.NetworkError) else refuse_in_its_place
        async with cluster.client(default_api_timeout_ms=5_000) as client, client.consumer(**READ) as consumer:
            await consumer.assign([P0])
            began = cluster.loop.time()
            with pytest.raises(type(error)) as caught:
                await read_on(consumer)
            assert 5.0 <= cluster.loop.time() - began < 8.0
            assert caught.value.message == errors.printable(error.message, 2_000), (
                "the last reason, at a bounded length"
            )
            assert int(caught.value.context["failing_for_ms"]) >= 5_000
            assert await consumer.getmany(timeout_ms=500) == [], "and then it tries again"
            del cluster.lies["Fetch"]
            assert [record.offset for record in await consumer.getmany(timeout_ms=10_000)] == [0, 1, 2, 3, 4]

    cluster.run(work)


async def read_on(consumer: Any) -> None:
    while True:
        assert await consumer.getmany(timeout_ms=500) == []


def test_a_server_cannot_send_a_client_to_sleep(cluster: FakeCluster) -> None:
    def wait(_: Any, reply: pb.FetchReply, __: bytes) -> tuple[Any, bytes]:
        return in_place_of(reply, errors.ResourceExhaustedError(retry_after_ms=1 << 40))

    async def work(_: FakeCluster) -> None:
        cluster.lies["Fetch"] = wait
        async with cluster.client() as client, client.consumer(**READ) as consumer:
            await consumer.assign([P0])
            assert await consumer.getmany(timeout_ms=500) == []
            del cluster.lies["Fetch"]
            assert len(await consumer.getmany(timeout_ms=310_000)) == 5

    cluster.run(work)


# ---------------------------------------------------------------- positions


def test_positions_that_cannot_be_are_not_taken(cluster: FakeCluster) -> None:
    def nowhere(_: Any, reply: pb.ListOffsetsReply, payload: bytes) -> tuple[Any, bytes]:
        reply.partitions[0].offset = -5
        return reply, payload

    def committed(request: co.FetchOffsetsRequest, reply: co.FetchOffsetsReply, _: bytes) -> tuple[Any, bytes]:
        reply.offsets.add(topic_id=TOPIC_ID, topic=TOPIC, partition=0, offset=-3)
        return reply, b""

    async def work(_: FakeCluster) -> None:
        cluster.lies["ListOffsets"] = nowhere
        async with cluster.client(default_api_timeout_ms=2_000) as client, client.consumer(**READ) as consumer:
            await consumer.assign([P0])
            with pytest.raises(errors.InvalidResponseError, match="cannot be"):
                await consumer.getmany(timeout_ms=1_000)
        cluster.lies = {"FetchOffsets": committed}
        async with cluster.client() as client, client.consumer(group_id="g", **READ) as consumer:
            await consumer.assign([P0])
            with pytest.raises(errors.InvalidResponseError, match="cannot be"):
                await consumer.getmany(timeout_ms=1_000)

    cluster.run(work)


# ---------------------------------------------------------------- writing


def other_partition(_: Any, reply: pb.ProduceReply, payload: bytes) -> tuple[Any, bytes]:
    reply.partitions[0].partition += 1
    return reply, payload


def impossible_offset(_: Any, reply: pb.ProduceReply, payload: bytes) -> tuple[Any, bytes]:
    reply.partitions[0].base_offset = -77
    return reply, payload


@pytest.mark.parametrize(
    "lie",
    [other_partition, impossible_offset, lambda *_: (pb.ProduceReply(), b""), lambda *_: (b"\xff" * 9, b"")],
    ids=["another partition", "an offset that cannot be", "nothing", "garbage"],
)
def test_an_acknowledgement_of_something_else_is_none(cluster: FakeCluster, lie: Any) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(delivery_timeout_ms=20_000) as producer:
            cluster.lies["Produce"] = lie
            delivery = await producer.send(TOPIC, value=b"5", partition=0)
            while cluster.count("Produce") < 3:
                await cluster.pause()
            del cluster.lies["Produce"]
            assert (await delivery).offset == 5
            assert cluster.values(0) == [b"0", b"1", b"2", b"3", b"4", b"5"], "written once"

    cluster.run(work)


def test_a_leader_that_never_answers_rightly_is_named_when_the_time_is_over(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        cluster.lies["Produce"] = other_partition
        cluster.lies["GetProducerState"] = lambda *_: (b"\xff" * 9, b"")
        async with cluster.client() as client, client.producer(delivery_timeout_ms=5_000) as producer:
            with pytest.raises(errors.DeliveryTimedOutError, match="answered for other batches than it was sent"):
                await (await producer.send(TOPIC, value=b"5", partition=0))
            cluster.lies.clear()

    cluster.run(work)


@pytest.mark.parametrize(
    "told", [{"producer_id": -1}, {"producer_epoch": -1}, {"txn_shard": 70_000}, {"next_txn_no": -4}], ids=str
)
def test_an_identity_that_cannot_be_is_not_written_with(cluster: FakeCluster, told: dict[str, int]) -> None:
    def lie(_: Any, reply: co.InitProducerIdReply, payload: bytes) -> tuple[Any, bytes]:
        for name, value in told.items():
            setattr(reply, name, value)
        return reply, payload

    async def work(_: FakeCluster) -> None:
        cluster.lies["InitProducerId"] = lie
        async with cluster.client() as client:
            with pytest.raises(errors.InvalidResponseError, match="cannot be"):
                await client.producer(transactional_id="t").start()
            if "producer_id" in told:
                with pytest.raises(errors.InvalidResponseError, match="cannot be"):
                    await client.producer().start()
            assert cluster.count("Produce") == 0

    cluster.run(work)


# ---------------------------------------------------------------- metadata


def naming(address: str) -> Any:
    def lie(_: Any, reply: pb.GetMetadataReply, payload: bytes) -> tuple[Any, bytes]:
        reply.brokers[0].address = address
        return reply, payload

    return lie


def owned_at(address: str) -> Any:
    def lie(_: Any, reply: pb.GetMetadataReply, payload: bytes) -> tuple[Any, bytes]:
        reply.transaction_shards[0].address = address
        return reply, payload

    return lie


def with_partitions(*numbers: int) -> Any:
    def lie(_: Any, reply: pb.GetMetadataReply, payload: bytes) -> tuple[Any, bytes]:
        for topic in reply.topics:
            del topic.partitions[:]
            for number in numbers:
                topic.partitions.add(partition=number, leader=types_pb2.BrokerRef(broker_id=0, incarnation=7))
        return reply, payload

    return lie


def with_shards(**changes: int) -> Any:
    def lie(_: Any, reply: pb.GetMetadataReply, payload: bytes) -> tuple[Any, bytes]:
        for name, value in changes.items():
            setattr(reply.group_shards[0] if name == "shard" else reply, name, value)
        return reply, payload

    return lie


@pytest.mark.parametrize(
    "lie",
    [
        *map(naming, ["unix:/run/docker.sock", "dns://10.0.0.1/broker:9092", "b0:0", "b0:70000", "b0", "b 0:1", "\x1b[2J:1"]),
        naming("h" * 400 + ":1"),
        owned_at("unix:///run/docker.sock"),
        with_partitions(1, 2),
        with_partitions(0, 0, 1),
        with_partitions(-1, 0),
        with_partitions(*range(65)),
        with_shards(transaction_shard_count=-1),
        with_shards(group_shard_count=1 << 30),
        with_shards(shard=5),
        lambda *_: (b"\xff" * 50, b""),
    ],
)  # fmt: skip
def test_metadata_that_cannot_be_sends_a_client_nowhere(
    cluster: FakeCluster, lie: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told_metadata, "PARTITIONS_MAX", 64)

    async def work(_: FakeCluster) -> None:
        cluster.lies["GetMetadata"] = lie
        with pytest.raises(errors.OncelogError) as caught:
            async with (
                cluster.client(default_api_timeout_ms=2_000, request_timeout_ms=1_000) as client,
                client.consumer(TOPIC, **READ) as consumer,
            ):
                await consumer.getmany(timeout_ms=500)
        assert isinstance(caught.value, errors.ClusterUnreachableError)
        assert "metadata" in str(caught.value) or "cannot be parsed" in str(caught.value)
        assert "\x1b" not in str(caught.value)
        assert len(str(caught.value)) < 2_000
        assert {address for address, _, _ in cluster.calls} <= {*BROKERS, COORDINATOR}

    cluster.run(work)


def test_one_broker_that_lies_about_the_cluster_does_not_keep_a_client_from_the_others(cluster: FakeCluster) -> None:
    honest = cluster._GetMetadata

    async def mixed(address: str, request: pb.GetMetadataRequest, payload: bytes) -> tuple[Any, bytes]:
        reply, bulk = await honest(address, request, payload)
        if address == BROKERS[0]:
            reply.brokers[1].address = "unix:/run/x"
        return reply, bulk

    cluster._GetMetadata = mixed  # type: ignore[method-assign]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**READ) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany(timeout_ms=5_000)) == 5

    cluster.run(work)


def test_the_number_of_shards_never_changes(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(default_api_timeout_ms=2_000, request_timeout_ms=1_000) as client:
            await client.consumer(TOPIC).start()
            cluster.lies["GetMetadata"] = with_shards(group_shard_count=2)
            with pytest.raises(errors.ClusterUnreachableError, match="another number of group shards"):
                await client.consumer("other").start()

    cluster.run(work)
