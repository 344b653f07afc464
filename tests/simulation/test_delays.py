"""Delayed records in a whole simulated cluster: each arrives once, not before its time, whatever dies."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog_runtime.sim.faults import FaultPlan
from tests.simulation.cluster import SimCluster
from tests.simulation.test_sdk import BAD_NETWORK

TOPIC = "later"
PARTITIONS = 2


def in_ms(milliseconds: int) -> timedelta:
    """A delay."""
    return timedelta(milliseconds=milliseconds)


@dataclass(slots=True)
class Said:
    """What was sent: value -> when it is due; and what became of it as far as the SDK said."""

    due_ms: dict[int, int] = field(default_factory=dict)
    written: dict[int, tuple[int, int]] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    cancelled: set[int] = field(default_factory=set)
    perhaps_cancelled: set[int] = field(default_factory=set)


async def seen(client: Client, until: int, found: dict[int, tuple[int, int]], now_ms: Any) -> None:
    """Reads until so many values came; notes for each when it was seen, and its timestamp."""
    async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
        while len(found) < until:
            for record in await consumer.getmany(timeout_ms=500):
                assert int(record.value) not in found, "a record came twice"
                found[int(record.value)] = (now_ms(), record.timestamp_ms)


def test_a_delayed_record_is_seen_at_its_time_and_not_before() -> None:
    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("writer") as client:
            await client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
            found: dict[int, tuple[int, int]] = {}
            now_ms = client._context.clock.now_ms
            reading = asyncio.ensure_future(seen(client, 4, found, now_ms))
            async with client.producer() as producer:
                begin_ms = now_ms()
                for value, delay_ms in enumerate((3_000, 50, 0, 1_000)):
                    await (await producer.send(TOPIC, b"%d" % value, deliver_at=in_ms(delay_ms)))
                waiting = await client.admin.describe_delayed(TOPIC)
                assert sum(one.waiting for one in waiting) >= 2
            await reading
            for value, delay_ms in enumerate((3_000, 50, 0, 1_000)):
                when_ms, due_ms = found[value]
                assert begin_ms + delay_ms <= due_ms <= when_ms
                assert when_ms < due_ms + 400
            assert sum(one.waiting for one in await client.admin.describe_delayed(TOPIC)) == 0

    with SimCluster(3) as cluster:
        cluster.world.loop.run(main(cluster))


def test_a_cancelled_record_is_not_seen() -> None:
    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("writer") as client, client.producer() as producer:
            await client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
            told = [await (await producer.send(TOPIC, b"%d" % n, deliver_at=in_ms(2_000))) for n in range(3)]
            await client.admin.cancel_delayed(TOPIC, 0, told[1].offset)
            found: dict[int, tuple[int, int]] = {}
            await seen(client, 2, found, client._context.clock.now_ms)
            await asyncio.sleep(3)
            async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
                assert [int(record.value) for record in await consumer.getmany(timeout_ms=2_000)] == [0, 2]

    with SimCluster(6) as cluster:
        cluster.world.loop.run(main(cluster))


def test_a_transaction_that_aborts_takes_its_delayed_records_along() -> None:
    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("writer") as client:
            await client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
            async with client.producer(transactional_id="delays") as producer:
                async with producer.transaction() as txn:
                    await txn.send(TOPIC, b"1", deliver_at=in_ms(100))
                    await txn.abort()
                async with producer.transaction() as txn:
                    await txn.send(TOPIC, b"2", deliver_at=in_ms(200))
                    await txn.send(TOPIC, b"3")
            found: dict[int, tuple[int, int]] = {}
            await seen(client, 2, found, client._context.clock.now_ms)
            await asyncio.sleep(3)
            assert sorted(found) == [2, 3]
            async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
                assert {int(r.value) for r in await consumer.getmany(timeout_ms=2_000)} <= {2, 3}

    with SimCluster(4) as cluster:
        cluster.world.loop.run(main(cluster))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_cancelled_beside_a_transaction_or_right_after_its_commit_is_not_seen(seed: int) -> None:
    """An open transaction hides what was written after it, and its own records are hidden until the marker has come."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with (
            cluster.client("writer") as client,
            client.producer(transactional_id="delays") as producer,
            client.producer() as plain,
        ):
            await client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
            async with producer.transaction() as txn:
                inside = await (await txn.send(TOPIC, b"1", deliver_at=in_ms(4_000)))
                beside = await (await plain.send(TOPIC, b"2", deliver_at=in_ms(4_000)))
                cancelling = asyncio.ensure_future(client.admin.cancel_delayed(TOPIC, 0, beside.offset))
                await asyncio.sleep(1)
            await client.admin.cancel_delayed(TOPIC, 0, inside.offset)
            await cancelling
            await (await plain.send(TOPIC, b"3", deliver_at=in_ms(6_000)))
            found: dict[int, tuple[int, int]] = {}
            await seen(client, 1, found, client._context.clock.now_ms)
            assert list(found) == [3]

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))


