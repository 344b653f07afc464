"""Rot that nobody reads is found, the rotten log is set aside, and its replica is repaired from a healthy one (S32)."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.types import PartitionId
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.sim import SimWorld
from tests.simulation.test_replication_smoke import Cluster, batch

SEGMENT_BYTES = 1 << 10
BATCHES = 40
SCRUB = {"scrub_interval_ms": 2_000, "scrub_bytes_per_s": 1 << 14, "tail_cache_bytes": 1}


def whole(log: PartitionLog) -> bytes:
    """Every byte of a log."""
    from oncelog.core.batch.header import span_of

    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        chunk = bytes(log.read(offset, 1 << 20, log.log_end_offset))
        data, offset = data + chunk, span_of(chunk)[1]
    return data


async def filled(cluster: Cluster, flush: str) -> tuple[str, list[bytes]]:
    topic_id = await cluster.create(
        "t", **{"segment.bytes": str(SEGMENT_BYTES), "flush.mode": flush, "retention.ms": "-1"}
    )
    payloads = [f"{i:04d}".encode() * 20 for i in range(BATCHES)]
    for i, payload in enumerate(payloads):
        await cluster.produce("t", topic_id, batch(topic_id, payload, 0, 10, i))
    return topic_id, payloads


def rot(cluster: Cluster, number: int, topic_id: str) -> None:
    """A bit of the first, long closed segment."""
    cluster.world.nodes[cluster.names[number]].disk.flip_bit(f"logs/t-{topic_id}-0/{0:020d}.log", 300, 3)


async def repaired(cluster: Cluster, number: int, topic_id: str, of: PartitionLog) -> None:
    """The rotten log is another one now, and in the ISR again."""
    where = PartitionId(topic_id, 0)
    async with asyncio.timeout(60):
        while True:
            await asyncio.sleep(0.2)
            here = cluster.brokers[number].replicas.partitions.get(where)
            reply = await cluster.metadata("t")
            isr = {ref.broker_id for ref in reply.topics[0].partitions[0].isr}
            if here is not None and here.log is not of and here.failed is None and len(isr) == 3:
                return


@pytest.mark.parametrize("flush", ["replicated", "fsync"])
@pytest.mark.parametrize("of_leader", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_unread_rot_is_found_and_repaired(seed: int, of_leader: bool, flush: str) -> None:
    with SimWorld(f"scrub:{seed}:{of_leader}:{flush}") as world:
        cluster = Cluster(world, **SCRUB)

        async def scenario() -> None:
            topic_id, payloads = await filled(cluster, flush)
            await asyncio.sleep(1)
            leader = await cluster.leader("t")
            number = leader if of_leader else (leader + 1) % 3
            rotten = cluster.brokers[number].replicas.partitions[PartitionId(topic_id, 0)].log
            rot(cluster, number, topic_id)
            await repaired(cluster, number, topic_id, rotten)
            logs = [
                whole(broker.replicas.partitions[PartitionId(topic_id, 0)].log) for broker in cluster.brokers.values()
            ]
            assert logs[0] == logs[1] == logs[2]
            assert await cluster.read_all("t", topic_id) == payloads
            asides = [name for name in world.nodes[cluster.names[number]].disk.list("logs") if "quarantined" in name]
            assert asides == [], "the rotten files are removed once the replica is in the ISR again"

        world.run(scenario())


def test_the_only_copy_is_kept_and_refused_not_served_in_part() -> None:
    with SimWorld("scrub:alone") as world:
        cluster = Cluster(world, brokers=1, min_insync_replicas=1, **SCRUB)

        async def scenario() -> None:
            topic_id, _ = await filled(cluster, "replicated")
            rot(cluster, 0, topic_id)
            await asyncio.sleep(20)
            asides = [name for name in world.nodes["b0"].disk.list("logs") if "quarantined" in name]
            assert len(asides) == 1, "the rotten log is kept for whoever can still read a part of it"
            reply = await cluster.metadata("t")
            assert not reply.topics[0].partitions[0].HasField("leader"), "an empty log must not pass for the topic"

        world.run(scenario())


def test_it_is_slow_and_it_rests() -> None:
    with SimWorld("scrub:pace") as world:
        cluster = Cluster(world, brokers=1, min_insync_replicas=1, scrub_interval_ms=60_000, scrub_bytes_per_s=1_500)

        async def scenario() -> None:
            await filled(cluster, "replicated")
            scrubber = cluster.brokers[0].scrubber
            assert scrubber.passes == 1, "the first one, before there was anything"
            await asyncio.sleep(52)
            assert scrubber.bytes_read == 0, "a second pass begins only after the interval"
            began, most = world.loop.time() + 5, 0
            for _ in range(30):
                await asyncio.sleep(1)
                most = max(most, scrubber.bytes_read - 1_500 * max(0, int(world.loop.time() - began)))
            assert most <= 2 * SEGMENT_BYTES, "it reads ahead of its pace by a piece at most"
            assert scrubber.passes == 2
            total = scrubber.bytes_read
            assert total > 4 * SEGMENT_BYTES
            await asyncio.sleep(20)
            assert scrubber.bytes_read == total

        world.run(scenario())
