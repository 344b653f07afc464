"""Delayed records and an etcd that was restored from a backup which is older than their waiting topic."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.core.names import waiting_topic
from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata.cluster_keys import Partition, Topic, partition_key, topic_key
from oncelog_runtime.metadata.waiting_topics import is_waiting
from oncelog_runtime.sim import Snapshot
from tests.simulation.cluster import SimCluster
from tests.simulation.test_delays import TOPIC, in_ms, seen

COUNT = 12
BUMPS = pytest.mark.parametrize("bump", [0, 1_000_000])


async def topic_and_backup(cluster: SimCluster, client: Client, partitions: int = 1, replicas: int = 3) -> Snapshot:
    """A topic that nothing waits for, and a backup."""
    await cluster.healthy()
    await client.admin.create_topic(TOPIC, partitions=partitions, replication_factor=replicas)
    await cluster.healthy()
    return cluster.world.metadata.snapshot()


async def story(cluster: SimCluster, client: Client, partitions: int = 3, due_ms: int = 40_000) -> Snapshot:
    """A backup, and the first delayed records of a topic after it. Returns the backup."""
    backup = await topic_and_backup(cluster, client, partitions)
    await send(client, partitions, due_ms)
    await asyncio.sleep(11)  # the pulse goes on, so that the restore is noticed
    return backup


async def send(client: Client, partitions: int, due_ms: int, first: int = 0) -> None:
    """The delayed records, due one after the other."""
    async with client.producer() as producer:
        for value in range(first, first + COUNT):
            due = in_ms(due_ms + value)
            await (await producer.send(TOPIC, b"%d" % value, partition=value % partitions, deliver_at=due))


async def waiting(client: Client) -> int:
    return sum(one.waiting for one in await client.admin.describe_delayed(TOPIC))


@BUMPS
def test_what_waits_is_shown_and_delivered_though_etcd_has_forgotten_the_waiting_topic(bump: int) -> None:
    async def main(cluster: SimCluster) -> None:
        async with cluster.client("writer") as client:
            backup = await story(cluster, client)
            cluster.world.metadata.restore(backup, bump)
            await asyncio.sleep(2)
            assert await waiting(client) == COUNT
            await all_arrive(cluster, client)

    with SimCluster(3) as cluster:
        cluster.world.loop.run(main(cluster))


async def all_arrive(cluster: SimCluster, client: Client, count: int = COUNT) -> None:
    """Each value comes once, in the end."""
    found: dict[int, tuple[int, int]] = {}
    async with asyncio.timeout(200):
        await seen(client, count, found, client._context.clock.now_ms)
    assert sorted(found) == list(range(count))
    await cluster.healthy()


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_the_waiting_topic_is_made_where_its_logs_lie_though_brokers_were_added(seed: int) -> None:
    """With six brokers its replicas would be placed elsewhere than with three, on brokers that hold none of its records."""

    async def main(cluster: SimCluster) -> None:
        async with cluster.client("writer") as client:
            backup = await story(cluster, client)
            for _ in range(3):
                cluster.add_broker()
            await cluster.healthy()
            cluster.world.metadata.restore(backup)
            await all_arrive(cluster, client)
            assert keepers(cluster) == {"broker-0", "broker-1", "broker-2"}

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))


def keepers(cluster: SimCluster) -> set[str]:
    """The brokers that have a replica of the waiting topic."""
    return {
        name for name, broker in cluster.brokers() for p in broker.replicas.partitions.values() if is_waiting(p.topic)
    }


def test_a_broker_that_is_down_is_waited_for_until_it_is_decommissioned() -> None:
    """It may keep what the others lack. Until then nothing is said of what waits, rather than that nothing does."""

    async def main(cluster: SimCluster) -> None:
        async with cluster.client("writer", default_api_timeout_ms=5_000) as client:
            backup = await story(cluster, client, partitions=1, due_ms=120_000)
            keeper = min(keepers(cluster))
            cluster.node(keeper).kill()
            cluster.world.metadata.restore(backup)
            await asyncio.sleep(20)
            with pytest.raises(errors.LeaderNotAvailableError, match="not all brokers have told"):
                await client.admin.describe_delayed(TOPIC)
            async with client.producer(delivery_timeout_ms=3_000) as producer:
                with pytest.raises(errors.OncelogError):
                    await (await producer.send(TOPIC, b"later", deliver_at=in_ms(1)))
            assert leaders(cluster, keeper) == {None}
            await client.admin.decommission([int(keeper.removeprefix("broker-"))])
            await asyncio.sleep(5)
            assert None not in leaders(cluster, keeper)
            cluster.node(keeper).restart()
            await all_arrive(cluster, client)

    with SimCluster(7, brokers=4) as cluster:
        cluster.world.loop.run(main(cluster))


@pytest.mark.parametrize("late_s", [1, 30])
def test_brokers_that_the_backup_does_not_know_are_waited_for(late_s: int) -> None:
    """They were added after it, and alone keep what waits; and they start later than the others, which have seen them."""

    async def main(cluster: SimCluster) -> None:
        async with cluster.client("writer") as client:
            backup = await topic_and_backup(cluster, client)
            added = [cluster.add_broker() for _ in range(3)]
            await cluster.healthy()
            await send(client, 1, 120_000)
            replicas = [int(name.removeprefix("broker-")) for name in added]
            assert not await client.admin.reassign_partitions({(waiting_topic(TOPIC), 0): replicas})
            await asyncio.sleep(11)
            assert keepers(cluster) == set(added)
            names = [name for name, _ in cluster.brokers()]
            for name in names:
                cluster.node(name).kill()
            cluster.world.metadata.restore(backup, 1_000_000)
            for name in names[:3]:
                cluster.node(name).restart()
            await asyncio.sleep(late_s)
            for name in added:
                cluster.node(name).restart()
            await all_arrive(cluster, client)

    with SimCluster(11) as cluster:
        cluster.world.loop.run(main(cluster))


def leaders(cluster: SimCluster, without: str) -> set[BrokerRef | None]:
    """The leaders of the waiting topic's partitions, as another broker sees them; None = there is none."""
    view = next(broker.view for name, broker in cluster.brokers() if name != without)
    topic = view.topics[waiting_topic(TOPIC)].value
    known = (view.partitions.get(PartitionId(topic.topic_id, number)) for number in range(topic.partitions))
    return {entry.value.leader if entry is not None else None for entry in known}