def test_bad_delays_are_refused_and_change_nothing() -> None:
    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("writer") as client:
            await client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
            async with client.producer() as producer:
                for wrong in (in_ms(-1), timedelta(days=366), 5):
                    with pytest.raises(errors.InvalidDelayError):
                        await producer.send(TOPIC, b"1", deliver_at=wrong)
                with pytest.raises(errors.UnknownTopicError):
                    await producer.send("nobody", b"1", deliver_at=in_ms(1))
                assert await client.admin.describe_delayed(TOPIC) == []
                told = await (await producer.send(TOPIC, b"1", deliver_at=in_ms(60_000)))
                with pytest.raises(errors.NotScheduledError):
                    await client.admin.cancel_delayed(TOPIC, 0, told.offset + 1)
                await client.admin.cancel_delayed(TOPIC, told.partition, told.offset)
                with pytest.raises(errors.NotScheduledError):
                    await client.admin.cancel_delayed(TOPIC, told.partition, told.offset)

    with SimCluster(5) as cluster:
        cluster.world.loop.run(main(cluster))


def test_what_waits_is_told_at_once_after_another_broker_began_to_lead() -> None:
    """Its old leader lives, and says in its answer that it leads no more; the caller knew only that one."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with (
            cluster.client("writer") as client,
            cluster.client("looker") as looker,
            client.producer() as producer,
        ):
            await client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
            await (await producer.send(TOPIC, b"much later", deliver_at=in_ms(3_600_000)))
            assert [one.waiting for one in await looker.admin.describe_delayed(TOPIC)] == [1]
            await cluster.healthy()
            old = await leader_of(client, f"__delayed.{TOPIC}")
            other = next(number for number in range(3) if f"broker-{number}" != old)
            await client.admin.transfer_leadership(f"__delayed.{TOPIC}", 0, other)
            await cluster.healthy()
            assert await leader_of(client, f"__delayed.{TOPIC}") == f"broker-{other}"
            begin_ms = looker._context.now_ms()
            assert [one.waiting for one in await looker.admin.describe_delayed(TOPIC)] == [1]
            assert looker._context.now_ms() - begin_ms < 2_000

    with SimCluster(3) as cluster:
        cluster.world.loop.run(main(cluster))


async def leader_of(client: Client, topic: str) -> str:
    """The node that leads partition 0 of a topic."""
    (found,) = (await client.admin.describe_topic(topic)).partitions
    return f"broker-{found.leader}"


@pytest.mark.parametrize("seed", range(3))
def test_a_leader_that_was_cut_off_does_not_move_again_what_the_next_one_has_moved(seed: int) -> None:
    """It begins the newest session, since it can reach the coordinators; its log knows nothing of what was moved since."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        network, etcd = cluster.world.network, cluster.world.metadata
        async with cluster.client("writer") as client, client.producer() as producer:
            for number in range(20):  # until another broker leads the topic than its waiting topic
                topic = f"later-{number}"
                await client.admin.create_topic(topic, partitions=1, replication_factor=3)
                await (await producer.send(topic, b"soon", deliver_at=in_ms(10)))
                old = await leader_of(client, f"__delayed.{topic}")
                if old != await leader_of(client, topic):
                    break
            await cluster.healthy()
            await (await producer.send(topic, b"once", deliver_at=in_ms(25_000)))
            await asyncio.sleep(1)
            others = [f"broker-{n}" for n in range(3) if f"broker-{n}" != old]
            network.partition([old], others)
            etcd.cut(old)
            await asyncio.sleep(32)  # the record is due, and the next leader has moved it
            network.heal()
            etcd.heal()
            await asyncio.sleep(60)
            await cluster.healthy()
            async with client.consumer(topic, auto_offset_reset="earliest") as consumer:
                found = [record.value for record in await consumer.getmany(timeout_ms=5_000)]
                found += [record.value for record in await consumer.getmany(timeout_ms=1_000)]
            assert sorted(found) == [b"once", b"soon"]

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))


