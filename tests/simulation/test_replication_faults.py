"""Brokers alone under random faults: nothing acknowledged is lost, doubled or reordered, and replicas become identical.

Transactions and the SDK have tests of their own; here a producer is a loop that repeats one batch until it is acknowledged.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest

from oncelog.core.batch.header import span_of
from oncelog.errors import ErrorCode, OncelogError
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog_runtime.sim import FaultDriver, FaultPlan, SimWorld
from tests.simulation.test_replication_smoke import Cluster, batch

PARTITIONS = 2
PRODUCERS = (10, 11, 12)
FAULTS_MS = 15_000
NEVER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


@dataclass(slots=True)
class Run:
    """One cluster, one topic, and who writes to it."""

    cluster: Cluster
    topic_id: str = ""
    stopping: bool = False
    acknowledged: dict[int, list[bytes]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    """The newest leader epoch that anybody named, by partition."""

    async def producer(self, producer_id: int) -> None:
        """Writes 0, 1, 2, ...; the next one only when the last one was acknowledged."""
        partition, done = producer_id % PARTITIONS, self.acknowledged.setdefault(producer_id, [])
        while not self.stopping:
            payload = f"{producer_id}:{len(done)}".encode().ljust(16)
            data = batch(self.topic_id, payload, partition, producer_id, len(done))
            if await self.attempt(partition, data):
                done.append(payload)
            await asyncio.sleep(0.02)

    async def attempt(self, partition: int, data: bytes) -> bool:
        """True when the batch is acknowledged. A refusal that would mean a lost batch is the test's failure."""
        item = pb.ProducePartition(topic_id=self.topic_id, partition=partition, length=len(data))
        request = pb.ProduceRequest(acks=-1, timeout_ms=1_000, partitions=[item])
        leader = await self.leader(partition)
        if leader is None:
            return False
        try:
            reply, _ = await self.cluster.call(leader, methods.PRODUCE, request, data, timeout_ms=1_500)
        except OncelogError:
            return False
        answer = reply.partitions[0]
        assert answer.error.code not in NEVER, answer.error
        return not answer.HasField("error")

    async def leader(self, partition: int) -> int | None:
        """As the SDK, it never goes back to an older epoch: that leader's log may lack what a newer one acknowledged."""
        for number in range(len(self.cluster.names)):
            try:
                reply, _ = await self.cluster.call(
                    number, methods.GET_METADATA, pb.GetMetadataRequest(topics=["t"]), timeout_ms=500
                )
            except OncelogError:
                continue
            partitions = reply.topics[0].partitions
            if partition >= len(partitions) or partitions[partition].leader_epoch < self.epochs.get(partition, -1):
                continue
            self.epochs[partition] = partitions[partition].leader_epoch
            if partitions[partition].HasField("leader"):
                return int(partitions[partition].leader.broker_id)
        return None

    def whole_log(self, number: int, partition: int) -> bytes:
        """Every byte of one replica."""
        log = self.cluster.brokers[number].replicas.partitions[PartitionId(self.topic_id, partition)].log
        log.check()
        data, offset = b"", log.log_start_offset
        while offset < log.log_end_offset:
            chunk = bytes(log.read(offset, 1 << 20, log.log_end_offset))
            data, offset = data + chunk, span_of(chunk)[1]
        return data

    async def check(self) -> None:
        """After everything has healed and nobody writes."""
        for partition in range(PARTITIONS):
            read = await self.cluster.read_all("t", self.topic_id, partition)
            for producer_id in PRODUCERS:
                if producer_id % PARTITIONS == partition:
                    mine = [payload for payload in read if payload.startswith(f"{producer_id}:".encode())]
                    wanted = self.acknowledged[producer_id]
                    assert mine[: len(wanted)] == wanted
                    assert len(mine) <= len(wanted) + 1, "one batch at most was written and not acknowledged"
            logs = [self.whole_log(number, partition) for number in self.cluster.brokers]
            assert logs[0] == logs[1] == logs[2]


def plan_for(random: Random, flush: str) -> FaultPlan:
    """A power cut may take what a `replicated` topic has in memory, so there only processes die."""
    plan = FaultPlan.draw(random)
    return plan if flush == "fsync" else plan.without("crash_every_ms", "sync_error", "append_error")


@pytest.mark.parametrize("flush", ["replicated", "fsync"])
@pytest.mark.parametrize("seed", [5, 76])
def test_nothing_acknowledged_is_lost_and_replicas_become_identical(seed: int, flush: str) -> None:
    random = Random(f"replication:{seed}:{flush}")
    plan = plan_for(random, flush)
    with SimWorld(f"replication:{seed}:{flush}", plan.calm()) as world:
        run = Run(Cluster(world))

        async def scenario() -> None:
            run.topic_id = await run.cluster.create(
                "t", PARTITIONS, **{"min.insync.replicas": "2", "flush.mode": flush}
            )
            world.set_plan(plan)
            driver = FaultDriver(world, plan, random, max_down=random.choice([1, 3]))
            driver.start()
            producers = [world.spawn(run.producer(producer_id)) for producer_id in PRODUCERS]
            await asyncio.sleep(FAULTS_MS / 1000)
            await driver.stop()
            before = {producer_id: len(done) for producer_id, done in run.acknowledged.items()}
            await asyncio.sleep(15)
            for producer in producers:
                if producer.done():
                    producer.result()  # it ends before it is told to only by what it raised
            for producer_id, done in run.acknowledged.items():
                assert len(done) > before[producer_id], f"producer {producer_id} makes no progress after the faults"
            run.stopping = True
            for producer in producers:
                await producer
            await asyncio.sleep(5)
            await run.check()

        world.run(scenario())
