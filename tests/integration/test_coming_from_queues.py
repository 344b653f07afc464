"""docs/coming-from-queues.md, command by command: each test is named after the command of NSQ or Redis, runs what the table
says, and shows the effect that the command has there.

`tests/unit/test_coming_from_queues_page.py` checks that every row of the tables names a test that has the row's code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

import oncelog
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.queue_play import Here, is_quiet, play, received, values

Scenario = Callable[[Here], Awaitable[None]]
Play = Callable[[Scenario], None]
SURE_S = 1.1
"""What a worker was given less than a second ago cannot be claimed."""


@pytest.fixture
def run(cluster: LocalCluster, new_topic: Callable[..., str]) -> Play:
    """Runs a scenario with a topic of its own."""
    return lambda scenario: play(cluster, new_topic(1), scenario)


@pytest.fixture(scope="module", autouse=True)
def deserted(cluster: LocalCluster) -> str:
    """A topic with an ephemeral channel whose last worker has gone: it vanishes half a minute later, while other tests run."""
    topic = "coming-from-queues-ephemeral"

    async def scenario(here: Here) -> None:
        await here.client.admin.create_topic(topic, partitions=1)
        await here.send(b"a")
        async with here.client.worker(topic, channel="tail", ephemeral=True, ack_wait_ms=1_000) as worker:
            assert await values(worker, 1) == [b"a"]

    play(cluster, topic, scenario)
    return topic


# ---------------------------------------------------------------- NSQ


def test_nsq_pub(run: Play) -> None:
    async def scenario(here: Here) -> None:
        async with here.client.producer() as producer:
            await producer.send(here.topic, value=b"hello")
        for channel in ("billing", "mail"):
            async with here.client.worker(here.topic, channel=channel) as worker:
                assert await values(worker, 1) == [b"hello"], "each channel has a copy"

    run(scenario)


def test_nsq_mpub(run: Play) -> None:
    async def scenario(here: Here) -> None:
        async with here.client.producer() as producer:
            await producer.send_many(here.topic, [b"0", b"1", b"2"])
        async with here.client.worker(here.topic, channel="billing") as worker:
            assert await values(worker, 3) == [b"0", b"1", b"2"]

    run(scenario)


def test_nsq_dpub(run: Play) -> None:
    async def scenario(here: Here) -> None:
        async with (
            here.client.producer() as producer,
            here.client.worker(here.topic, channel="billing") as worker,
        ):
            begun = time.monotonic()
            await (await producer.send(here.topic, value=b"later", deliver_at=timedelta(seconds=2)))
            await producer.send_and_wait(here.topic, value=b"now")
            assert await values(worker, 1) == [b"now"]
            assert await values(worker, 1) == [b"later"]
            assert time.monotonic() - begun >= 2

    run(scenario)


def test_nsq_sub(run: Play) -> None:
    async def scenario(here: Here) -> None:
        async with (
            here.client.worker(here.topic, channel="billing") as first,
            here.client.worker(here.topic, channel="billing") as second,
        ):
            assert [found.channel for found in await here.client.admin.list_channels(here.topic)] == ["billing"]
            await here.send(*(b"%d" % number for number in range(20)))
            seen: list[bytes | None] = []
            while len(seen) < 20:
                for worker in (first, second):
                    found = await worker.getmany(timeout_ms=100)
                    await worker.ack(found)
                    seen += [message.value for message in found]
            assert sorted(seen, key=lambda value: int(value or b"")) == [b"%d" % number for number in range(20)]

    run(scenario)


def test_nsq_rdy(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1", b"2")
        async with here.client.worker(here.topic, channel="billing", max_in_flight=2) as worker:
            first, _ = await received(worker, 2)
            assert await is_quiet(worker)
            assert await here.total("in_flight") == 2, "the broker holds the rest back"
            await first.ack()
            assert await values(worker, 1) == [b"2"]

    run(scenario)


def test_nsq_fin(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"a")
        async with here.client.worker(here.topic, channel="billing", ack_wait_ms=500) as worker:
            (message,) = await received(worker, 1)
            await message.ack()
            assert await worker.getmany(timeout_ms=1_000) == [], "its time has passed, and it does not come again"
        assert await here.total("depth") == 0

    run(scenario)


def test_nsq_req(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"a")
        async with here.client.worker(here.topic, channel="billing") as worker:
            (message,) = await received(worker, 1)
            begun = time.monotonic()
            await message.nack(delay_ms=500)
            (again,) = await received(worker, 1)
            assert (again.value, again.deliveries) == (b"a", 2)
            assert time.monotonic() - begun >= 0.5

    run(scenario)


def test_nsq_touch(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"a")
        async with (
            here.client.worker(here.topic, channel="billing", ack_wait_ms=3_000) as worker,
            here.client.worker(here.topic, channel="mail", ack_wait_ms=3_000, auto_touch=True) as own,
        ):
            (message,) = await received(worker, 1)
            (kept,) = await received(own, 1)
            for _ in range(3):
                await asyncio.sleep(1.2)
                await message.touch()
            assert await worker.getmany(timeout_ms=1) == await own.getmany(timeout_ms=1) == []
            await message.ack()
            await kept.ack()
        assert await here.total("redelivered") == await here.total("redelivered", "mail") == 0

    run(scenario)


def test_nsq_cls(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"done", b"not done")
        worker = await here.client.worker(here.topic, channel="billing", ack_wait_ms=60_000).start()
        done, _ = await received(worker, 2)
        await done.ack()
        await worker.close()
        async with here.client.worker(here.topic, channel="billing") as other:
            (message,) = await received(other, 1)
            assert (message.value, message.deliveries) == (b"not done", 2)

    run(scenario)


def test_nsq_create_and_delete_a_topic(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.run("oncelog topic create TOPIC-new --partitions 1")
        assert await here.client.admin.describe_topics([f"{here.topic}-new"])
        await here.run("oncelog topic delete TOPIC-new --yes")
        assert not await here.client.admin.describe_topics([f"{here.topic}-new"])

    run(scenario)


def test_nsq_pause_and_unpause_a_channel(run: Play) -> None:
    async def scenario(here: Here) -> None:
        async with here.client.worker(here.topic, channel="billing") as worker:
            await here.run("oncelog channel pause TOPIC billing")
            await here.send(b"a")
            assert await is_quiet(worker)
            await here.run("oncelog channel resume TOPIC billing")
            assert await values(worker, 1) == [b"a"]

    run(scenario)


def test_nsq_empty_a_channel(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1")
        async with here.client.worker(here.topic, channel="billing", max_in_flight=1) as worker:
            await received(worker, 1)
            await here.run("oncelog channel seek TOPIC billing --to latest --yes")
            assert (await here.total("depth"), await here.total("in_flight")) == (0, 0)
            await here.send(b"new")
        async with here.client.worker(here.topic, channel="billing") as worker:
            assert await values(worker, 1) == [b"new"]

    run(scenario)


def test_nsq_delete_a_channel(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"a")
        async with here.client.worker(here.topic, channel="billing") as worker:
            await values(worker, 1)
        await here.run("oncelog channel delete TOPIC billing --yes")
        assert await here.client.admin.list_channels(here.topic) == []
        async with here.client.worker(here.topic, channel="billing") as worker:
            assert await values(worker, 1) == [b"a"], "another channel of this name remembers nothing"

    run(scenario)


def test_nsq_pause_a_topic(run: Play) -> None:
    async def scenario(here: Here) -> None:
        async with (
            here.client.worker(here.topic, channel="billing") as billing,
            here.client.worker(here.topic, channel="mail") as mail,
        ):
            for found in await here.json("oncelog channel list TOPIC"):
                await here.run(f"oncelog channel pause TOPIC {found['channel']}")
            await here.send(b"a")
            assert await is_quiet(billing)
            assert await is_quiet(mail)
            for channel in ("billing", "mail"):
                await here.client.admin.resume_channel(here.topic, channel)
            assert await values(billing, 1) == await values(mail, 1) == [b"a"]

    run(scenario)


def test_nsq_empty_a_topic(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1")
        await here.run("oncelog topic trim-prefix TOPIC --offset end --yes")
        await here.send(b"new")
        async with here.client.worker(here.topic, channel="billing") as worker:
            assert await values(worker, 1) == [b"new"]

    run(scenario)


def test_nsq_to_file_and_nsq_tail(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1")
        assert await here.run("oncelog consume TOPIC --until-end") == "0\n1\n"
        await here.client.admin.create_channel(here.topic, "archive")
        assert await here.run("oncelog consume TOPIC --channel archive -n 1") == "0\n", "and what it printed is done"
        assert await here.run("oncelog consume TOPIC --channel archive -n 1") == "1\n"

    run(scenario)


# ---------------------------------------------------------------- Redis Streams


def test_redis_xadd(run: Play) -> None:
    async def scenario(here: Here) -> None:
        async with here.client.producer() as producer:
            first = await producer.send_and_wait(here.topic, value=b"a")
            second = await producer.send_and_wait(here.topic, value=b"b")
        assert (first.partition, first.offset) < (second.partition, second.offset)

    run(scenario)


def test_redis_xadd_maxlen(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.run("oncelog topic create TOPIC-bounded --partitions 1 -c retention_bytes=1MiB")
        await here.send(b"0", b"1", b"2")
        await here.run("oncelog topic trim-prefix TOPIC --offset -2 --yes")
        assert await here.run("oncelog consume TOPIC --until-end") == "1\n2\n", "the last two are left"

    run(scenario)


def test_redis_xlen(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1", b"2")
        (shown,) = await here.json("oncelog topic describe TOPIC --partitions")
        (partition,) = shown["partitions"]
        assert partition["high_watermark"] - partition["log_start_offset"] == 3
        admin = here.client.admin
        (found,) = (await admin.describe_partitions([await admin.describe_topic(here.topic)])).values()
        assert found.high_watermark - found.log_start_offset == 3

    run(scenario)


def test_redis_xrange(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1", b"2", b"3")
        async with here.client.consumer() as consumer:
            found = [rows async for rows in consumer.read_range((here.topic, 0), 1, 3)]
            assert [value for rows in found for value in rows.column("value").to_pylist()] == [b"1", b"2"]
            (at,) = (await consumer.offsets_for_times({oncelog.TopicPartition(here.topic, 0): 1})).values()
            assert at is not None
            assert at.offset == 0

    run(scenario)


def test_redis_xrevrange(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1", b"2", b"3")
        place = oncelog.TopicPartition(here.topic, 0)
        async with here.client.consumer() as consumer:
            end = (await consumer.end_offsets([place]))[place]
            found = [rows async for rows in consumer.read_range(place, end - 2, end)]
            assert [value for rows in found for value in rows.column("value").to_pylist()][::-1] == [b"3", b"2"]

    run(scenario)


def test_redis_xread_block(run: Play) -> None:
    async def scenario(here: Here) -> None:
        async with here.client.consumer(here.topic, auto_offset_reset="earliest") as consumer:
            assert await consumer.getmany(timeout_ms=100) == []
            waiting = asyncio.ensure_future(consumer.getmany(timeout_ms=30_000))
            await here.send(b"a")
            assert [record.value for record in await waiting] == [b"a"]

    run(scenario)


def test_redis_xgroup_create(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"old")
        await here.run("oncelog channel create TOPIC from-now-on --start latest")
        await here.run("oncelog channel create TOPIC all --start earliest")
        await here.send(b"new")
        async with here.client.worker(here.topic, channel="from-now-on", create=False) as worker:
            assert await values(worker, 1) == [b"new"]
        async with here.client.worker(here.topic, channel="all", create=False) as worker:
            assert await values(worker, 2) == [b"old", b"new"]

    run(scenario)


def test_redis_xgroup_setid(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1", b"2")
        async with here.client.worker(here.topic, channel="billing") as worker:
            await values(worker, 3)
            await here.run("oncelog channel seek TOPIC billing --to 1 --partition 0 --yes")
            assert await values(worker, 2) == [b"1", b"2"]

    run(scenario)


def test_redis_xgroup_destroy(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.client.admin.create_channel(here.topic, "billing")
        async with here.client.worker(here.topic, channel="billing", create=False) as worker:
            await here.run("oncelog channel delete TOPIC billing --yes")
            with pytest.raises(oncelog.errors.UnknownChannelError):
                await worker.getmany(timeout_ms=20_000)

    run(scenario)


def test_redis_xgroup_createconsumer_and_delconsumer(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"a")
        worker = await here.client.worker(here.topic, channel="billing").start()
        await received(worker, 1)
        assert (await here.client.admin.describe_channel(here.topic, "billing")).workers == {worker.worker_id: 1}
        await worker.close()
        assert (await here.client.admin.describe_channel(here.topic, "billing")).workers == {}
        assert await here.total("depth") == 1, "unlike in Redis, what it had is not lost"

    run(scenario)


def test_redis_xreadgroup(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1")
        seen = []
        async with here.client.worker(here.topic, channel="billing") as worker:
            async for message in worker:
                seen.append(message.value)
                await message.ack()
                if len(seen) == 2:
                    break
        assert seen == [b"0", b"1"]

    run(scenario)


def test_redis_xreadgroup_noack(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"a")
        options = {"group_id": here.topic, "auto_offset_reset": "earliest"}
        async with here.client.consumer(here.topic, delivery="at_most_once", **options) as consumer:
            assert [record.value for record in await consumer.getmany(timeout_ms=30_000)] == [b"a"]
        async with here.client.consumer(here.topic, delivery="at_most_once", **options) as consumer:
            await here.send(b"b")
            assert [record.value for record in await consumer.getmany(timeout_ms=30_000)] == [b"b"]

    run(scenario)


def test_redis_xack(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1", b"2")
        async with here.client.worker(here.topic, channel="billing") as worker:
            message, *messages = await received(worker, 3)
            await message.ack()
            assert [item.offset for item in await here.client.admin.pending(here.topic, "billing")] == [1, 2]
            await worker.ack(messages)
            assert await here.client.admin.pending(here.topic, "billing") == []

    run(scenario)


def test_redis_xpending(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1")
        async with here.client.worker(here.topic, channel="billing") as worker:
            await received(worker, 2)
            shown = await here.json("oncelog channel pending TOPIC billing")
            assert [(row["offset"], row["worker_id"], row["deliveries"]) for row in shown] == [
                (0, worker.worker_id, 1),
                (1, worker.worker_id, 1),
            ]
            found = await here.client.admin.pending(here.topic, "billing", worker_id=worker.worker_id, limit=1)
            assert [(item.offset, item.deliveries) for item in found] == [(0, 1)]

    run(scenario)


def test_redis_xclaim(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1")
        async with here.client.worker(here.topic, channel="billing") as stuck:
            lost, _ = await received(stuck, 2)
            async with here.client.worker(here.topic, channel="billing") as worker:
                await asyncio.sleep(SURE_S)
                (claimed,) = await worker.claim(0, offsets=[0])
                assert (claimed.value, claimed.deliveries) == (b"0", 2)
                with pytest.raises(oncelog.errors.NotOwnerError):
                    await lost.ack()
                await asyncio.sleep(SURE_S)
                await here.run("oncelog channel claim TOPIC billing --partition 0 --offset 0 --then ack")
                with pytest.raises(oncelog.errors.NotOwnerError):
                    await claimed.ack()
            assert await here.total("depth") == 1

    run(scenario)


def test_redis_xautoclaim(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"a")
        async with here.client.worker(here.topic, channel="billing", ack_wait_ms=1_000) as dead:
            await received(dead, 1)
            assert [message.deliveries for message in await received(dead, 1)] == [2], "it comes again by itself"
        async with here.client.worker(here.topic, channel="mail", ack_wait_ms=60_000) as stuck:
            await received(stuck, 1)
            async with here.client.worker(here.topic, channel="mail", ack_wait_ms=60_000) as worker:
                assert await worker.claim(0, min_idle_ms=30_000) == []
                await asyncio.sleep(SURE_S)
                assert [message.value for message in await worker.claim(0, min_idle_ms=200)] == [b"a"]
                await asyncio.sleep(SURE_S)
                await here.run("oncelog channel claim TOPIC mail --partition 0 --min-idle 1ms")
                assert [message.deliveries for message in await received(stuck, 1)] == [3]

    run(scenario)


def test_redis_xdel(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"bad", b"good")
        async with here.client.worker(here.topic, channel="billing", ack_wait_ms=500) as worker:
            message, good = await received(worker, 2)
            await message.reject("why")
            await good.ack()
            assert await worker.getmany(timeout_ms=1_000) == []
        assert (await here.total("depth"), await here.total("dead")) == (0, 1)

    run(scenario)


def test_redis_xtrim(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1", b"2")
        await here.run("oncelog topic trim-prefix TOPIC --offset 2 --yes")
        assert await here.run("oncelog consume TOPIC --until-end") == "2\n"

    run(scenario)


def test_redis_xinfo_stream(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1")
        (shown,) = await here.json("oncelog topic describe TOPIC")
        assert (shown["topic"], shown["partitions"][0]["high_watermark"]) == (here.topic, 2)

    run(scenario)


def test_redis_xinfo_groups(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1", b"2")
        async with here.client.worker(here.topic, channel="billing", max_in_flight=2) as worker:
            first, _ = await received(worker, 2)
            await first.ack()
            await received(worker, 1)
            assert [row["channel"] for row in await here.json("oncelog channel list TOPIC")] == ["billing"]
            total = (await here.json("oncelog channel describe TOPIC billing"))["total"]
            assert (total["depth"], total["in_flight"], total["acknowledged"]) == (2, 2, 1)

    run(scenario)


def test_redis_xinfo_consumers(run: Play) -> None:
    async def scenario(here: Here) -> None:
        await here.send(b"0", b"1")
        async with here.client.worker(here.topic, channel="billing") as worker:
            await received(worker, 2)
            (row,) = (await here.json("oncelog channel describe TOPIC billing"))["workers"]
            assert (row["worker_id"], row["in_flight"]) == (worker.worker_id, 2)
            assert row["idle_ms"] >= 0

    run(scenario)


# ---------------------------------------------------------------- what takes half a minute


def test_nsq_ephemeral_channel(cluster: LocalCluster, deserted: str) -> None:
    """The fixture has made the channel, and its last worker has gone."""

    async def scenario(here: Here) -> None:
        while await here.client.admin.list_channels(deserted):  # noqa: ASYNC110 - nothing tells of the end
            await asyncio.sleep(0.2)

    play(cluster, deserted, scenario)