async def send_some(producer: Any, client: Client, said: Said, random: Random, values: range) -> None:
    now_ms = client._context.clock.now_ms
    waiting = []
    for value in values:
        delay_ms = random.choice([0, 100, 2_000, 6_000, 20_000])
        said.due_ms[value] = now_ms() + delay_ms
        try:
            waiting.append((value, await producer.send(TOPIC, b"%d" % value, deliver_at=in_ms(delay_ms))))
        except errors.OncelogError:
            said.refused.add(value)
        if random.random() < 0.3:
            await asyncio.sleep(random.random() * 0.2)
    for value, delivery in waiting:
        try:
            told = await delivery
            said.written[value] = (told.partition, told.offset)
        except errors.OncelogError as error:
            definite = error.context.get("written") == "false" or not isinstance(error, errors.DeliveryTimedOutError)
            (said.refused if definite else said.unknown).add(value)


async def cancel_some(client: Client, said: Said, random: Random, values: range) -> None:
    for value in values:
        partition, offset = said.written.get(value, (0, -1))
        if offset < 0 or random.random() < 0.7:
            continue
        try:
            await client.admin.cancel_delayed(TOPIC, partition, offset)
            said.cancelled.add(value)
        except errors.NotScheduledError:
            said.perhaps_cancelled.add(value)  # a try before this one may have done it
        except errors.OncelogError:
            said.perhaps_cancelled.add(value)


async def kill_now_and_then(cluster: SimCluster, random: Random, until: asyncio.Event) -> None:
    """Kills processes one after the other, each for a moment."""
    while not until.is_set():
        await asyncio.sleep(1 + 4 * random.random())
        node = cluster.node(random.choice(["broker-0", "broker-1", "broker-2", "coordinator-0"]))
        if node.is_up:
            node.kill()
            await asyncio.sleep(random.random() * 3)
            node.restart()


@pytest.mark.parametrize("seed", range(6))
def test_each_record_arrives_once_and_not_before_its_time_whatever_dies(seed: int) -> None:
    said = Said()

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        random = cluster.world.random("delays")
        async with cluster.client("writer", request_timeout_ms=700) as client:
            await client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
            found: dict[int, tuple[int, int]] = {}
            cluster.world.set_plan(BAD_NETWORK)
            over = asyncio.Event()
            killing = asyncio.ensure_future(kill_now_and_then(cluster, random, over))
            async with client.producer(delivery_timeout_ms=20_000) as producer:
                for start in range(0, 160, 20):
                    await send_some(producer, client, said, random, range(start, start + 20))
                    await cancel_some(client, said, random, range(start, start + 20))
            over.set()
            await killing
            cluster.world.set_plan(FaultPlan())
            cluster.world.heal()
            await cluster.healthy()
            await asyncio.sleep(60)
            async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
                ends = await consumer.end_offsets(consumer.assignment())
                while any([await consumer.position(p) < end for p, end in ends.items()]):
                    for record in await consumer.getmany(timeout_ms=1_000):
                        assert int(record.value) not in found, "a record came twice"
                        found[int(record.value)] = (0, record.timestamp_ms)
            assert not said.cancelled & set(found), "a cancelled record came"
            assert set(said.written) - said.cancelled - said.perhaps_cancelled <= set(found), "a record is lost"
            assert not said.refused & set(found)
            assert sum(one.waiting for one in await client.admin.describe_delayed(TOPIC)) == 0

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))
    assert len(said.written) > 60
    assert said.cancelled or said.perhaps_cancelled
