"""A close is done once, whoever asks; who is impatient, or interrupted, leaves nothing behind that works on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.home.closing import Closing
from oncelog.client.home.home import Home
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster
from tests.unit.sdk.client.sending import started


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def leaderless(cluster: FakeCluster) -> None:
    """Nobody leads partition 0: what is sent there waits."""
    cluster.leaders[0] = None
    cluster.epochs[0] += 1
    cluster.fail("append", errors.NotLeaderError(), errors.NotLeaderError())


def led_again(cluster: FakeCluster) -> None:
    cluster.leaders[0] = BROKERS[0]
    cluster.epochs[0] += 1


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


# ---------------------------------------------------------------- the rules


def test_the_first_one_closes_and_the_others_wait(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        closing, free, done = Closing(Home()), asyncio.Event(), []

        async def close() -> None:
            await free.wait()
            done.append(1)
            raise KeyError

        assert (closing.is_begun, closing.is_over) == (False, False)
        first = started(closing.once(close))
        await settled()
        impatient, second = started(closing.once(close)), started(closing.once(close))
        await settled()
        assert (closing.is_begun, closing.is_over, second.done()) == (True, False, False)
        impatient.cancel()
        free.set()
        await second
        with pytest.raises(KeyError):
            await first
        await closing.once(close)
        assert (done, closing.is_over, impatient.cancelled()) == ([1], True, True)

    cluster.run(work)


def test_a_close_that_is_cancelled_is_over(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        closing = Closing(Home())
        first = started(closing.once(partial(asyncio.sleep, 1_000)))
        await settled()
        second = started(closing.once(partial(asyncio.sleep, 1_000)))
        first.cancel()
        await second
        assert closing.is_over

    cluster.run(work)


def test_another_event_loop_is_refused_until_the_close_is_over() -> None:
    closing, free = Closing(Home()), asyncio.Event()

    async def close() -> None:
        await free.wait()

    with asyncio.Runner() as runner, asyncio.Runner() as other:
        first = runner.get_loop().create_task(closing.once(close))
        runner.run(asyncio.sleep(0))
        with pytest.raises(errors.IllegalStateError, match="another event loop"):
            other.run(closing.once(close))
        free.set()
        runner.run(asyncio.wait_for(first, 1))
        other.run(closing.once(close))


# ---------------------------------------------------------------- producers


@pytest.mark.parametrize("how", ["producer", "client"])
def test_a_second_close_waits_for_the_first_and_cuts_nothing_short(cluster: FakeCluster, how: str) -> None:
    """It returned at once; that of a client even ended the connections."""

    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        producer = await client.producer().start()
        leaderless(cluster)
        delivery = await producer.send(TOPIC, b"a", partition=0)
        close = producer.close if how == "producer" else client.close
        first = started(close())
        await asyncio.sleep(0.05)
        second = started(close())
        await asyncio.sleep(0.5)
        assert not first.done()
        assert not second.done()
        led_again(cluster)
        await asyncio.gather(first, second)
        assert delivery.offset == 0
        await client.close()

    cluster.run(work)


def test_the_client_waits_for_a_producer_that_somebody_else_closes(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        producer = await client.producer().start()
        leaderless(cluster)
        delivery = await producer.send(TOPIC, b"a", partition=0)
        first = started(producer.close())
        await settled()
        client.producer()  # the list of what was made is looked through here
        whole = started(client.close())
        await asyncio.sleep(0.5)
        assert not whole.done()
        led_again(cluster)
        await asyncio.gather(first, whole)
        assert delivery.offset == 0

    cluster.run(work)


def test_nothing_is_taken_from_close_on(cluster: FakeCluster) -> None:
    """A record that was sent meanwhile was queued, and dropped at the end."""

    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        producer = await client.producer(buffer_memory=3_000, batch_size=500).start()
        leaderless(cluster)
        first = await producer.send(TOPIC, bytes(2_000), partition=0)
        waits_for_room = started(producer.send(TOPIC, bytes(2_000), partition=0))
        await settled()
        closing = started(producer.close())
        await settled()
        uses: list[Callable[[], Awaitable[Any]]] = [
            lambda: waits_for_room, lambda: producer.send(TOPIC, b"a", partition=1),
            lambda: producer.send_many(TOPIC, [b"a"]), producer.start,
        ]  # fmt: skip
        for use in uses:
            with pytest.raises(errors.IllegalStateError, match="the producer is closed"):
                await use()
        led_again(cluster)
        await closing
        assert first.offset == 0
        assert cluster.values(1) == []
        await client.close()

    cluster.run(work)


def test_no_transaction_begins_in_a_producer_that_is_being_closed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = client.producer(transactional_id="t")
            begin = started(producer.begin_transaction())  # its first one waits for the producer id
            await settled()
            await producer.close()
            with pytest.raises(errors.IllegalStateError, match="the producer is closed"):
                await begin

    cluster.run(work)


# ---------------------------------------------------------------- interrupted


def test_a_cancelled_close_of_a_client_leaves_nothing_that_writes_later(cluster: FakeCluster) -> None:
    """The second producer stayed alive, wrote when its leader was back, and could not be closed any more."""

    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        producers = [await client.producer().start() for _ in range(2)]
        consumer = await client.consumer(TOPIC).start()
        participant = await client.join_transaction(SharedBatch("t", "run", "app", 1))
        leaderless(cluster)
        deliveries = [await producer.send(TOPIC, b"a", partition=0) for producer in producers]
        closing = started(client.close())
        await asyncio.sleep(0.1)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert all(made.is_closed for made in (*producers, consumer, participant))
        assert all(delivery.done() for delivery in deliveries)
        before = len(cluster.calls)
        led_again(cluster)
        await asyncio.sleep(100)
        assert (len(cluster.calls), cluster.values(0)) == (before, [])
        for producer in producers:
            with pytest.raises(errors.DeliveryTimedOutError, match="closed before the acknowledgement"):
                await producer.close()  # once more: nothing, but for what was lost
        for made in (*producers, consumer, participant, client):
            await made.close()
        with pytest.raises(errors.OncelogError):
            deliveries[1].result()

    cluster.run(work)
