"""Real brokers in racks: a consumer reads from the follower near it, and goes on when that one is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog import Client
from oncelog.client.consume.consumer import Consumer
from oncelog.types import TopicPartition
from oncelog_cli.laptop.local_cluster import LocalCluster

WHERE = TopicPartition("orders", 0)


@pytest.fixture
def racked(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three brokers, each in a rack of its own: `broker-1` in `rack-1`."""
    cluster = LocalCluster(tmp_path / "cluster", coordinators=1)
    for number in range(3):
        cluster.processes[f"broker-{number}"].command += ["--rack", f"rack-{number}"]
    with cluster as running:
        yield running


def asked(consumer: Consumer) -> tuple[str, bool]:
    """The address that answered last, and whether as a follower."""
    source = consumer._fetcher.cursors[WHERE].source
    return source.answered_by, source.is_follower


async def read(consumer: Consumer, values: list[bytes | None], until: int) -> None:
    async with asyncio.timeout(30):
        while len(values) < until:
            values += [record.value for record in await consumer.getmany(timeout_ms=200)]


def test_a_consumer_reads_from_the_follower_near_it_and_from_the_leader_when_that_dies(racked: LocalCluster) -> None:
    async def work() -> None:
        async with Client(racked.bootstrap_servers) as client:
            await client.admin.create_topic("orders", partitions=1)
            (partition,) = (await client.admin.describe_topic("orders")).partitions
            near = next(number for number in partition.replicas if number != partition.leader)
            values: list[bytes | None] = []
            near_by = client.consumer(client_rack=f"rack-{near}", auto_offset_reset="earliest")
            async with client.producer() as producer, near_by as consumer:
                await consumer.assign([WHERE])
                for number in range(10):
                    await (await producer.send("orders", value=b"%d" % number, partition=0))
                await read(consumer, values, 10)
                assert asked(consumer) == (racked.processes[f"broker-{near}"].address, True)
                racked.processes[f"broker-{near}"].kill()
                for number in range(10, 20):
                    await (await producer.send("orders", value=b"%d" % number, partition=0))
                await read(consumer, values, 20)
                assert asked(consumer) == (racked.processes[f"broker-{partition.leader}"].address, False)
                assert values == [b"%d" % number for number in range(20)]

    asyncio.run(work())
