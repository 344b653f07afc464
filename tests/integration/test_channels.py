"""Channels over real processes: workers share records, give them back, acknowledge in transactions, and outlive a broker."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable

import oncelog
from oncelog.errors import NotOwnerError
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.shell import Shell

CHANNEL = "billing"
PATIENCE_S = 60.0


def test_workers_share_the_records_and_each_is_settled_once(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(6)
    seen: Counter[bytes | None] = Counter()

    async def worker(client: oncelog.Client) -> None:
        async with client.worker(topic, channel=CHANNEL, max_in_flight=20) as own:
            while seen.total() < 300:
                messages = await own.getmany(timeout_ms=500)
                await own.ack(messages)
                seen.update(message.value for message in messages)

    async def work() -> None:
        async with oncelog.Client(cluster.bootstrap_servers) as client:
            async with client.producer() as producer:
                await producer.send_many(topic, [b"%d" % i for i in range(300)])
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(worker(client) for _ in range(3)))
            found = await client.admin.describe_channel(topic, CHANNEL)
            assert (found.total("depth"), found.total("in_flight"), found.total("redelivered")) == (0, 0, 0)
            assert found.total("acknowledged") == 300

    asyncio.run(work())
    assert seen == Counter(b"%d" % i for i in range(300))


def test_what_is_given_back_comes_after_its_delay_and_what_is_forgotten_after_its_time(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic, dead = new_topic(1), new_topic(1)

    async def work() -> None:
        async with oncelog.Client(cluster.bootstrap_servers) as client:
            async with client.producer() as producer:
                await producer.send_many(topic, [b"back", b"late", b"bad", b"gone"])
                await producer.send_and_wait(topic, b"short", ttl_ms=1)
            async with (
                asyncio.timeout(PATIENCE_S),
                client.worker(topic, channel=CHANNEL, ack_wait_ms=2_000, dead_letter_topic=dead) as worker,
            ):
                first = {message.value: message for message in await received(worker, 4)}
                begun = time.monotonic()
                await first[b"back"].nack(delay_ms=800)
                await first[b"bad"].reject("no customer")
                await first[b"gone"].ack()
                again = {message.value: message for message in await received(worker, 2)}
                assert {value: message.deliveries for value, message in again.items()} == {b"back": 2, b"late": 2}
                assert time.monotonic() - begun >= 0.8
                try:
                    await first[b"late"].ack()
                except NotOwnerError:
                    pass
                else:
                    raise AssertionError("it has been delivered again")
                await worker.ack(again.values())
                assert worker.expired_count == 1
            async with client.consumer(dead, auto_offset_reset="earliest") as consumer:
                (letter,) = await consumer.getmany(timeout_ms=10_000)
                assert letter.value == b"bad"
                assert dict(letter.headers)["oncelog.dead.reason"] == b"no customer"

    asyncio.run(work())


async def received(worker: oncelog.Worker, count: int) -> list[oncelog.ChannelMessage]:
    """So many messages."""
    found: list[oncelog.ChannelMessage] = []
    while len(found) < count:
        found += await worker.getmany(count - len(found), timeout_ms=1_000)
    return found


def test_acknowledgements_of_a_transaction_count_when_it_commits(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic, output = new_topic(2), new_topic(1)

    async def work() -> None:
        async with (
            oncelog.Client(cluster.bootstrap_servers) as client,
            asyncio.timeout(PATIENCE_S),
            client.producer() as plain,
            client.producer(transactional_id=f"{topic}-worker") as producer,
            client.worker(topic, channel=CHANNEL) as worker,
        ):
            await plain.send_many(topic, [b"%d" % i for i in range(10)])
            got = await received(worker, 10)
            async with producer.transaction() as txn:
                for message in got[:5]:
                    await txn.send(output, message.value)
                await txn.ack(got[:5])
            aborted = await producer.begin_transaction()
            await aborted.send(output, b"never seen")
            await aborted.ack(got[5:])
            await aborted.abort()
            again = await received(worker, 5)
            assert {m.value for m in again} == {m.value for m in got[5:]}
            assert {m.deliveries for m in again} == {2}
            async with producer.transaction() as second:
                await second.send_many(output, [message.value for message in again])
                await second.ack(again)
            assert await worker.getmany(timeout_ms=1_500) == []
            async with client.consumer(output, auto_offset_reset="earliest") as consumer:
                seen: list[bytes | None] = []
                while len(seen) < 10:
                    seen += [record.value for record in await consumer.getmany(timeout_ms=5_000)]
            assert sorted(seen, key=str) == sorted((m.value for m in got), key=str)

    asyncio.run(work())


def test_a_broker_that_is_killed_loses_no_acknowledgement_and_no_record(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(6)
    acknowledged: Counter[bytes | None] = Counter()
    came_again_after_ack: list[bytes | None] = []

    async def work() -> None:
        async with (
            oncelog.Client(cluster.bootstrap_servers) as client,
            client.producer() as producer,
            client.worker(topic, channel=CHANNEL, max_in_flight=50, ack_wait_ms=10_000) as worker,
        ):
            await producer.send_many(topic, [b"%d" % i for i in range(600)])
            await producer.flush()
            async with asyncio.timeout(2 * PATIENCE_S):
                killed = False
                while len(acknowledged) < 600:
                    for message in await worker.getmany(50, timeout_ms=1_000):
                        if message.value in acknowledged:
                            came_again_after_ack.append(message.value)
                        with contextlib.suppress(NotOwnerError):
                            await message.ack()
                            acknowledged[message.value] += 1
                    if not killed and len(acknowledged) > 200:
                        killed = True
                        cluster.processes["broker-1"].kill()

    try:
        asyncio.run(work())
    finally:
        cluster.restart("broker-1")
        cluster.wait_healthy()
    assert came_again_after_ack == []
    assert set(acknowledged.values()) == {1}


def test_the_command_line_looks_at_a_channel_and_repairs_it(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(1)
    with oncelog.SyncClient(cluster.bootstrap_servers) as client:
        with client.producer() as producer:
            producer.send_many(topic, [b"0", b"1", b"2"])
        with client.worker(topic, channel=CHANNEL) as worker:
            found: list[oncelog.sync.ChannelMessage] = []
            while len(found) < 3:
                found += worker.getmany()
            found[0].ack()
            shell = Shell(cluster.bootstrap_servers)
            total = shell.json("channel", "describe", topic, CHANNEL)["total"]
            assert (total["depth"], total["in_flight"], total["acknowledged"]) == (2, 2, 1)
            time.sleep(1.1)  # what a worker was given less than a second ago cannot be claimed
            words = ("channel", "claim", topic, CHANNEL, "-p", "0", "--offset", "1", "--then", "ack")
            assert shell.run(*words).stdout == "1 records were claimed, and are done\n"
    printed = shell.run("consume", topic, "--channel", CHANNEL, "--until-end")
    assert (printed.returncode, printed.stdout) == (0, "2\n"), printed.stderr
    assert shell.run("channel", "delete", topic, CHANNEL, "-y").returncode == 0
    assert shell.json("channel", "list", topic) == []
