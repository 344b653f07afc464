"""What is on its way: callbacks, failures that nobody saw, counts of rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.produce.delivery import BatchDelivery, Delivery, Parts
from oncelog.client.produce.producer import Producer
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.client.produce.writer import Message
from oncelog.core.produce.accumulator import Batch
from oncelog.types import PartitionId
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.sending import functions_of


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_a_callback_is_called_once_with_the_outcome(cluster: FakeCluster) -> None:
    """Regression: a Delivery took no callbacks."""
    cluster.fail("append", None, errors.InvalidRecordError("no"))
    called: list[str] = []

    def note(delivery: Delivery) -> None:
        try:
            called.append(f"at {delivery.result().offset}")
        except errors.OncelogError as error:
            called.append(str(error))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            first = await producer.send(TOPIC, b"a", partition=0)
            first.add_done_callback(note)
            first.add_done_callback(lambda _: called.append("second"))
            await producer.flush()
            await cluster.pause()
            assert sorted(called) == ["at 0", "second"]
            first.add_done_callback(note)
            assert called[2:] == [], "never in the call that adds it"
            await cluster.pause()
            assert called[2:] == ["at 0"]
            (await producer.send(TOPIC, b"b", partition=0)).add_done_callback(note)
            await producer.flush()  # raises nothing: the failure is the callback's
            await cluster.pause()
            assert called[3:] == ["no"]

    cluster.run(work)


def test_a_callback_of_many_rows_waits_for_all_of_them(cluster: FakeCluster) -> None:
    called: list[int] = []

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(batch_size=600) as producer:
            sent = await producer.send_many(TOPIC, [b"x" * 100 for _ in range(50)])
            sent.add_done_callback(lambda done: called.append(sum(part.records for part in done.result())))
            await producer.flush()
            await cluster.pause()

    cluster.run(work)
    assert called == [50]


def test_a_callback_that_raises_harms_nobody(cluster: FakeCluster) -> None:
    told: list[object] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        async with cluster.client() as client, client.producer() as producer:
            sent = await producer.send(TOPIC, b"a", partition=0)
            sent.add_done_callback(lambda _: [][0])
            assert (await sent).offset == 0

    asyncio.run(work())
    assert [type(error) for error in told] == [IndexError]


# ---------------------------------------------------------------- failures that nobody saw


async def refused(cluster: FakeCluster, producer: Producer) -> Delivery:
    """A record that is going to be refused."""
    cluster.fail("append", errors.InvalidRecordError("refused"))
    return await producer.send(TOPIC, b"v", partition=0)


async def _wait(item: Any) -> Any:
    return await item


def test_after_any_number_of_caught_failures_a_lost_record_is_raised(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            for _ in range(100):
                with pytest.raises(errors.InvalidRecordError):
                    await (await refused(cluster, producer))
            await refused(cluster, producer)
            with pytest.raises(errors.InvalidRecordError):
                await producer.flush()

    cluster.run(work)


def test_a_failure_that_was_seen_of_one_record_is_still_raised_for_its_neighbour(cluster: FakeCluster) -> None:
    """Both are in one batch, and only one of them was awaited."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            await refused(cluster, producer)
            seen = await producer.send(TOPIC, b"neighbour", partition=0)
            for _ in range(2):
                with pytest.raises(errors.InvalidRecordError):
                    await seen
            with pytest.raises(errors.InvalidRecordError):
                await producer.flush()
            await producer.flush()

    cluster.run(work)


async def _one(producer: Producer) -> Delivery | BatchDelivery:
    return await producer.send(TOPIC, b"v", partition=0)


async def _many(producer: Producer) -> Delivery | BatchDelivery:
    return await producer.send_many(TOPIC, [Message(b"v", partition=0), Message(b"w", partition=1)])


