"""Channels in a whole simulated cluster: what was acknowledged never comes again, nothing is lost, each record has one owner.

The faults are kills, pauses and a bad network, on one channel alone. What else may happen to machines is in the random runs
(`channel_work.py`).
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.work.worker import Worker
from oncelog_runtime.sim.faults import FaultPlan
from tests.simulation.channel_judge import ACK_WAIT_MS, Delivery, Judge, now_s, settle
from tests.simulation.cluster import SimCluster
from tests.simulation.test_sdk import BAD_NETWORK

TOPIC = "tasks"
OUTPUT = "done"
LETTERS = "letters"
PARTITIONS = 2


async def work(client: Client, judge: Judge, random: Random, name: str, over: asyncio.Event) -> None:
    """A worker that does everything that workers do; it leaves and begins again now and then."""
    while not over.is_set():
        try:
            async with client.worker(
                TOPIC, channel="work", max_in_flight=random.choice([1, 3, 20]), ack_wait_ms=ACK_WAIT_MS
            ) as worker:
                try:
                    await work_for_a_while(worker, judge, random, name, over)
                finally:
                    judge.leaves(name)
        except errors.OncelogError as error:
            if not (error.retriable or isinstance(error, errors.NotOwnerError)):
                raise


async def work_for_a_while(worker: Worker, judge: Judge, random: Random, name: str, over: asyncio.Event) -> None:
    ends_s = now_s() + 2 + 10 * random.random()
    while now_s() < ends_s and not over.is_set():
        messages = await worker.getmany(timeout_ms=300)
        for message in messages:
            judge.handed_out(name, Delivery.of(message))
        for message in messages:
            await settle(message, judge, random, name)


async def feed(client: Client, judge: Judge, random: Random, count: int) -> None:
    async with client.producer(delivery_timeout_ms=20_000) as producer:
        for begin in range(0, count, 10):
            waiting = [
                (value, await producer.send(TOPIC, b"%d" % value, key=b"%d" % (value % 5)))
                for value in range(begin, begin + 10)
            ]
            for value, delivery in waiting:
                try:
                    await delivery
                    judge.written.add(value)
                except errors.OncelogError:
                    judge.perhaps_written.add(value)
            await asyncio.sleep(random.random() * 0.5)


async def until_there_is_something_to_judge(judge: Judge) -> None:
    """Faults and work go on until a rejection was answered and a record came again, for two minutes at most.

    An ordered channel moves slowly through faults, so a fixed time sees no rejection in some seeds.
    """
    for _ in range(120):
        if judge.dead and any(times > 1 for times in judge.delivered.values()):
            return
        await asyncio.sleep(1)


async def harm(cluster: SimCluster, random: Random, over: asyncio.Event) -> None:
    """Kills processes one after the other, each for a moment."""
    names = ["broker-0", "broker-1", "broker-2", "coordinator-0", "coordinator-1"]
    while not over.is_set():
        await asyncio.sleep(1 + 4 * random.random())
        node = cluster.node(random.choice(names))
        if node.is_up and random.random() < 0.3:
            node.pause(random.choice([500.0, 1_050.0, 6_000.0]))
        elif node.is_up:
            node.kill()
            await asyncio.sleep(random.random() * 3)
            node.restart()


async def drain(client: Client, judge: Judge) -> None:
    """One patient worker does the rest; returns when nothing has come for long."""
    async with client.worker(TOPIC, channel="work", max_in_flight=100, ack_wait_ms=ACK_WAIT_MS) as worker:
        quiet = 0
        while quiet < 12:
            messages = await worker.getmany(timeout_ms=1_000)
            quiet = 0 if messages else quiet + 1
            for message in messages:
                judge.handed_out("last", Delivery.of(message))
            acks = await asyncio.gather(*(message.ack() for message in messages), return_exceptions=True)
            for message, error in zip(messages, acks, strict=True):
                if error is None:
                    judge.acknowledged("last", Delivery.of(message))
                else:  # its partition went to its preferred leader meanwhile: it comes again
                    assert isinstance(error, errors.NotOwnerError)


async def read_letters(client: Client, judge: Judge) -> None:
    async with client.consumer(LETTERS, auto_offset_reset="earliest") as consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(p) < end for p, end in ends.items()]):
            judge.letters.update(int(record.value) for record in await consumer.getmany(timeout_ms=1_000))


@pytest.mark.parametrize("seed", range(6))
def test_nothing_acknowledged_or_rejected_comes_again_and_nothing_is_lost(seed: int) -> None:
    work_through_faults(seed, Judge())


@pytest.mark.parametrize("seed", range(6, 10))
def test_no_record_comes_after_a_later_one_of_its_key(seed: int) -> None:
    work_through_faults(seed, Judge(is_ordered=True))


def work_through_faults(seed: int, judge: Judge) -> None:
    """Workers, and everything that goes wrong for them; the judge has nothing to say in the end."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        random = cluster.world.random("channels")
        async with cluster.client("writer", request_timeout_ms=700) as client:
            for topic in (TOPIC, LETTERS):
                await client.admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
            await client.admin.create_channel(
                TOPIC, "work", ack_wait_ms=ACK_WAIT_MS, order_by_key=judge.is_ordered, dead_letter_topic=LETTERS
            )
            cluster.world.set_plan(BAD_NETWORK)
            over = asyncio.Event()
            async with cluster.client("worker-a", request_timeout_ms=700) as one, cluster.client("worker-b") as other:
                tasks = [asyncio.ensure_future(harm(cluster, random, over))]
                tasks += [
                    asyncio.ensure_future(work(who, judge, Random(f"{seed}/{n}"), f"w{n}", over))
                    for n, who in enumerate((one, one, other))
                ]
                await feed(client, judge, random, 200)
                await asyncio.sleep(15)
                await until_there_is_something_to_judge(judge)
                over.set()
                await asyncio.gather(*tasks)
            cluster.world.set_plan(FaultPlan())
            cluster.world.heal()
            await cluster.healthy()
            await drain(client, judge)
            described = await client.admin.describe_channel(TOPIC, "work")
            assert all(one.depth == 0 for one in described.partitions)
            await read_letters(client, judge)

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))
    assert not judge.anomalies, judge.anomalies[:5]
    lost = judge.written - set(judge.acknowledged_s) - judge.letters
    assert not lost, f"lost: {sorted(lost)[:10]}"
    assert judge.dead <= judge.letters, "a rejection is answered when its letter is written"
    assert judge.dead, "some were rejected"
    assert any(times > 1 for times in judge.delivered.values()), "something had to come again"
    assert len(judge.written) > 100


