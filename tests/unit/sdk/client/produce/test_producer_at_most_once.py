"""The producer without acknowledgements (`acks=0`): at most once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire.wire_errors import to_detail
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, Lost, fast


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def careless(**options: Any) -> dict[str, Any]:
    return fast(acks=0, enable_idempotence=False, **options)


def test_without_acknowledgements_a_record_is_sent_once(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**careless()) as producer:
            assert (await producer.send_and_wait(TOPIC, b"v", partition=0)).offset == -1
            await asyncio.sleep(3)

    cluster.run(work)
    assert cluster.values(0) == [b"v"]
    assert cluster.count("Produce") == 1


@pytest.mark.parametrize("fault", [errors.NetworkError(), Lost()], ids=["broken", "answer lost"])
def test_without_acknowledgements_what_may_have_arrived_is_not_sent_again(
    cluster: FakeCluster, fault: BaseException
) -> None:
    cluster.fail("Produce", fault)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**careless()) as producer:
            assert (await producer.send_and_wait(TOPIC, b"v", partition=0)).offset == -1
            await producer.send_and_wait(TOPIC, b"w", partition=0)

    cluster.run(work)
    assert cluster.count("Produce") == 2
    assert cluster.values(0) == ([b"v", b"w"] if isinstance(fault, Lost) else [b"w"])


@pytest.mark.parametrize(
    "error", [errors.StorageError("bad disk"), errors.UnknownServerError()], ids=lambda e: e.code.name
)
def test_without_acknowledgements_an_error_told_of_a_batch_fails_it_and_it_is_not_sent_again(
    cluster: FakeCluster, error: errors.OncelogError
) -> None:
    """The other batch of the request counts as sent."""

    def of_one_batch(request: pb.ProduceRequest, reply: pb.ProduceReply, payload: bytes) -> tuple[Any, bytes]:
        told = pb.ProduceReply()
        for item in request.partitions:
            if item.partition == 0:
                told.partitions.add(topic_id=item.topic_id, partition=0).error.CopyFrom(to_detail(error))
        return told, payload

    cluster.lies["Produce"] = of_one_batch

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**careless(linger_ms=20)) as producer:
            failed = await producer.send(TOPIC, b"v", partition=0)
            sent = await producer.send(TOPIC, b"w", partition=1)
            with pytest.raises(type(error)):
                await producer.flush()
            with pytest.raises(type(error)):
                await failed
            assert (await sent).offset == -1
            await asyncio.sleep(3)

    cluster.run(work)
    assert (len(cluster.values(0)), cluster.values(1)) == (1, [b"w"])


def test_without_acknowledgements_a_leader_whose_disk_failed_is_left(cluster: FakeCluster) -> None:
    """Whoever leads now is asked for at once, not when the metadata is old."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**careless()) as producer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            cluster.leaders[0], cluster.epochs[0] = BROKERS[1], 1
            cluster.fail("Produce", errors.StorageError())
            with pytest.raises(errors.StorageError):
                await producer.send_and_wait(TOPIC, b"1", partition=0)
            await asyncio.sleep(1)
            cluster.down.add(BROKERS[0])
            await producer.send_and_wait(TOPIC, b"2", partition=0)

    cluster.run(work)
    assert cluster.values(0) == [b"0", b"2"]
    assert cluster.count("Produce") == 3, "the third went to the new leader at once"


def test_without_acknowledgements_a_deposed_leader_is_left(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**careless()) as producer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            cluster.leaders[0], cluster.epochs[0] = BROKERS[1], 1
            await producer.send_and_wait(TOPIC, b"1", partition=0)

    cluster.run(work)
    assert cluster.values(0) == [b"0", b"1"]


def test_without_acknowledgements_a_leader_that_is_down_is_waited_for(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**careless(delivery_timeout_ms=500)) as producer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            cluster.down.add(BROKERS[0])
            waiting = await producer.send(TOPIC, b"1", partition=0)
            await asyncio.sleep(0.3)
            cluster.down.clear()
            await waiting
            cluster.down.add(BROKERS[0])
            with pytest.raises(errors.DeliveryTimedOutError, match="were not written"):
                await producer.send_and_wait(TOPIC, b"2", partition=0)

    cluster.run(work)
    assert cluster.values(0) == [b"0", b"1"]
