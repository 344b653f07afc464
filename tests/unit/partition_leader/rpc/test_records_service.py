"""Plain records in and out: one batch where it belongs, and back without markers and what was aborted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.batch import decode_arrow, encode_batch, iter_batches, records_of
from oncelog.core.batch.hashing import partition_for_key, shard_for
from oncelog.core.batch.header import read_header, stamp_prefix
from oncelog.types import Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.rpc.records_service import RecordsService
from oncelog_runtime.core.budget import Budget
from oncelog_runtime.metadata.cluster_keys import CLUSTER_KEY, OFFSETS_TOPIC, Cluster
from oncelog_runtime.serving.admission import ADMISSION, Admission
from oncelog_runtime.serving.call_context import CALL, CallInfo
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import P0, P1, TOPIC_ID, Place

PARTITIONS = 2


class Serving:
    """Broker 0 leads P0 and broker 1 leads P1 of a topic. `log`: batches as a leader gave them offsets."""

    def __init__(self, place: Place, **config: int) -> None:
        self.place = place
        self.produced: list[tuple[str, pb.ProduceRequest, bytes]] = []
        self.fetched: list[tuple[str, pb.FetchRequest]] = []
        self.answer = pb.ProducePartitionReply(base_offset=70)
        self.log: list[bytes] = []
        self.aborted: list[types_pb2.AbortedTransaction] = []
        self.refusal: errors.OncelogError | None = None
        service: Any = self
        self.service = RecordsService(
            BrokerConfig(node_id=0, **config),
            place.clock,
            place.transport,
            place.view,
            service,
            service,
            place.node.disk,
        )
        place.transport.serve("broker-1:9092", methods.PRODUCE, self._produce_there)
        place.transport.serve("broker-1:9092", methods.FETCH, self._fetch_there)

    # the broker's own services

    async def produce(self, request: pb.ProduceRequest, payload: Buffer, where: str = "here") -> Any:
        self.produced.append((where, request, bytes(payload)))
        return pb.ProduceReply(partitions=[self.answer] if request.acks else []), b""

    async def fetch(self, request: pb.FetchRequest, _payload: Buffer, where: str = "here") -> Any:
        self.fetched.append((where, request))
        answer = pb.FetchedPartition(
            next_offset=sum(read_header(data).last_offset_delta + 1 for data in self.log), high_watermark=99
        )
        answer.aborted.extend(self.aborted)
        if self.refusal is not None:
            answer.error.CopyFrom(to_detail(self.refusal))
        return pb.FetchReply(partitions=[answer]), b"".join(self.log)

    async def _produce_there(self, request: Any, payload: Buffer) -> Any:
        return await self.produce(request, payload, "there")

    async def _fetch_there(self, request: Any, payload: Buffer) -> Any:
        return await self.fetch(request, payload, "there")

    # short forms

    async def send(self, *records: types_pb2.Record, **more: Any) -> pb.ProduceRecordsReply:
        request = pb.ProduceRecordsRequest(**{"topic": "t", "records": records, "partition": 0, **more})
        return (await self.service.produce_records(request, b""))[0]

    async def read(self, **more: Any) -> pb.FetchRecordsReply:
        request = pb.FetchRecordsRequest(**{"topic": "t", "partition": 0, **more})
        return (await self.service.fetch_records(request, b""))[0]

    def holds(self, *values: bytes, **identity: Any) -> None:
        """One more batch of the log."""
        offset = sum(read_header(data).last_offset_delta + 1 for data in self.log)
        data = encode_batch(
            [None] * len(values),
            list(values),
            timestamps_ms=[5] * len(values),
            headers=[[] for _ in values],
            topic_id=TOPIC_ID,
            partition=0,
            **identity,
        )
        self.log.append(stamp_prefix(offset, len(data), 1, 5) + data[36:])


def record(value: bytes = b"v", key: bytes | None = None, timestamp_ms: int = 0) -> types_pb2.Record:
    found = types_pb2.Record(value=value, timestamp_ms=timestamp_ms)
    if key is not None:
        found.key = key
    return found


def run(scenario: Callable[[Serving], Awaitable[None]], **config: int) -> None:
    async def whole(place: Place) -> None:
        await place.put(CLUSTER_KEY, Cluster("c", 4, 4).encode())
        await place.topic(partitions=PARTITIONS)
        await place.lead(P0)
        await place.lead(P1, leader=1)
        await scenario(Serving(place, **config))

    cluster_place.run(whole)


# ---------------------------------------------------------------- producing


def test_records_become_one_batch_as_they_were_given() -> None:
    async def scenario(serving: Serving) -> None:
        one = record(b"v1", b"k", 7)
        one.headers.add(key="h", value=b"x")
        one.headers.add(key="null")
        reply = await serving.send(one, types_pb2.Record())
        assert (reply.partition, reply.base_offset) == (0, 70)
        ((where, request, data),) = serving.produced
        assert (where, request.acks, request.timeout_ms) == ("here", -1, 10_000)
        ((header, payload),) = iter_batches(data)
        first, second = records_of(decode_arrow(payload, header), header)
        assert (first.key, first.value, first.timestamp_ms) == (b"k", b"v1", 7)
        assert [(name, value) for name, value in first.headers] == [("h", b"x"), ("null", None)]
        assert (second.key, second.value) == (None, None)
        assert second.timestamp_ms == serving.place.clock.now_ms()
        assert header.producer_id == -1

    run(scenario)


def test_without_a_partition_the_key_decides_or_all_get_their_turn() -> None:
    async def scenario(serving: Serving) -> None:
        keyed = await serving.send(record(key=b"k"), record(key=b"k"), partition=-1)
        assert keyed.partition == partition_for_key(b"k", PARTITIONS)
        turns = [(await serving.send(record(), partition=-1)).partition for _ in range(4)]
        assert sorted(turns) == [0, 0, 1, 1]
        with pytest.raises(errors.InvalidRequestError, match="several keys"):
            await serving.send(record(key=b"k"), record(), partition=-1)

    run(scenario)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"topic": "unknown"}, errors.UnknownTopicError),
        ({"partition": PARTITIONS}, errors.InvalidRequestError),
        ({"records": []}, errors.InvalidRequestError),
        ({"records": [record(b"x" * (1 << 20))]}, errors.MessageTooLargeError),
        ({"producer_id": 7, "partition": -1}, errors.InvalidRequestError),
        ({"producer_id": 7}, errors.InvalidRequestError),
        ({"txn_no": 1, "producer_id": 7, "records": [record(timestamp_ms=1)]}, errors.InvalidRequestError),
    ],
)
def test_what_cannot_be_written_as_asked_is_refused_by_name(
    change: dict[str, Any], error: type[errors.OncelogError]
) -> None:
    async def scenario(serving: Serving) -> None:
        with pytest.raises(error):
            await serving.send(**{"records": [record()], **change})
        assert serving.produced == []

    run(scenario)


def test_nobody_writes_the_clusters_own_topics_by_this_method() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.place.topic(OFFSETS_TOPIC, "b" * 32)
        with pytest.raises(errors.InvalidTopicError):
            await serving.send(record(), topic=OFFSETS_TOPIC)

    run(scenario)


def test_an_idempotent_callers_batch_is_the_same_batch_at_each_try() -> None:
    async def scenario(serving: Serving) -> None:
        for _ in range(2):
            await serving.send(
                record(timestamp_ms=1),
                producer_id=7,
                producer_epoch=2,
                base_sequence=9,
                txn_no=3,
                transactional_id="tx",
                session_token=b"token",
            )
        (_, request, first), (_, _, second) = serving.produced
        assert first == second
        header = read_header(first)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 9)
        assert (header.txn_producer_id, header.txn_no, header.txn_shard) == (7, 3, shard_for("tx", 4))
        assert request.partitions[0].session_token == b"token"

    run(scenario)


def test_without_acknowledgement_no_offset_is_told() -> None:
    async def scenario(serving: Serving) -> None:
        assert (await serving.send(record(), acks=0)).base_offset == -1
        serving.answer = pb.ProducePartitionReply(error=to_detail(errors.NotEnoughReplicasError()))
        with pytest.raises(errors.NotEnoughReplicasError):
            await serving.send(record(), acks=-1)

    run(scenario)


def test_what_another_broker_leads_goes_there_in_the_callers_name() -> None:
    async def scenario(serving: Serving) -> None:
        CALL.set(CallInfo("ipv4:10.0.0.7:4", listener="client"))
        assert (await serving.send(record(), partition=1)).partition == 1
        await serving.read(partition=1)
        ((where, request, _),) = serving.produced
        ((read_where, fetch),) = serving.fetched
        assert (where, read_where) == ("there", "there")
        assert request.forwarded_for.peer == fetch.forwarded_for.peer == "ipv4:10.0.0.7:4"

    run(scenario)


def test_without_a_leader_the_caller_is_told_to_come_again() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.place.lead(P0, leader=None)
        for asked in (serving.send(record()), serving.read()):
            with pytest.raises(errors.LeaderNotAvailableError):
                await asked

    run(scenario)


# ---------------------------------------------------------------- fetching


def values(reply: pb.FetchRecordsReply) -> list[tuple[int, bytes]]:
    return [(one.offset, one.value) for one in reply.records]


def test_records_come_with_their_offsets_from_the_one_that_was_asked_for() -> None:
    async def scenario(serving: Serving) -> None:
        serving.holds(b"a", b"b", b"c")
        serving.holds(b"d")
        reply = await serving.read(offset=1)
        assert values(reply) == [(1, b"b"), (2, b"c"), (3, b"d")]
        assert (reply.next_offset, reply.high_watermark) == (4, 99)
        ((_, fetch),) = serving.fetched
        assert fetch.partitions[0].fetch_offset == 1

    run(scenario)


def test_what_was_aborted_is_left_out_but_for_the_winners() -> None:
    async def scenario(serving: Serving) -> None:
        txn: dict[str, Any] = {"producer_epoch": 0, "base_sequence": 0, "txn_producer_id": 5, "txn_shard": 0}
        serving.holds(b"aborted", producer_id=7, txn_no=1, **txn)
        serving.holds(b"winner", producer_id=8, txn_no=2, **txn)
        serving.holds(b"loser", producer_id=9, txn_no=2, **txn)
        serving.holds(b"plain")
        serving.aborted = [
            types_pb2.AbortedTransaction(txn_producer_id=5, txn_no=1, all=True),
            types_pb2.AbortedTransaction(txn_producer_id=5, txn_no=2, winners=[8]),
        ]
        assert [value for _, value in values(await serving.read())] == [b"winner", b"plain"]

    run(scenario)


def test_as_many_batches_are_unpacked_as_fit_and_the_rest_comes_next() -> None:
    async def scenario(serving: Serving) -> None:
        for number in range(4):
            serving.holds(bytes([number]) * 20_000)
        reply = await serving.read()
        assert 0 < len(reply.records) < 4
        assert reply.next_offset == len(reply.records)

    run(scenario, fetch_records_unpacked_bytes=50_000)


def test_a_batch_that_is_too_much_by_itself_is_named_with_a_way_past_it() -> None:
    async def scenario(serving: Serving) -> None:
        serving.holds(b"x" * 60_000)
        with pytest.raises(errors.MessageTooLargeError) as refusal:
            await serving.read()
        assert (refusal.value.context["offset"], refusal.value.context["next_offset"]) == ("0", "1")

    run(scenario, fetch_records_unpacked_bytes=50_000)


def test_what_unpacking_takes_is_paid_for_before_it_is_unpacked() -> None:
    async def scenario(serving: Serving) -> None:
        serving.holds(b"x" * 60_000)
        process = Budget("process", 100_000)
        ADMISSION.set(Admission(process.child("connection", 100_000)))
        with pytest.raises(errors.ResourceExhaustedError):
            await serving.read()
        ADMISSION.set(None)

    run(scenario)


def test_a_batch_that_nobody_can_decode_is_named_with_a_way_past_it() -> None:
    async def scenario(serving: Serving) -> None:
        serving.holds(b"a")
        serving.log[0] = serving.log[0][:-8] + b"\xff" * 8
        with pytest.raises(errors.OncelogError) as refusal:
            await serving.read()
        assert not refusal.value.retriable

    run(scenario)


def test_what_the_leader_refuses_is_told() -> None:
    async def scenario(serving: Serving) -> None:
        serving.refusal = errors.OffsetOutOfRangeError()
        with pytest.raises(errors.OffsetOutOfRangeError):
            await serving.read(offset=1 << 40)

    run(scenario)