async def transact(client: Client, random: Random, name: str, over: asyncio.Event) -> None:
    """A worker whose outputs are committed with its acknowledgements."""
    while not over.is_set():
        try:
            async with (
                client.producer(transactional_id=f"channel-{name}", transaction_timeout_ms=3_000) as producer,
                client.worker(TOPIC, channel="work", max_in_flight=10, ack_wait_ms=ACK_WAIT_MS) as worker,
            ):
                ends_s = now_s() + 2 + 10 * random.random()
                while now_s() < ends_s and not over.is_set():
                    messages = await worker.getmany(timeout_ms=300)
                    if messages:
                        await one_transaction(producer, messages, random)
        except errors.OncelogError:
            await asyncio.sleep(0.1)


async def one_transaction(producer: Any, messages: list[Any], random: Random) -> None:
    try:
        async with producer.transaction() as txn:
            for message in messages:
                await txn.send(OUTPUT, message.value)
            await txn.ack(messages)
            if random.random() < 0.2:
                await txn.abort()
    except errors.OncelogError as error:
        if error.fatal or isinstance(error, errors.CommitOutcomeUnknownError):
            raise


@pytest.mark.parametrize("seed", range(6))
def test_with_acknowledgements_in_transactions_each_output_is_there_once(seed: int) -> None:
    judge = Judge()
    found: list[int] = []

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        random = cluster.world.random("channels")
        async with cluster.client("writer", request_timeout_ms=700) as client:
            for topic in (TOPIC, OUTPUT):
                await client.admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
            await client.admin.create_channel(TOPIC, "work", ack_wait_ms=ACK_WAIT_MS)
            cluster.world.set_plan(BAD_NETWORK)
            over, last = asyncio.Event(), asyncio.Event()
            async with cluster.client("worker-a", request_timeout_ms=700) as one, cluster.client("worker-b") as other:
                tasks = [asyncio.ensure_future(harm(cluster, random, over))]
                tasks += [
                    asyncio.ensure_future(transact(who, Random(f"{seed}/{n}"), f"w{n}", last))
                    for n, who in enumerate((one, other))
                ]
                await feed(client, judge, random, 120)
                await asyncio.sleep(10)
                over.set()
                await tasks[0]
                cluster.world.set_plan(FaultPlan())
                cluster.world.heal()
                await cluster.healthy()
                await asyncio.sleep(60)  # what is left comes again, and is done
                last.set()
                await asyncio.gather(*tasks)
            async with client.consumer(OUTPUT, auto_offset_reset="earliest") as consumer:
                ends = await consumer.end_offsets(consumer.assignment())
                while any([await consumer.position(p) < end for p, end in ends.items()]):
                    found.extend(int(record.value) for record in await consumer.getmany(timeout_ms=1_000))

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))
    assert len(found) == len(set(found)), "an output is there twice"
    assert judge.written <= set(found), f"lost: {sorted(judge.written - set(found))[:10]}"
    assert set(found) <= judge.written | judge.perhaps_written
    assert len(judge.written) > 60
