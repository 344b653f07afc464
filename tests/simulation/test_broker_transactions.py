"""A broker and a coordinator made by hand: enrolment, markers, healing, lost records. Holes 5, 6, 12, 19."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from oncelog.core.batch.batch import encode_batch
from oncelog.errors import CoordinatorFencedError, ErrorCode, OncelogError
from oncelog.types import Buffer
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_runtime.metadata.cluster_keys import KIND_TXN, ShardOwner, shard_epoch_key, shard_owner_key
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Put
from oncelog_runtime.sim import SimWorld
from tests.simulation.test_replication_smoke import Cluster, batch

TXN_ID, SHARD = 7, 1


@dataclass
class FakeCoordinator:
    """Says what the test wants, and remembers what it was asked."""

    epoch: int = 5
    resolution: co.ResolveTransactionReply = field(default_factory=co.ResolveTransactionReply)
    enrolled: list[tuple[int, int]] = field(default_factory=list)
    resolved: int = 0

    async def main(self, ports: NodePorts) -> None:
        ports.server.register(methods.ENROL_PARTITIONS.name, self.enrol)
        ports.server.register(methods.RESOLVE_TRANSACTION.name, self.resolve)
        address = await ports.server.start()
        owner = ShardOwner(address, "nonce", self.epoch)
        await ports.metadata.commit(
            puts=[
                Put(shard_epoch_key(KIND_TXN, SHARD), str(self.epoch).encode()),
                Put(shard_owner_key(KIND_TXN, SHARD), owner.encode()),
            ]
        )

    async def enrol(self, header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        request = co.EnrolPartitionsRequest.FromString(header)
        self.enrolled += [(request.name.txn_no, partition.partition) for partition in request.partitions]
        return co.EnrolPartitionsReply(coordinator_epoch=self.epoch).SerializeToString(), b""

    async def resolve(self, _header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
        self.resolved += 1
        return self.resolution.SerializeToString(), b""


def data(topic_id: str, producer_id: int, sequence: int, txn_no: int = 1) -> bytes:
    return encode_batch(
        [None],
        [f"{producer_id}/{sequence}".encode()],
        timestamps_ms=[1_000],
        topic_id=topic_id,
        partition=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        txn_producer_id=TXN_ID,
        txn_no=txn_no,
        txn_shard=SHARD,
    )


class Bench:
    """One broker, one coordinator, one topic of one partition."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.coordinator = FakeCoordinator()
        self.cluster = Cluster(world, 1, transaction_resolve_after_ms=2_000, transaction_resolve_interval_ms=500)
        world.node("co", self.coordinator.main)
        self.topic_id = ""

    async def start(self) -> None:
        self.topic_id = await self.cluster.create("t")
        await self.cluster.retry(self.is_led)

    async def is_led(self) -> None:
        item = pb.ListOffsetsPartition(topic_id=self.topic_id, timestamp_ms=-1)
        request = pb.ListOffsetsRequest(isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED, partitions=[item])
        reply, _ = await self.cluster.call(0, methods.LIST_OFFSETS, request)
        if reply.partitions[0].HasField("error"):
            raise OncelogError("not yet")

    async def produce(self, producer_id: int, sequence: int, txn_no: int = 1) -> int:
        return await self.cluster.produce("t", self.topic_id, data(self.topic_id, producer_id, sequence, txn_no))

    async def mark(self, *, epoch: int = 5, txn_no: int = 1, **options: object) -> int:
        marker = pb.TxnMarker(
            topic_id=self.topic_id, txn_producer_id=TXN_ID, txn_no=txn_no, **{"expected_records": -1, **options}
        )
        request = pb.WriteTxnMarkersRequest(txn_shard=SHARD, coordinator_epoch=epoch, markers=[marker])
        reply, _ = await self.cluster.call(0, methods.WRITE_TXN_MARKERS, request)
        assert not reply.markers[0].HasField("error"), reply
        return int(reply.markers[0].marker_offset)

    async def fetch(self, offset: int = 0, *, skip: bool = False) -> pb.FetchedPartition:
        item = pb.FetchPartition(topic_id=self.topic_id, fetch_offset=offset, leader_epoch=-1)
        request = pb.FetchRequest(
            isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED, partitions=[item], skip_lost_transactions=skip
        )
        reply, _ = await self.cluster.call(0, methods.FETCH, request)
        return reply.partitions[0]


