"""A worker is given records, and each is its own until it has said what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.work.message import ChannelMessage
from oncelog.client.work.worker import Worker
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, Lost
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import CHANNEL, FakeChannels

Work = Callable[[Worker], Awaitable[None]]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def channels(cluster: FakeCluster) -> FakeChannels:
    return FakeChannels(cluster)


def at_work(cluster: FakeCluster, work: Work, client: dict[str, Any] | None = None, **options: Any) -> None:
    """Runs `work(worker)`."""

    async def whole(_: FakeCluster) -> None:
        async with (
            cluster.client(**(client or {})) as made,
            made.worker(TOPIC, channel=CHANNEL, **options) as worker,
        ):
            await work(worker)

    cluster.run(whole)


def values(messages: list[ChannelMessage]) -> list[bytes | None]:
    return [message.value for message in messages]


def test_every_record_comes_once_and_is_settled(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1", b"2"])
    append(cluster, [b"3"], partition=1)

    async def work(worker: Worker) -> None:
        seen = []
        async for message in worker:
            assert message.deliveries == 1
            assert message.timestamp_ms == 5
            seen.append(message.value)
            await message.ack()
            assert message.state == "settled"
            if len(seen) == 4:
                break
        assert sorted(seen) == [b"0", b"1", b"2", b"3"]
        assert worker.in_flight == 0

    at_work(cluster, work)
    assert (channels.settled(0), channels.settled(1)) == ([0, 1, 2], [0])


def test_a_record_that_comes_later_ends_the_wait(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        waiting = asyncio.ensure_future(worker.getmany(timeout_ms=5_000))
        await asyncio.sleep(2)
        append(cluster, [b"late"])
        before = cluster.loop.time()
        assert values(await waiting) == [b"late"]
        assert cluster.loop.time() - before < 0.1

    at_work(cluster, work)


def test_nothing_comes_within_the_time(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        assert await worker.getmany(timeout_ms=300) == []

    at_work(cluster, work)


def test_what_is_given_back_comes_again_after_its_delay(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.nack(delay_ms=1_000)
        begun = cluster.loop.time()
        (again,) = await worker.getmany()
        assert again.deliveries == 2
        assert cluster.loop.time() - begun >= 0.99

    at_work(cluster, work)


def test_a_rejected_record_is_dead_with_its_reason(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.reject("no customer")

    at_work(cluster, work)
    assert channels.parts[0].dead == {0: "no customer"}


def test_many_are_settled_in_one_call_with_one_item(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(50)])

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        while len(got) < 50:
            got += await worker.getmany()
        before = cluster.count("Settle")
        await worker.ack(got)
        assert cluster.count("Settle") == before + 1
        assert [(i.first_offset, i.last_offset) for i in channels.settlements[-1].items] == [(0, 49)]

    at_work(cluster, work)


def test_words_of_many_tasks_go_together(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(40)])

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        while len(got) < 40:
            got += await worker.getmany()
        before = cluster.count("Settle")
        await asyncio.gather(*(message.ack() for message in got))
        assert cluster.count("Settle") - before <= 6, "four may be on their way, what gathers meanwhile goes together"

    at_work(cluster, work)
    assert channels.settled() == list(range(40))


def test_a_message_is_settled_once(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.ack()
        for word in (message.ack, message.nack, message.touch, message.reject):
            with pytest.raises(errors.IllegalStateError):
                await word()

    at_work(cluster, work)
    assert len([r for r in channels.settlements if r.items]) == 1


def test_a_deadline_that_has_passed_is_told(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        (again,) = await worker.getmany()
        assert again.deliveries == 2
        with pytest.raises(errors.NotOwnerError):
            await message.ack()
        await again.ack()

    at_work(cluster, work, ack_wait_ms=500)
    assert channels.settled() == [0]


def test_a_touch_gives_more_time(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        for _ in range(5):
            await asyncio.sleep(0.4)
            await message.touch()
        assert await worker.getmany(timeout_ms=1) == []
        await message.ack()

    at_work(cluster, work, ack_wait_ms=500)


def test_the_worker_touches_by_itself(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await asyncio.sleep(10)
        await message.ack()

    at_work(cluster, work, ack_wait_ms=500, auto_touch=True)
    assert channels.settled() == [0]


def test_a_lost_answer_is_asked_for_again(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    cluster.fail("Settle", Lost())

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.ack()
        assert cluster.count("Settle") == 2

    at_work(cluster, work, {"request_timeout_ms": 200})


def test_a_copy_of_a_nack_is_no_failure(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    cluster.fail("Settle", Lost())

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.nack(delay_ms=5_000)

    at_work(cluster, work, {"request_timeout_ms": 200})


def test_the_outcome_stays_unknown_at_the_deadline_and_it_may_be_said_again(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])
    cluster.fail("Settle", *(errors.NetworkError() for _ in range(200)))

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        with pytest.raises(errors.NetworkError):
            await message.ack()
        cluster.faults.clear()
        await message.ack()

    at_work(cluster, work, {"default_api_timeout_ms": 1_000})


def test_a_fail_over_brings_the_record_again_and_the_earlier_word_is_refused(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        channels.fail_over(0, BROKERS[1])
        with pytest.raises(errors.NotOwnerError):
            await message.ack()
        (again,) = await worker.getmany(timeout_ms=5_000)
        await again.ack()

    at_work(cluster, work)
    assert channels.settled() == [0]


def test_a_partition_without_a_leader_is_waited_for(cluster: FakeCluster, channels: FakeChannels) -> None:
    cluster.leaders[0] = None

    async def work(worker: Worker) -> None:
        append(cluster, [b"0"])
        assert await worker.getmany(timeout_ms=500) == []
        channels.fail_over(0, BROKERS[0])
        assert values(await worker.getmany(timeout_ms=1_000)) == [b"0"]

    at_work(cluster, work)


def test_a_partition_that_is_added_is_found(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        number = cluster.add_partition()
        append(cluster, [b"new"], partition=number)
        assert values(await worker.getmany(timeout_ms=30_000)) == [b"new"]

    at_work(cluster, work, {"metadata_max_age_ms": 1_000})


def test_a_deleted_channel_ends_the_worker(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        await asyncio.sleep(3)
        channels.channel = None
        for _ in range(2):
            with pytest.raises(errors.UnknownChannelError):
                await worker.getmany(timeout_ms=20_000)

    at_work(cluster, work)


def test_a_topic_that_is_created_again_ends_the_worker(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        cluster.create_again()
        with pytest.raises(errors.UnknownTopicError, match="created again"):
            await worker.getmany(timeout_ms=20_000)

    at_work(cluster, work, {"metadata_max_age_ms": 1_000})


def test_brokers_that_have_not_heard_of_a_new_channel_are_asked_again(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    channels.unaware = set(BROKERS)
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        assert await worker.getmany(timeout_ms=500) == []
        channels.unaware = set()
        assert values(await worker.getmany(timeout_ms=1_000)) == [b"0"]

    at_work(cluster, work)


def test_no_more_comes_than_may_be_in_flight(cluster: FakeCluster, channels: FakeChannels) -> None:
    for partition in (0, 1):
        append(cluster, [b"%d" % i for i in range(30)], partition=partition)

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        seen = 0
        while seen < 60:
            got += await worker.getmany(timeout_ms=1_000)
            assert len(got) <= 7
            await got.pop(0).ack()
            seen += 1

    at_work(cluster, work, max_in_flight=7)
    assert channels.most_held <= 7
    assert channels.most_granted <= 7


def test_fewer_records_than_brokers_rotate(cluster: FakeCluster, channels: FakeChannels) -> None:
    for partition in (0, 1):
        append(cluster, [b"%d" % partition] * 10, partition=partition)

    async def work(worker: Worker) -> None:
        seen = []
        async for message in worker:
            seen.append(message.partition)
            await message.ack()
            if len(seen) == 20:
                break
        assert 0 in seen[:3]
        assert 1 in seen[:3]

    at_work(cluster, work, max_in_flight=1)
    assert channels.most_held == channels.most_granted == 1


def test_a_close_gives_back_what_was_not_handed_out(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(10)])

    async def work(worker: Worker) -> None:
        async for message in worker:
            await message.ack()
            break

    at_work(cluster, work)
    assert channels.settled() == [0]
    assert channels.in_flight() == []
    assert all(entry.deliveries == 0 for entry in channels.parts[0].entries.values())
    assert len(channels.left) == 2, "both brokers were told"


def test_a_close_waits_for_what_was_said(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    saying: list[asyncio.Future[None]] = []

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        saying.append(asyncio.ensure_future(message.ack()))
        await asyncio.sleep(0.0005)

    at_work(cluster, work)
    assert channels.settled() == [0]


def test_after_the_close_nothing_can_be_said(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await worker.close()
        with pytest.raises(errors.IllegalStateError):
            await message.ack()
        with pytest.raises(errors.IllegalStateError):
            await worker.getmany()
        assert [m async for m in worker] == []

    at_work(cluster, work)


def test_a_client_closes_its_workers(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def whole(_: FakeCluster) -> None:
        async with cluster.client() as client:
            worker = await client.worker(TOPIC, channel=CHANNEL).start()
            waiting = asyncio.ensure_future(worker.getmany())
            await asyncio.sleep(0.1)
        assert worker.is_closed
        assert await waiting == []

    cluster.run(whole)


def test_another_worker_gets_what_one_holds_by_a_claim(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1"])

    async def whole(_: FakeCluster) -> None:
        async with cluster.client() as client, client.worker(TOPIC, channel=CHANNEL) as first:
            held: list[ChannelMessage] = []
            while len(held) < 2:
                held += await first.getmany()
            async with client.worker(TOPIC, channel=CHANNEL) as second:
                (taken,) = await second.claim(0, offsets=[1])
                assert (taken.value, taken.deliveries, second.in_flight) == (b"1", 2, 1)
                await taken.ack()
                with pytest.raises(errors.NotOwnerError):
                    await held[1].ack()
                await held[0].ack()

    cluster.run(whole)
    assert channels.settled() == [0, 1]


@pytest.mark.parametrize("delay_ms", [-1, 86_400_001, 1.5])
def test_a_delay_out_of_range_says_nothing(cluster: FakeCluster, channels: FakeChannels, delay_ms: Any) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        with pytest.raises(errors.InvalidDelayError):
            await message.nack(delay_ms=delay_ms)
        assert message.state == "held"

    at_work(cluster, work)


def test_what_is_wrong_with_a_call_is_said_at_once(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def whole(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.InvalidRequestError):
                client.worker(TOPIC, channel="no name")
            with pytest.raises(errors.InvalidTopicError):
                client.worker("no topic", channel=CHANNEL)
            with pytest.raises(errors.ConfigError):
                client.worker(TOPIC, channel=CHANNEL, max_in_flight=0)
            with pytest.raises(errors.ConfigError, match="max_in_flight"):
                client.worker(TOPIC, channel=CHANNEL, max_inflight=1)  # type: ignore[call-arg]
            worker = client.worker(TOPIC, channel=CHANNEL)
            with pytest.raises(errors.ConfigError):
                await worker.getmany(max_records=0)
            with pytest.raises(TypeError):
                await worker.ack([b"0"])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="worker is made by a client"):
            Worker(TOPIC)  # type: ignore[call-arg, arg-type]

    cluster.run(whole)


def test_a_batch_that_cannot_be_read_is_told_once(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    log = next(iter(cluster.logs.values()))
    good = log.batches[0]
    log.batches[0] = good[:-1] + bytes([good[-1] ^ 1])

    async def work(worker: Worker) -> None:
        with pytest.raises(errors.CorruptMessageError):
            await worker.getmany(timeout_ms=1_000)

    at_work(cluster, work)


def test_a_client_option_is_the_workers_alone_and_the_channels_pause_is_no_client_option(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    async def whole(_: FakeCluster) -> None:
        client: Client = cluster.client()
        async with client, client.worker(TOPIC, channel=CHANNEL, retry_backoff_ms=7, client_id="a b") as worker:
            assert worker.worker_id.startswith("a-b-")
            assert channels.channel is not None
            assert channels.channel.options.retry_backoff_ms == 7
            assert client.config.retry_backoff_ms == 20

    cluster.run(whole)