@pytest.mark.parametrize("send", [_one, _many])
def test_whoever_gave_up_waiting_has_not_seen_the_failure(cluster: FakeCluster, send: Any) -> None:
    cluster.fail("append", *(errors.InvalidRecordError("refused") for _ in range(2)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = await client.producer(linger_ms=500).start()
            sent = await send(producer)
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(_wait(sent), 0.01)
            with pytest.raises(errors.InvalidRecordError):
                await producer.close()

    cluster.run(work)


@pytest.mark.parametrize("send", [_one, _many])
def test_whoever_still_waits_has_seen_it_though_another_one_gave_up(cluster: FakeCluster, send: Any) -> None:
    cluster.fail("append", *(errors.InvalidRecordError("refused") for _ in range(2)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(linger_ms=500) as producer:
            sent = await send(producer)
            waits = asyncio.ensure_future(_wait(sent))
            await cluster.pause()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_wait(sent), 0.01)
            await producer.flush()
            with pytest.raises(errors.InvalidRecordError):
                await waits

    cluster.run(work)


def depth(error: BaseException) -> int:
    trace, steps = error.__traceback__, 0
    while trace is not None:
        trace, steps = trace.tb_next, steps + 1
    return steps


async def _send(txn: Transaction, _: Delivery) -> None:
    await txn.send(TOPIC, b"x")


async def _commit(txn: Transaction, _: Delivery) -> None:
    await txn.commit()


async def _await(_: Transaction, sent: Delivery) -> None:
    await sent


async def _ask_sender(txn: Transaction, _: Delivery) -> None:
    txn._sender.room.refuse_when_over()


@pytest.mark.parametrize("call", [_send, _commit, _await, _ask_sender])
def test_an_error_that_is_raised_again_and_again_does_not_grow(cluster: FakeCluster, call: Any) -> None:
    """It held the local variables, and so the records, of all calls that had raised it."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            txn = await producer.begin_transaction()
            cluster.fail("append", errors.InvalidRecordError("refused"))
            sent = await txn.send(TOPIC, b"v", partition=0)
            while not sent.done():
                await cluster.pause()
            for _ in range(50):
                with pytest.raises(errors.InvalidRecordError) as raised:
                    await call(txn, sent)
                assert depth(raised.value) < 20
            await txn.abort()

    cluster.run(work)


# ---------------------------------------------------------------- many rows


def test_many_rows_count_themselves_and_not_their_neighbours_in_the_batch(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(linger_ms=100) as producer:
            await producer.send(TOPIC, b"before", partition=0)

            def rows() -> Iterator[Message]:
                yield Message(b"a", partition=0)
                yield Message(b"b", partition=1)
                yield Message(b"c", partition=0)
                interposed.append(asyncio.ensure_future(producer.send(TOPIC, b"not ours", partition=1)))

            interposed: list[asyncio.Future[Delivery]] = []
            sent = await producer.send_many(TOPIC, rows())
            await interposed[0]
            await producer.send(TOPIC, b"after", partition=0)
            assert sent.rows == 3
            assert [(at.partition, at.base_offset, at.records) for at in await sent] == [(0, 1, 2), (1, 0, 1)]
        assert cluster.values(0)[1:3] == [b"a", b"c"]

    cluster.run(work)


def test_rows_between_which_others_were_queued_are_in_ranges_of_their_own() -> None:
    batch, other = Batch(PartitionId("t", 0), "t", 0, 0), Batch(PartitionId("t", 1), "t", 0, 0)
    queued = Parts()
    for where, index in ((batch, 3), (batch, 4), (other, 0), (batch, 7)):
        queued.add(where, index)
    batch.resolve(None, base_offset=100)
    other.resolve(None)
    sent = queued.delivery()
    assert (sent.rows, queued.rows) == (4, 4)
    assert [(at.base_offset, at.records) for at in sent.result()] == [(103, 2), (107, 1), (-1, 1)]


def test_a_failure_that_a_delivery_has_raised_does_not_grow_with_the_flush_that_raises_it(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(linger_ms=50) as producer:
            first = await producer.send(TOPIC, b"a", partition=0)
            await producer.send(TOPIC, b"b", partition=1)
            producer._sender._crashed(ZeroDivisionError("a defect"))
            with pytest.raises(errors.IllegalStateError):
                first.result()
            with pytest.raises(errors.IllegalStateError) as raised:
                await producer.flush()
            assert "result" not in functions_of(raised.value)

    cluster.run(work)
