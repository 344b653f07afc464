"""Delayed records over real processes: not before their time, once, with their transaction, and whoever dies meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import oncelog
from oncelog.errors import InvalidDelayError, NotScheduledError
from oncelog_cli.laptop.local_cluster import LocalCluster

PATIENCE_S = 60.0
BARRIER = b"the last one"


def in_ms(milliseconds: int) -> timedelta:
    """A delay."""
    return timedelta(milliseconds=milliseconds)


def now_ms() -> float:
    """The clock of this machine, as the brokers have it."""
    return time.time() * 1000


async def seen_until_barrier(client: oncelog.Client, topic: str) -> list[tuple[bytes | None, float, int]]:
    """What a consumer gets before the barrier of each partition: (value, when it came, its timestamp)."""
    found: list[tuple[bytes | None, float, int]] = []
    async with client.consumer(topic, auto_offset_reset="earliest") as consumer:
        left = len(consumer.assignment())
        while left:
            for record in await consumer.getmany(timeout_ms=1_000):
                if record.value == BARRIER:
                    left -= 1
                else:
                    found.append((record.value, now_ms(), record.timestamp_ms))
    return found


async def put_barriers(producer: oncelog.Producer, topic: str, partitions: int, delay_ms: int) -> None:
    """In each partition a record that is due later than all others."""
    for partition in range(partitions):
        await (await producer.send(topic, BARRIER, partition=partition, deliver_at=in_ms(delay_ms)))


def test_a_delayed_record_comes_once_and_not_before_its_time(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(3)
    delays = {b"%d" % n: (n * 37) % 1_500 for n in range(60)}

    async def work() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            oncelog.Client(cluster.bootstrap_servers) as client,
            client.producer() as producer,
        ):
            reading = asyncio.ensure_future(seen_until_barrier(client, topic))
            due: dict[bytes, float] = {}
            for value, delay_ms in delays.items():
                due[value] = now_ms() + delay_ms
                await producer.send(topic, value, key=value, deliver_at=in_ms(delay_ms))
            at = datetime.now(UTC) + timedelta(seconds=1)
            due[b"at"] = at.timestamp() * 1000 - 1
            await producer.send(topic, b"at", deliver_at=at)
            await put_barriers(producer, topic, 3, 2_500)
            found = await reading
            assert sorted(value or b"" for value, _, _ in found) == sorted(due), "each once"
            for value, came_ms, timestamp_ms in found:
                assert value is not None
                assert due[value] - 1 <= timestamp_ms <= came_ms
            async with client.worker(topic, channel="later") as worker:
                messages: list[oncelog.ChannelMessage] = []
                while len(messages) < len(due) + 3:
                    messages += await worker.getmany(timeout_ms=1_000)
                assert {message.value for message in messages} == {*due, BARRIER}
            assert [one.waiting for one in await client.admin.describe_delayed(topic)] == [0, 0, 0]

    asyncio.run(work())


def test_in_a_transaction_it_waits_from_the_commit_on_and_not_after_an_abort(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(1)

    async def work() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            oncelog.Client(cluster.bootstrap_servers) as client,
            client.producer(transactional_id=f"{topic}-sender") as producer,
            client.producer() as plain,
        ):
            aborted = await producer.begin_transaction()
            await aborted.send(topic, b"never", deliver_at=in_ms(10))
            await aborted.abort()
            txn = await producer.begin_transaction()
            await (await txn.send(topic, b"committed", deliver_at=in_ms(10)))
            await asyncio.sleep(1)
            assert sum(one.waiting + one.moved for one in await client.admin.describe_delayed(topic)) == 0
            committed_ms = now_ms()
            await txn.commit()
            await put_barriers(plain, topic, 1, 1_500)
            ((value, came_ms, timestamp_ms),) = await seen_until_barrier(client, topic)
            assert value == b"committed"
            assert timestamp_ms < committed_ms <= came_ms

    asyncio.run(work())


def test_what_is_cancelled_never_comes_and_what_waits_is_described(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    with oncelog.SyncClient(cluster.bootstrap_servers) as client, client.producer() as producer:
        assert client.admin.describe_delayed(topic) == []
        with pytest.raises(InvalidDelayError):
            producer.send(topic, b"too late", deliver_at=in_ms(-1))
        begun_ms = now_ms()
        told = [
            producer.send(topic, b"%d" % n, partition=n % 2, deliver_at=in_ms(3_000 + n)).result() for n in range(6)
        ]
        for one in told[:4]:
            client.admin.cancel_delayed(topic, one.partition, one.offset)
        for one in told[:4]:
            with pytest.raises(NotScheduledError):
                client.admin.cancel_delayed(topic, one.partition, one.offset)
        described = client.admin.describe_delayed(topic)
        assert [(one.partition, one.waiting, one.moved, one.cancelled) for one in described] == [
            (0, 1, 0, 2),
            (1, 1, 0, 2),
        ]
        assert all(0 < one.next_due_ms <= begun_ms + 10_000 for one in described)

    async def work() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            oncelog.Client(cluster.bootstrap_servers) as client,
            client.producer() as producer,
        ):
            await put_barriers(producer, topic, 2, 3_500)
            assert sorted(value or b"" for value, _, _ in await seen_until_barrier(client, topic)) == [b"4", b"5"]
            moved = told[5]
            with pytest.raises(NotScheduledError):
                await client.admin.cancel_delayed(topic, moved.partition, moved.offset)

    asyncio.run(work())


def test_a_broker_that_is_killed_while_records_wait_and_move_loses_and_doubles_none(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(3)  # each of the three brokers leads the waiting partition of one

    async def work() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            oncelog.Client(cluster.bootstrap_servers) as client,
            client.producer() as producer,
        ):
            waiting = [
                (n, await producer.send(topic, b"%d" % n, partition=n % 3, deliver_at=in_ms(500 + 10 * n)))
                for n in range(300)
            ]
            told = {n: await delivery for n, delivery in waiting}
            cancelled = list(range(250, 300, 5))
            for n in cancelled:
                await client.admin.cancel_delayed(topic, told[n].partition, told[n].offset)
            await put_barriers(producer, topic, 3, 5_000)
            await asyncio.sleep(1)  # some are moved, and some wait
            cluster.processes["broker-1"].kill()
            found = [value for value, _, _ in await seen_until_barrier(client, topic)]
            assert sorted(int(value or b"-1") for value in found) == sorted(set(range(300)) - set(cancelled))

    try:
        asyncio.run(work())
    finally:
        cluster.restart("broker-1")
        cluster.wait_healthy()