def test_a_transaction_is_opened_on_the_coordinators_answer_and_ends_with_its_marker() -> None:
    with SimWorld("txn") as world:
        bench = Bench(world)

        async def scenario() -> None:
            await bench.start()
            assert await bench.produce(TXN_ID, 0) == 0
            assert await bench.produce(TXN_ID, 1) == 1
            assert bench.coordinator.enrolled == [(1, 0)]
            assert (await bench.fetch()).last_stable_offset == 0
            assert await bench.mark(outcome=types_pb2.TRANSACTION_OUTCOME_ABORTED) == 2
            fetched = await bench.fetch()
            assert (fetched.last_stable_offset, fetched.next_offset) == (3, 3)
            assert [(a.txn_no, a.first_offset, a.marker_offset, a.all) for a in fetched.aborted] == [(1, 0, 2, True)]

        world.run(scenario())


def test_healing_writes_the_winners_that_the_coordinator_names() -> None:
    with SimWorld("healing") as world:
        bench = Bench(world)
        bench.coordinator.resolution = co.ResolveTransactionReply(
            outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED,
            coordinator_epoch=5,
            has_winners=True,
            winners=[20],
            expected_records=1,
        )

        async def scenario() -> None:
            await bench.start()
            await bench.produce(20, 0)
            await bench.produce(21, 0)
            await asyncio.sleep(4)
            fetched = await bench.fetch()
            assert fetched.last_stable_offset == 3
            assert [(list(a.winners), a.all) for a in fetched.aborted] == [([20], False)]

        world.run(scenario())


def test_an_ongoing_transaction_is_left_alone_and_an_older_coordinator_is_not_believed() -> None:
    with SimWorld("healing-old") as world:
        bench = Bench(world)
        bench.coordinator.resolution = co.ResolveTransactionReply(
            outcome=types_pb2.TRANSACTION_OUTCOME_ONGOING, coordinator_epoch=5
        )

        async def scenario() -> None:
            await bench.start()
            await bench.produce(20, 0)
            await asyncio.sleep(4)
            assert bench.coordinator.resolved > 0
            assert (await bench.fetch()).last_stable_offset == 0
            bench.coordinator.resolution = co.ResolveTransactionReply(
                outcome=types_pb2.TRANSACTION_OUTCOME_ABORTED, coordinator_epoch=4
            )
            await asyncio.sleep(4)
            assert (await bench.fetch()).last_stable_offset == 0, "a deposed coordinator decides nothing"

        world.run(scenario())


def test_a_deposed_coordinators_marker_is_refused() -> None:
    with SimWorld("fenced") as world:
        bench = Bench(world)

        async def scenario() -> OncelogError | None:
            await bench.start()
            await bench.mark(epoch=6, outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED)
            try:
                await bench.mark(epoch=5, txn_no=2, outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED)
            except OncelogError as error:
                return error
            return None

        assert isinstance(world.run(scenario()), CoordinatorFencedError)


def test_a_committed_transaction_that_lost_records_is_named_and_never_silent() -> None:
    with SimWorld("lost") as world:
        bench = Bench(world)

        async def scenario() -> None:
            await bench.start()
            await bench.cluster.produce("t", bench.topic_id, batch(bench.topic_id, b"before".ljust(16)))
            await bench.produce(TXN_ID, 0)
            await bench.mark(outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED, expected_records=2)
            first = await bench.fetch()
            assert not first.HasField("error")
            assert first.next_offset == 1, "what lies before the loss is readable"
            lost = await bench.fetch(1)
            assert lost.error.code == ErrorCode.TRANSACTION_DATA_LOSS
            skipped = await bench.fetch(1, skip=True)
            assert skipped.next_offset == 3
            assert [(a.txn_no, a.data_loss, a.all) for a in skipped.aborted] == [(1, True, True)]

        world.run(scenario())