def test_a_topic_without_delayed_records_has_none_after_a_restore() -> None:
    """And its first one after that makes its waiting topic, without a broker that is down by then."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("writer", default_api_timeout_ms=5_000) as client:
            await client.admin.create_topic(TOPIC, partitions=2, replication_factor=3)
            await cluster.healthy()
            backup = cluster.world.metadata.snapshot()
            await asyncio.sleep(11)
            cluster.world.metadata.restore(backup)
            await asyncio.sleep(15)
            assert await client.admin.describe_delayed(TOPIC) == []
            cluster.node("broker-3").kill()
            await asyncio.sleep(15)
            async with client.producer() as producer:
                await (await producer.send(TOPIC, b"0", deliver_at=in_ms(5_000)))
            assert await waiting(client) == 1
            await seen(client, 1, {}, client._context.clock.now_ms)

    with SimCluster(8, brokers=4) as cluster:
        cluster.world.loop.run(main(cluster))


@BUMPS
@pytest.mark.parametrize("age_s", [1, 5])
def test_a_backup_of_a_moment_ago_is_noticed_by_the_topic_that_it_lacks(age_s: int, bump: int) -> None:
    """No pulse has passed, and a revision that was bumped is above all that were seen."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("writer") as client:
            await client.admin.create_topic(TOPIC, partitions=3, replication_factor=3)
            await cluster.healthy()
            await asyncio.sleep(12)
            backup = cluster.world.metadata.snapshot()
            await send(client, 3, 40_000)
            await asyncio.sleep(age_s)
            cluster.world.metadata.restore(backup, bump)
            await asyncio.sleep(15)
            assert await waiting(client) == COUNT
            await all_arrive(cluster, client)

    with SimCluster(3) as cluster:
        cluster.world.loop.run(main(cluster))


@pytest.mark.parametrize("seed", [11, 12])
def test_logs_that_the_waiting_topic_was_moved_away_from_do_not_stand_for_its_newest_ones(seed: int) -> None:
    """etcd is lost before the brokers that are to leave could confirm it, so these keep their logs; the others start late."""

    async def main(cluster: SimCluster) -> None:
        async with cluster.client("writer") as client:
            backup = await topic_and_backup(cluster, client)
            await send(client, 1, 120_000)
            old = sorted(int(name.removeprefix("broker-")) for name in keepers(cluster))
            target = sorted({*range(6)} - {*old})
            assert not await client.admin.reassign_partitions({(waiting_topic(TOPIC), 0): target})
            async with asyncio.timeout(60):
                while sorted(replicas(cluster)) != target:  # noqa: ASYNC110 - etcd is cut in this moment
                    await asyncio.sleep(0.0005)
            for number in old:
                cluster.world.metadata.cut(f"broker-{number}")
            await asyncio.sleep(5)
            await send(client, 1, 120_000, first=COUNT)
            await asyncio.sleep(11)
            for number in target:
                cluster.node(f"broker-{number}").kill()
            cluster.world.metadata.restore(backup, 1_000_000)
            cluster.world.metadata.heal()
            await asyncio.sleep(6)
            for number in target:
                cluster.node(f"broker-{number}").restart()
            await all_arrive(cluster, client, 2 * COUNT)

    with SimCluster(seed, brokers=6, replica_balance_enabled=False) as cluster:
        cluster.world.loop.run(main(cluster))


def replicas(cluster: SimCluster) -> tuple[int, ...]:
    """The replicas of the waiting topic's first partition, as etcd has them."""
    store = cluster.world.metadata
    topic = store.get(topic_key(waiting_topic(TOPIC)))
    assert topic is not None
    partition = store.get(partition_key(Topic.decode(topic.value).topic_id, 0))
    return Partition.decode(partition.value).replicas if partition is not None else ()


def test_a_broker_that_was_decommissioned_by_mistake_and_put_back_is_waited_for() -> None:
    """It was added after the backup, alone keeps what waits, and is down all the time."""

    async def main(cluster: SimCluster) -> None:
        async with cluster.client("writer", default_api_timeout_ms=5_000) as client:
            backup = await topic_and_backup(cluster, client, replicas=1)
            added = cluster.add_broker()
            number = int(added.removeprefix("broker-"))
            await cluster.healthy()
            await send(client, 1, 120_000)
            assert not await client.admin.reassign_partitions({(waiting_topic(TOPIC), 0): [number]})
            await asyncio.sleep(11)
            cluster.node(added).kill()
            await asyncio.sleep(5)
            await client.admin.decommission([number])
            await asyncio.sleep(1)
            await client.admin.recommission([number])
            await asyncio.sleep(11)
            cluster.world.metadata.restore(backup, 1_000_000)
            await asyncio.sleep(15)
            with pytest.raises(errors.LeaderNotAvailableError, match="not all brokers have told"):
                await client.admin.describe_delayed(TOPIC)
            cluster.node(added).restart()
            await all_arrive(cluster, client)

    with SimCluster(7, replica_balance_enabled=False) as cluster:
        cluster.world.loop.run(main(cluster))
