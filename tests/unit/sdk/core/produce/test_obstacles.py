"""Records that were not delivered say what stood in their way."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.produce.producer import Producer
from oncelog.core.throttles import Throttles
from oncelog.wire import methods
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


TOO_FEW = "NOT_ENOUGH_REPLICAS on orders-0: ISR 1 of 2 needed"


def too_few(cluster: FakeCluster) -> None:
    """From now on the ISR is below its minimum."""
    cluster.fail("append", *(errors.NotEnoughReplicasError(isr=1, min_insync_replicas=2) for _ in range(1_000)))


async def failure(producer: Producer) -> errors.OncelogError:
    """Why a record was not delivered."""
    with pytest.raises(errors.DeliveryTimedOutError) as caught:
        await producer.send_and_wait(TOPIC, b"a", partition=0)
    return caught.value


def test_a_delivery_time_out_names_the_isr_that_is_too_small(cluster: FakeCluster) -> None:
    too_few(cluster)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(delivery_timeout_ms=500) as producer:
            error = await failure(producer)
            assert str(error).startswith(f"{TOO_FEW}; delivery_timeout_ms passed: the records were not written")
            assert isinstance(error.__cause__, errors.NotEnoughReplicasError)
            assert error.context["written"] == "false"

    cluster.run(work)


def test_what_waits_behind_a_refused_batch_names_its_obstacle_too(cluster: FakeCluster) -> None:
    """Regression: "never sent" is no reason."""
    too_few(cluster)

    async def work(_: FakeCluster) -> None:
        config = {"delivery_timeout_ms": 500, "batch_size": 600, "max_in_flight_requests_per_connection": 1}
        async with cluster.client() as client, client.producer(**config) as producer:
            sent = [await producer.send(TOPIC, b"x" * 500, partition=0) for _ in range(3)]
            for delivery in sent:
                with pytest.raises(errors.DeliveryTimedOutError, match=TOO_FEW) as caught:
                    await delivery
                assert isinstance(caught.value.__cause__, errors.NotEnoughReplicasError)

    cluster.run(work)


def test_a_full_buffer_names_what_keeps_it_full(cluster: FakeCluster) -> None:
    too_few(cluster)

    async def work(_: FakeCluster) -> None:
        config = {"buffer_memory": 1_200, "batch_size": 600, "max_block_ms": 100, "delivery_timeout_ms": 1_000}
        async with cluster.client() as client:
            producer = client.producer(**config)
            for _ in range(2):
                await producer.send(TOPIC, b"x" * 20, partition=0)
                await cluster.pause()
            with pytest.raises(errors.BufferExhaustedError, match=TOO_FEW) as caught:
                await producer.send(TOPIC, b"x" * 500, partition=0)
            assert isinstance(caught.value.__cause__, errors.NotEnoughReplicasError)
            with pytest.raises(
                errors.DeliveryTimedOutError, match=f"closed before the acknowledgement came: {TOO_FEW}"
            ):
                await producer.close(timeout_ms=100)

    cluster.run(work)


def test_a_partition_without_a_leader_is_named(cluster: FakeCluster) -> None:
    cluster.leaders[0] = None

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(delivery_timeout_ms=500) as producer:
            assert str(await failure(producer)).startswith("LEADER_NOT_AVAILABLE on orders-0: ")

    cluster.run(work)


def test_a_quota_is_named(cluster: FakeCluster) -> None:
    """Regression: whoever is throttled until his records are too old hears of the quota."""
    throttles = cluster.throttles = Throttles()  # type: ignore[attr-defined]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(delivery_timeout_ms=500) as producer:
            now = int(asyncio.get_running_loop().time() * 1000)
            throttles.told(BROKERS[0], methods.PRODUCE.name, 60_000, now)
            error = await failure(producer)
            assert str(error).startswith("THROTTLING_QUOTA_EXCEEDED on orders-0: b0:1 makes this client wait")
            assert "produce_bytes_per_s" in str(error)
            assert isinstance(error.__cause__, errors.ThrottlingQuotaExceededError)

    cluster.run(work)
