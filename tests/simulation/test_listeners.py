"""A client that comes in by one door finds everything through that door, also while leaders and owners change."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from tests.simulation.cluster import DOORS, SimCluster


async def commit_one(client: Client, transactional_id: str) -> None:
    async with client.producer(transactional_id=transactional_id) as producer, producer.transaction() as txn:
        await txn.send("doors", b"x", partition=0)


async def ports_in_metadata(cluster: SimCluster, port: int) -> set[str]:
    """The ports of all addresses that a broker gives to somebody at this port."""
    request = pb.GetMetadataRequest(all_topics=True)
    transport = cluster.world.client("looker")
    reply, _ = await methods.GET_METADATA.call(transport, f"broker-0:{port}", request, 1_000)
    shards = [*reply.transaction_shards, *reply.group_shards]
    assert len(reply.brokers) == 3
    assert shards
    return {item.address.rpartition(":")[2] for item in [*reply.brokers, *shards]}


def test_every_door_leads_everywhere_and_tells_no_other() -> None:
    with SimCluster("doors", doors=True) as cluster:

        async def run() -> None:
            await cluster.healthy()
            for door, port in {"internal": 9092, **DOORS}.items():
                assert await ports_in_metadata(cluster, port) == {str(port)}
                async with cluster.client(door=door) as client:
                    if door == "internal":
                        await client.admin.create_topic("doors", partitions=1, replication_factor=3)
                    await commit_one(client, f"through-{door}")

        cluster.world.run(run())


def test_clients_at_their_door_go_on_when_a_broker_and_a_coordinator_die() -> None:
    with SimCluster("doors-faults", doors=True) as cluster:

        async def run() -> None:
            await cluster.healthy()
            async with cluster.client(door="external") as client:
                await client.admin.create_topic("doors", partitions=1, replication_factor=3)
                for n in range(6):
                    if n == 2:
                        cluster.node("broker-0").kill()
                    if n == 3:
                        cluster.node("coordinator-0").kill()
                    if n == 4:
                        cluster.world.heal()
                    await commit_one(client, f"id-{n}")
                    await asyncio.sleep(1)

        cluster.world.run(run())


def test_a_client_cannot_speak_to_a_broker_as_a_service() -> None:
    with SimCluster("doors-refused", doors=True) as cluster:

        async def run() -> None:
            await cluster.healthy()
            transport = cluster.world.client("intruder")
            for port in DOORS.values():
                with pytest.raises(errors.ClusterAuthorizationError):
                    await methods.PING.call(transport, f"broker-0:{port}", pb.PingRequest(), 1_000)

        cluster.world.run(run())
