"""A leader that runs, and is cut off from all others but not from some workers: records that it gives them may have been
acknowledged at another leader meanwhile (`partition/channels/doubts.py`, rule 2).
"""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.channel_judge import Delivery, Judge
from tests.simulation.cluster import SimCluster

TOPIC = "tasks"
CHANNEL = "work"
COUNT = 30
OTHERS = ("broker-0", "broker-1", "broker-2", "coordinator-0", "coordinator-1")


async def hang(client: Client, judge: Judge, over: asyncio.Event) -> None:
    """Takes what comes, and says nothing about it: it comes again and again."""
    async with client.worker(TOPIC, channel=CHANNEL, max_in_flight=5) as worker:
        while not over.is_set():
            for message in await worker.getmany(timeout_ms=200):
                judge.handed_out("near", Delivery.of(message))


async def acknowledge_all(client: Client, judge: Judge) -> None:
    """Takes all that comes, and acknowledges it, until every record is done."""
    async with client.worker(TOPIC, channel=CHANNEL, max_in_flight=100) as worker:
        while len(judge.acknowledged_s) < COUNT:
            for message in await worker.getmany(timeout_ms=200):
                delivery = Delivery.of(message)
                judge.handed_out("far", delivery)
                try:
                    await message.ack()
                except errors.OncelogError:
                    continue
                judge.acknowledged("far", delivery)


@pytest.mark.parametrize("seed", range(4))
def test_an_isolated_leader_gives_nothing_that_was_acknowledged_elsewhere(seed: int) -> None:
    isolated(seed, from_etcd=True)


@pytest.mark.parametrize("seed", range(2))
def test_nor_does_one_that_lost_etcd_alone(seed: int) -> None:
    """Its registration runs out, and the brokers that it reaches do not tell it."""
    isolated(seed, from_etcd=True, from_others=False)


@pytest.mark.parametrize("seed", range(2))
def test_nor_does_one_that_etcd_tells_late(seed: int) -> None:
    """It is held for dead, and its registration is renewed all the while."""
    isolated(seed, from_etcd=False)


def isolated(seed: int, *, from_etcd: bool, from_others: bool = True) -> None:
    """Cuts the leader off, has all records acknowledged at the next one, and looks what its worker is given."""
    judge = Judge()

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        network, etcd = cluster.world.network, cluster.world.metadata
        async with (
            cluster.client("writer") as writer,
            cluster.client("near", request_timeout_ms=700) as near,
            cluster.client("far", request_timeout_ms=700) as far,
        ):
            await writer.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
            await writer.admin.create_channel(TOPIC, CHANNEL, ack_wait_ms=1_000)
            async with writer.producer() as producer:
                for value in range(COUNT):
                    await producer.send_and_wait(TOPIC, b"%d" % value)
            over = asyncio.Event()
            taking = asyncio.ensure_future(hang(near, judge, over))
            await asyncio.sleep(2)
            (found,) = (await writer.admin.describe_topic(TOPIC)).partitions
            alone = f"broker-{found.leader}"
            others = [*(name for name in OTHERS if name != alone), "far", "writer"]
            network.partition([alone, "near"] if from_others else ["near"], others)
            if from_etcd:
                etcd.cut(alone)
            async with asyncio.timeout(120):
                await acknowledge_all(far, judge)
            await asyncio.sleep(10)
            over.set()
            network.heal()
            etcd.heal()
            await taking

    with SimCluster(f"channel-isolation-{seed}") as cluster:
        cluster.world.loop.run(main(cluster))
    assert not judge.anomalies, judge.anomalies[:5]
    assert len(judge.acknowledged_s) == COUNT
