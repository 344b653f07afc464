"""The producer after failures: what became of a batch is asked, and topics that are deleted or created again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from oncelog import errors
from oncelog.client.produce.delivery import Delivery
from oncelog.client.produce.producer import Producer
from oncelog.core.produce.accumulator import Batch
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster, Lost, fast


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_an_unacknowledged_record_is_settled_as_written(cluster: FakeCluster) -> None:
    cluster.fail("Produce", *(Lost() for _ in range(100)))

    async def work(_: FakeCluster) -> int:
        config = fast(delivery_timeout_ms=500)
        async with cluster.client() as client, client.producer(**config) as producer:
            return (await producer.send_and_wait(TOPIC, b"v", partition=0)).offset

    assert cluster.run(work) == 0
    assert cluster.count("GetProducerState") == 1


def test_an_unacknowledged_record_is_settled_as_not_written(cluster: FakeCluster) -> None:
    cluster.fail("Produce", *(errors.NetworkError() for _ in range(1000)))

    async def work(_: FakeCluster) -> None:
        config = fast(delivery_timeout_ms=500)
        async with cluster.client() as client, client.producer(**config) as producer:
            with pytest.raises(errors.DeliveryTimedOutError) as caught:
                await producer.send_and_wait(TOPIC, b"0", partition=0)
            assert caught.value.context["written"] == "false"
            cluster.faults.clear()
            assert (await producer.send_and_wait(TOPIC, b"1", partition=0)).offset == 0

    cluster.run(work)
    assert cluster.values(0) == [b"1"]


def test_while_nobody_can_settle_the_outcome_is_unknown_and_nothing_overtakes(cluster: FakeCluster) -> None:
    cluster.fail("Produce", *(Lost() for _ in range(100)))
    cluster.fail("GetProducerState", *(errors.NetworkError() for _ in range(1000)))

    async def work(_: FakeCluster) -> None:
        config = fast(delivery_timeout_ms=500)
        async with cluster.client() as client, client.producer(**config) as producer:
            with pytest.raises(errors.DeliveryTimedOutError) as caught:
                await producer.send_and_wait(TOPIC, b"0", partition=0)
            assert "written" not in caught.value.context
            behind = await producer.send(TOPIC, b"1", partition=0)
            await asyncio.sleep(0.1)
            assert not behind.done()
            cluster.faults.clear()
            assert (await behind).offset == 1

    cluster.run(work)
    assert cluster.values(0) == [b"0", b"1"]


def test_a_topic_deleted_while_a_batch_is_in_question_fails_that_batch_alone(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fail("Produce", *(Lost() for _ in range(100)))

    is_asked = asyncio.Event()

    async def slow(address: str, request: Any, _: bytes) -> tuple[Any, bytes]:
        is_asked.set()
        await asyncio.sleep(0.08)
        return pb.GetProducerStateReply(written=False, base_offset=-1), b""

    monkeypatch.setattr(cluster, "_GetProducerState", slow)

    async def work(_: FakeCluster) -> None:
        config = fast(delivery_timeout_ms=500)
        async with cluster.client() as client, client.producer(**config) as producer:
            asked = await producer.send(TOPIC, b"0", partition=0)
            await is_asked.wait()
            cluster.faults.clear()
            cluster.topic_exists = False
            cluster.fail("append", errors.UnknownTopicError())
            other = await producer.send(TOPIC, b"1", partition=1)
            for failed in (asked, other):
                with pytest.raises(errors.UnknownTopicError):
                    await failed
            cluster.topic_exists = True
            await asyncio.sleep(1)
            assert (await producer.send_and_wait(TOPIC, b"2", partition=1)).offset == 0

    cluster.run(work)


def test_a_deleted_topic_fails_what_waits_for_it(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**fast()) as producer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            cluster.topic_exists = False
            cluster.fail("append", *(errors.UnknownTopicError() for _ in range(50)))
            with pytest.raises(errors.UnknownTopicError):
                await producer.send_and_wait(TOPIC, b"1", partition=0)

    cluster.run(work)


def test_a_question_refused_for_good_is_not_asked_for_ever(cluster: FakeCluster) -> None:
    cluster.fail("Produce", *(Lost() for _ in range(100)))
    cluster.fail("GetProducerState", *(errors.ClusterAuthorizationError("not yours") for _ in range(1000)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**fast(delivery_timeout_ms=500)) as producer:
            with pytest.raises(errors.DeliveryTimedOutError, match="not yours") as caught:
                await producer.send_and_wait(TOPIC, b"0", partition=0)
            assert "written" not in caught.value.context
            asked = cluster.count("GetProducerState")
            cluster.faults.clear()
            assert (await producer.send_and_wait(TOPIC, b"1", partition=0)).offset == 1
            assert cluster.count("GetProducerState") == asked

    cluster.run(work)
    assert cluster.values(0) == [b"0", b"1"]
    assert len({header.producer_id for header, _ in cluster.logs[PartitionId(TOPIC_ID, 0)].records}) == 2


def test_a_question_that_was_dropped_before_it_began_can_be_asked_again(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"v", partition=0)
            sender = producer._sender
            partition, batch = PartitionId(TOPIC_ID, 0), Batch(PartitionId(TOPIC_ID, 0), TOPIC, 0, 0)

            def ask() -> None:
                sender._core._ask_about(partition, batch)
                sender._act(sender.deliveries.taken())

            ask()
            sender.drop(errors.TxnEndedError("over"))
            await cluster.pause()
            assert cluster.count("GetProducerState") == 0
            ask()
            ask()
            await cluster.pause()
            assert cluster.count("GetProducerState") == 1

    cluster.run(work)


def test_after_delete_and_create_the_first_record_reaches_the_new_topic(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**fast()) as producer:
            await producer.send_and_wait(TOPIC, b"old", partition=0)
            new_id = cluster.create_again()
            sent = [await producer.send(TOPIC, b"%d" % i, partition=0, headers={"h": "1"}) for i in range(3)]
            assert [(await delivery).offset for delivery in sent] == [0, 1, 2]
            assert (await producer.send_and_wait(TOPIC, b"3", partition=0)).offset == 3
            new = cluster.logs[PartitionId(new_id, 0)].records
            assert [record.value for _, record in new] == [b"0", b"1", b"2", b"3"]
            assert new[0][1].headers == (("h", b"1"),)

    cluster.run(work)


async def _single(producer: Producer) -> list[Delivery]:
    return [await producer.send(TOPIC, b"new %d" % i, partition=0) for i in range(2)]


async def _run_of_threads(producer: Producer) -> list[Delivery]:
    handover, calls = producer.handover(), list[Callable[[], object]]()
    given = [handover.given(TOPIC, b"new %d" % i, None, 0, None, ()) for i in range(2)]
    first, second = [item for item in given if item is not None]
    await handover.put(first)
    assert handover.offer(second, calls.append)
    calls[0]()
    return [first, second]


@pytest.mark.parametrize("send", [_single, _run_of_threads], ids=["single", "from threads"])
@pytest.mark.parametrize("of_arrow", [False, True], ids=["rows", "Arrow data"])
def test_no_record_vanishes_behind_a_batch_that_moved_to_the_new_topic(
    cluster: FakeCluster, send: Callable[[Producer], Awaitable[list[Delivery]]], of_arrow: bool
) -> None:
    """It joined the batch, whose bytes were made already: acknowledged, and not written."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**fast()) as producer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            rows = pa.record_batch({"value": pa.array([b"old"])})
            old = await (producer.send_batch(TOPIC, rows, 0) if of_arrow else producer.send(TOPIC, b"old", partition=0))
            new_id = cluster.create_again()
            cluster.leaders[0] = None
            moved_to = PartitionId(new_id, 0)
            while moved_to not in producer._sender.deliveries.queues.waiting():
                await cluster.pause()
            new = await send(producer)
            cluster.leaders[0], cluster.epochs[0] = BROKERS[0], 1
            await old
            assert [(await delivery).offset for delivery in new] == [1, 2]
            assert (await producer.send_and_wait(TOPIC, b"next", partition=0)).offset == 3
            written = [record.value for _, record in cluster.logs[moved_to].records]
            assert written == [b"old", b"new 0", b"new 1", b"next"]

    cluster.run(work)


