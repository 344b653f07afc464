"""A send that waits is over with its transaction: what it waits to write is never written in the next one.

All transactions of a producer share one sender. It once took whatever came, for the transaction that was open by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from oncelog import errors
from oncelog.client.produce.producer import Producer
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.client.produce.writer import Message
from oncelog.types import PartitionId
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster

Send = Callable[[Transaction, bytes], Awaitable[object]]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


async def single(txn: Transaction, value: bytes) -> None:
    await txn.send(TOPIC, value, partition=0)


async def many(txn: Transaction, value: bytes) -> None:
    await txn.send_many(TOPIC, [Message(value, partition=0)])


async def arrow(txn: Transaction, value: bytes) -> None:
    await txn.send_batch(TOPIC, pa.record_batch({"value": [value]}), partition=0)


async def arrow_of_two_partitions(txn: Transaction, value: bytes) -> None:
    await txn.send_batch(TOPIC, pa.record_batch({"value": [value, value], "partition": [0, 1]}))


async def from_thread(txn: Transaction, value: bytes) -> None:
    handover = txn.handover()
    given = handover.given(TOPIC, value, None, 0, None, ())
    assert given is not None
    await handover.put(given)


async def turn() -> None:
    """Less time passes than a call takes."""
    await asyncio.sleep(0.0001)


async def waiters(producer: Producer, count: int) -> None:
    """So many sends wait for room."""
    while len(producer._sender.room) < count:
        await turn()


def written(cluster: FakeCluster) -> list[tuple[int, bytes | None]]:
    """Number of the transaction, and value, of every record."""
    return [
        (header.txn_no, record.value)
        for number in range(2)
        for header, record in cluster.logs[PartitionId(TOPIC_ID, number)].records
    ]


@pytest.mark.parametrize("send", [single, many, arrow, arrow_of_two_partitions, from_thread])
@pytest.mark.parametrize("end", [Transaction.commit, Transaction.abort])
def test_a_send_that_waited_for_the_topic_is_not_written_in_the_next_transaction(
    cluster: FakeCluster, send: Send, end: Any
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            cluster.late.update(BROKERS)
            first = await producer.begin_transaction()
            late = asyncio.ensure_future(send(first, b"of the first"))
            await cluster.pause()
            await end(first)
            second = await producer.begin_transaction()
            cluster.late.clear()
            with pytest.raises(errors.IllegalStateError, match="takes nothing more"):
                await late
            await second.send(TOPIC, b"of the second", partition=0)
            await second.commit()
            assert (first.txn_no, second.txn_no) == (1, 2)

    cluster.run(work)
    assert written(cluster) == [(2, b"of the second")]
    assert cluster.count("EnrolPartitions") == 0


@pytest.mark.parametrize("send", [single, many, arrow, from_thread])
def test_a_send_that_waits_for_room_while_its_transaction_commits_is_refused(cluster: FakeCluster, send: Send) -> None:
    """It was queued behind what the commit waited for: the coordinator was told of one record, and there were two."""

    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {"transactional_id": "t", "buffer_memory": 2_000, "batch_size": 1_000}
        async with cluster.client() as client, client.producer(**options) as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, bytes(1_400), partition=0)
            late = asyncio.ensure_future(send(txn, bytes(1_401)))
            await waiters(producer, 1)
            await txn.commit()
            with pytest.raises(errors.IllegalStateError, match="takes nothing more"):
                await late
            async with producer.transaction() as following:
                await following.send(TOPIC, b"of the next", partition=0)

    cluster.run(work)
    assert written(cluster) == [(1, bytes(1_400)), (2, b"of the next")]
    counts = [[(item.partition, item.records) for item in request.counts] for request in cluster.end_requests]
    assert [sum(records for _, records in told) for told in counts] == [1, 1]


def test_many_rows_of_which_some_had_to_wait_are_written_in_part_and_in_their_own_transaction(
    cluster: FakeCluster,
) -> None:
    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {"transactional_id": "t", "buffer_memory": 2_000, "batch_size": 1_000}
        async with cluster.client() as client, client.producer(**options) as producer:
            txn = await producer.begin_transaction()
            rows = [Message(b"%d" % number * 1_400, partition=0) for number in range(3)]
            late = asyncio.ensure_future(txn.send_many(TOPIC, rows))
            await waiters(producer, 1)
            await txn.commit()
            with pytest.raises(errors.IllegalStateError):
                await late

    cluster.run(work)
    assert written(cluster) == [(1, b"0" * 1_400)]


def test_room_that_a_refused_send_leaves_goes_to_the_next_one_at_once(cluster: FakeCluster) -> None:
    """It stayed with nobody until the next acknowledgement: without one, every send waited for max_block_ms."""

    async def work(_: FakeCluster) -> float:
        options: dict[str, Any] = {"transactional_id": "t", "buffer_memory": 2_000, "batch_size": 1_000}
        async with cluster.client() as client, client.producer(**options) as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, bytes(1_400), partition=0)
            late = [asyncio.ensure_future(single(txn, bytes(1_400))) for _ in range(3)]
            await waiters(producer, 3)
            await txn.commit()
            async with producer.transaction() as following:
                await following.send(TOPIC, b"of the next", partition=0)
            told = await asyncio.gather(*late, return_exceptions=True)
            assert [type(error) for error in told] == [errors.IllegalStateError] * 3
            return cluster.loop.time()

    assert cluster.run(work) < 1.0
    assert written(cluster)[-1] == (2, b"of the next")
