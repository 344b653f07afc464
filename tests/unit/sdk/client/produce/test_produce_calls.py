"""Produce calls: what travels together, how many are in flight, and whom a call that ended in trouble is told of."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, fast
from tests.unit.sdk.client.sending import numbers, send_all


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_records_sent_together_travel_together(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            deliveries = await send_all(producer, range(100))
            assert [(await d).offset for d in deliveries] == list(range(100))

    cluster.run(work)
    assert cluster.count("Produce") == 1
    assert cluster.values(0) == numbers(range(100))


def test_one_request_carries_one_batch_of_each_partition_of_a_broker() -> None:
    cluster = FakeCluster(partitions=4)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            for partition in range(4):
                await send_all(producer, range(5), partition)
            await producer.flush()

    cluster.run(work)
    produced = [(a, [p.partition for p in r.partitions]) for a, m, r in cluster.calls if m.endswith(".Produce")]
    assert sorted(produced) == [(BROKERS[0], [0, 2]), (BROKERS[1], [1, 3])]


@pytest.mark.parametrize("lost", range(5))
def test_order_holds_when_one_of_five_in_flight_is_lost(cluster: FakeCluster, lost: int) -> None:
    cluster.fail("Produce", *(errors.NetworkError() if i == lost else None for i in range(5)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**fast(batch_size=600)) as producer:
            deliveries = await send_all(producer, range(40))
            assert sorted([(await d).offset for d in deliveries]) == list(range(40))

    cluster.run(work)
    assert cluster.values(0) == numbers(range(40))


def careless(**options: Any) -> dict[str, Any]:
    return fast(acks=0, enable_idempotence=False, **options)


def test_a_batch_whose_turn_never_came_is_certainly_not_written(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is given up before the transport has it leaves no doubt."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**careless()) as producer:
            await producer.send_and_wait(TOPIC, b"0", partition=0)
            calls = producer._sender._calls
            start = calls.start

            def start_and_abandon(request: Any) -> None:
                monkeypatch.undo()
                start(request)
                assert not request.is_sent
                calls.abandon(request)

            monkeypatch.setattr(calls, "start", start_and_abandon)
            await producer.send_and_wait(TOPIC, b"1", partition=0)

    cluster.run(work)
    assert cluster.values(0) == [b"0", b"1"]