def test_what_may_be_in_the_old_topic_never_reaches_the_new_one(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**fast()) as producer:
            cluster.fail("Produce", Lost())
            doubtful = await producer.send(TOPIC, b"0", partition=0)
            await asyncio.sleep(0.05)
            new_id = cluster.create_again()
            with pytest.raises(errors.UnknownTopicError):
                await doubtful
            assert (await producer.send_and_wait(TOPIC, b"1", partition=0)).offset == 0
            assert [record.value for _, record in cluster.logs[PartitionId(new_id, 0)].records] == [b"1"]

    cluster.run(work)


def test_a_new_leader_is_found(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**fast()) as producer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            cluster.leaders[0], cluster.epochs[0] = None, 1
            waiting = await producer.send(TOPIC, b"1", partition=0)
            await asyncio.sleep(0.3)
            assert not waiting.done()
            cluster.leaders[0], cluster.epochs[0] = BROKERS[1], 2
            assert (await waiting).offset == 1

    cluster.run(work)


def test_a_frozen_leader_is_left_when_another_one_was_elected(cluster: FakeCluster) -> None:
    def freeze(address: str, request: Any) -> BaseException:
        cluster.leaders[0], cluster.epochs[0] = BROKERS[1], 1
        return Lost()

    cluster.fail("Produce", freeze)

    async def work(_: FakeCluster) -> float:
        async with cluster.client(request_timeout_ms=30_000) as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"v", partition=0)
            return cluster.loop.time()

    assert cluster.run(work) < 3.0
