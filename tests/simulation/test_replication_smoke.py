"""Three brokers in simulation: what was acknowledged outlives its leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oncelog.core.batch.batch import decode_batch, encode_batch
from oncelog.core.batch.header import NO_PRODUCER_ID, NO_SEQUENCE, read_header
from oncelog.errors import OncelogError
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.config import BrokerConfig
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.sim import SimWorld


class Cluster:
    """Brokers `b0` ... and a client that asks them by hand."""

    def __init__(self, world: SimWorld, brokers: int = 3, **options: int) -> None:
        self.world = world
        self.options: dict[str, int] = {"replica_lag_time_max_ms": 3_000, **options}
        self.brokers: dict[int, Broker] = {}
        self.transport = world.client()
        self.names = [f"b{number}" for number in range(brokers)]
        for number, name in enumerate(self.names):
            world.node(name, self._main(number, brokers))

    def _main(self, number: int, brokers: int) -> Callable[[NodePorts], Awaitable[object]]:
        async def main(ports: NodePorts) -> None:
            config = BrokerConfig(
                node_id=number,
                transaction_shards=2,
                group_shards=2,
                internal_topic_replication_factor=brokers,
                **self.options,  # type: ignore[arg-type]
            )
            self.brokers[number] = broker = Broker(config, ports)
            await broker.start()

        return main

    def address(self, number: int) -> str:
        return self.world.nodes[self.names[number]].address

    async def call(self, number: int, spec, request, payload: bytes = b"", timeout_ms: int = 5_000):  # type: ignore[no-untyped-def]
        return await spec.call(self.transport, self.address(number), request, timeout_ms, payload)

    async def metadata(self, topic: str) -> pb.GetMetadataReply:
        """A broker that has just started has not read it yet: asked again, as clients do."""
        deadline = self.world.loop.time() + 20
        while self.world.loop.time() < deadline:
            for number in range(len(self.names)):
                try:
                    reply, _ = await self.call(number, methods.GET_METADATA, pb.GetMetadataRequest(topics=[topic]))
                    return reply
                except OncelogError:
                    await asyncio.sleep(0.02)
        raise AssertionError("no broker answers")

    async def retry(self, attempt: Callable[[], Awaitable[object]], within_ms: int = 20_000):  # type: ignore[no-untyped-def]
        """Until it works; a refusal is tried again."""
        deadline = self.world.loop.time() + within_ms / 1000
        while True:
            try:
                return await attempt()
            except OncelogError as error:
                if self.world.loop.time() >= deadline:
                    raise AssertionError(f"still {error!r}") from error
                await asyncio.sleep(0.02)

    async def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        request = pb.CreateTopicRequest(
            topic=topic,
            partitions=partitions,
            replication_factor=min(3, len(self.names)),
            config=[pb.ConfigEntry(name=name, value=value) for name, value in config.items()],
            timeout_ms=5_000,
            if_not_exists=True,
        )

        async def attempt() -> str:
            last: OncelogError | None = None
            for number in range(len(self.names)):
                try:
                    reply, _ = await self.call(number, methods.CREATE_TOPIC, request)
                    return str(reply.topic_id)
                except OncelogError as error:
                    last = error
            assert last is not None
            raise last

        return str(await self.retry(attempt))

    async def leader(self, topic: str, partition: int = 0) -> int:
        async def attempt() -> int:
            reply = await self.metadata(topic)
            if partition >= len(reply.topics[0].partitions):
                raise OncelogError("that broker has not heard of the topic yet")
            info = reply.topics[0].partitions[partition]
            if not info.HasField("leader"):
                raise OncelogError("no leader yet")
            return int(info.leader.broker_id)

        return int(await self.retry(attempt))

    async def produce(self, topic: str, topic_id: str, data: bytes, partition: int = 0) -> int:
        """The base offset; tries until some leader takes it."""

        async def attempt() -> int:
            number = await self.leader(topic, partition)
            item = pb.ProducePartition(topic_id=topic_id, partition=partition, length=len(data))
            request = pb.ProduceRequest(acks=-1, timeout_ms=2_000, partitions=[item])
            reply, _ = await self.call(number, methods.PRODUCE, request, data)
            answer = reply.partitions[0]
            if answer.HasField("error"):
                raise OncelogError(answer.error.message)
            return int(answer.base_offset)

        return int(await self.retry(attempt))

    async def read_all(self, topic: str, topic_id: str, partition: int = 0) -> list[bytes]:
        """Values below the high watermark, in order."""
        values: list[bytes] = []
        offset = 0
        while True:

            async def attempt(offset: int = offset) -> tuple[pb.FetchReply, bytes]:
                number = await self.leader(topic, partition)
                item = pb.FetchPartition(topic_id=topic_id, partition=partition, fetch_offset=offset, leader_epoch=-1)
                request = pb.FetchRequest(
                    isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED,
                    max_wait_ms=300,
                    min_bytes=1,
                    partitions=[item],
                )
                reply, data = await self.call(number, methods.FETCH, request)
                if reply.partitions[0].HasField("error"):
                    raise OncelogError(reply.partitions[0].error.message)
                return reply, bytes(data)

            reply, data = await self.retry(attempt)
            position = 0
            while position < len(data):
                header = read_header(data, position)
                whole = bytes(data[position : position + header.batch_length])
                values.append(decode_batch(whole, header)[0].value or b"")
                position += header.batch_length
            if not data:
                return values
            offset = reply.partitions[0].next_offset


def batch(
    topic_id: str, value: bytes, partition: int = 0, producer_id: int = NO_PRODUCER_ID, sequence: int = -1
) -> bytes:
    """A batch of one record."""
    plain = producer_id < 0
    return encode_batch(
        [None],
        [value],
        timestamps_ms=[1_000],
        topic_id=topic_id,
        partition=partition,
        producer_id=producer_id,
        producer_epoch=-1 if plain else 0,
        base_sequence=NO_SEQUENCE if plain else sequence,
    )


@pytest.mark.parametrize("flush", ["replicated", "fsync"])
def test_what_was_acknowledged_outlives_its_leader(flush: str) -> None:
    with SimWorld(seed=f"smoke-{flush}") as world:
        cluster = Cluster(world)

        async def scenario() -> tuple[list[bytes], list[bytes]]:
            topic_id = await cluster.create("t", **{"min.insync.replicas": "2", "flush.mode": flush})
            sent = []
            for number in range(20):
                payload = f"a{number}".encode().ljust(16)
                assert await cluster.produce("t", topic_id, batch(topic_id, payload, 0, 7, number)) == number
                sent.append(payload)
            first = await cluster.leader("t")
            world.nodes[cluster.names[first]].kill()
            started = world.loop.time()
            for number in range(20, 40):
                payload = f"a{number}".encode().ljust(16)
                await cluster.produce("t", topic_id, batch(topic_id, payload, 0, 7, number))
                if number == 20:
                    assert world.loop.time() - started < 1.0, "fail-over takes less than a second"
                sent.append(payload)
            assert await cluster.leader("t") != first
            return sent, await cluster.read_all("t", topic_id)

        sent, read = world.run(scenario())
        assert read == sent


def test_a_power_cut_of_everybody_loses_nothing_of_an_fsync_topic() -> None:
    with SimWorld(seed="power-cut") as world:
        cluster = Cluster(world)

        async def scenario() -> tuple[list[bytes], list[bytes]]:
            topic_id = await cluster.create("t", **{"min.insync.replicas": "2", "flush.mode": "fsync"})
            sent = []
            for number in range(10):
                payload = f"a{number}".encode().ljust(16)
                await cluster.produce("t", topic_id, batch(topic_id, payload, 0, 7, number))
                sent.append(payload)
            for name in cluster.names:
                world.nodes[name].crash(silent=True)
            await asyncio.sleep(5)
            for name in cluster.names:
                world.nodes[name].restart()
            await cluster.produce("t", topic_id, batch(topic_id, b"after".ljust(16), 0, 7, 10))
            return [*sent, b"after".ljust(16)], await cluster.read_all("t", topic_id)

        sent, read = world.run(scenario())
        assert read == sent
