"""What a client is told by a whole simulated cluster of which two brokers are gone."""

from __future__ import annotations

import asyncio
import re

import pytest

from oncelog import errors
from tests.simulation.cluster import SimCluster

TOPIC = "orders"
BELOW = r"NOT_ENOUGH_REPLICAS on {}: ISR 1 of 2 needed"


async def one_broker_left(cluster: SimCluster) -> None:
    """The others are gone for good, and the survivor knows it."""
    await cluster.healthy()
    async with cluster.client("admin") as client:
        await client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
        async with client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"before")
    for name in ("broker-1", "broker-2"):
        cluster.node(name).crash()
    await asyncio.sleep(30)


@pytest.mark.parametrize("seed", range(2))
def test_a_record_that_is_refused_below_the_minimum_isr_says_so(seed: int) -> None:
    async def main(cluster: SimCluster) -> None:
        await one_broker_left(cluster)
        async with cluster.client("writer") as client:
            producer = client.producer(delivery_timeout_ms=5_000)
            delivery = await producer.send(TOPIC, b"x", partition=0)
            with pytest.raises(errors.DeliveryTimedOutError, match=BELOW.format("orders-0")):
                await delivery

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))


@pytest.mark.parametrize("seed", range(2))
def test_a_coordinator_whose_log_is_refused_says_so(seed: int) -> None:
    async def main(cluster: SimCluster) -> None:
        await one_broker_left(cluster)
        async with cluster.client("writer", default_api_timeout_ms=60_000) as client:
            with pytest.raises(errors.OncelogError) as caught:
                await client.producer(transactional_id="t").start()
            assert re.search(BELOW.format(r"__transaction_state-\d+"), str(caught.value)), str(caught.value)

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))
