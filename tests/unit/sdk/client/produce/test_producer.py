"""The producer as its user sees it: acknowledgements, failures that nobody awaited, and writing without idempotence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.hashing import partition_for_key
from oncelog.types import PartitionId
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster, fast
from tests.unit.sdk.client.sending import send_all


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_a_record_is_acknowledged_with_its_offset(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            first = await producer.send_and_wait(TOPIC, "text", key="k", headers={"h": "1"}, timestamp_ms=5)
            assert first.offset == 0
            assert (first.topic, first.timestamp_ms) == (TOPIC, 5)
            assert first.partition == partition_for_key(b"k", 2)

    cluster.run(work)
    _, record = cluster.logs[PartitionId(TOPIC_ID, partition_for_key(b"k", 2))].records[0]
    assert (record.key, record.value, record.headers) == (b"k", b"text", (("h", b"1"),))


def test_flush_and_close_raise_what_nobody_awaited(cluster: FakeCluster) -> None:
    cluster.fail("append", errors.InvalidRecordError(), errors.InvalidRecordError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = await client.producer(**fast()).start()
            await producer.send(TOPIC, b"0", partition=0)
            with pytest.raises(errors.InvalidRecordError):
                await producer.flush()
            await producer.flush()
            await producer.send(TOPIC, b"1", partition=0)
            with pytest.raises(errors.InvalidRecordError):
                await producer.close()
            with pytest.raises(errors.IllegalStateError):
                await producer.send(TOPIC, b"2")

    cluster.run(work)


def test_without_idempotence_batches_carry_no_sequence(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        options = {"enable_idempotence": False, "acks": 1}
        async with cluster.client() as client, client.producer(**options) as producer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)

    cluster.run(work)
    header, _ = cluster.logs[PartitionId(TOPIC_ID, 0)].records[0]
    assert (header.producer_id, header.base_sequence) == (-1, -1)
    assert cluster.count("InitProducerId") == 0
    assert [r.acks for _, m, r in cluster.calls if m.endswith(".Produce")] == [1]


def test_cancelling_a_wait_harms_nobody_else(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            a, b = await send_all(producer, range(2))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.ensure_future(_wait(a)), 0.0001)
            assert (await b).offset == 1
            assert (await a).offset == 0

    cluster.run(work)


async def _wait(item: Any) -> Any:
    return await item
