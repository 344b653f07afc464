"""Produce calls: what travels together, how many are in flight, and whom a call that ended in trouble is told of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.home.context import now_ms
from oncelog.client.produce.produce_calls import ProduceCalls
from oncelog.core.produce.accumulator import Batch
from oncelog.types import PartitionId
from tests.unit.sdk.client.fake_cluster import BROKERS, LATENCY_S, TOPIC, TOPIC_ID, FakeCluster, Lost, fast
from tests.unit.sdk.client.sending import numbers, send_all
from tests.unit.sdk.client.virtual_loop import VirtualLoop


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


@pytest.mark.parametrize("most", [1, 3, 5, 16])
def test_no_more_calls_than_allowed_are_in_flight_to_one_broker(cluster: FakeCluster, most: int) -> None:
    in_flight = [0, 0]
    honest = cluster._Produce

    async def slow(address: str, request: Any, payload: bytes) -> tuple[Any, bytes]:
        in_flight[0] += 1
        in_flight[1] = max(in_flight)
        answer = await honest(address, request, payload)
        await asyncio.sleep(0.01)
        in_flight[0] -= 1
        return answer

    cluster._Produce = slow  # type: ignore[method-assign]

    async def work(_: FakeCluster) -> None:
        config = {"batch_size": 600, "max_in_flight_requests_per_connection": most}
        async with cluster.client() as client, client.producer(**config) as producer:
            deliveries = await send_all(producer, range(200))
            assert [(await d).offset for d in deliveries] == list(range(200))

    cluster.run(work)
    assert in_flight == [0, most]


def test_one_record_does_not_stand_behind_the_backlog_of_another_partition() -> None:
    """Regression: full batches kept their broker at 16 calls, and an open one elsewhere waited for fewer than five."""
    cluster = FakeCluster(partitions=3)
    cluster.loop = VirtualLoop()
    honest, free_at = cluster._Produce, [0.0]

    async def one_after_the_other(address: str, request: Any, payload: bytes) -> tuple[Any, bytes]:
        answer = await honest(address, request, payload)
        now = asyncio.get_running_loop().time()
        free_at[0] = max(free_at[0] + 0.002, now + 0.005)
        await asyncio.sleep(free_at[0] - now)
        return answer

    cluster._Produce = one_after_the_other  # type: ignore[method-assign]

    async def work(_: FakeCluster) -> None:
        loop = asyncio.get_running_loop()
        async with cluster.client() as client, client.producer(batch_size=2_000) as producer:
            for partition in (0, 2):
                await producer.send_and_wait(TOPIC, b"first", partition=partition)
            backlog = []
            for number in range(20_000):
                backlog.append(await producer.send(TOPIC, bytes(100), partition=0))
                if number % 50 == 0:
                    await asyncio.sleep(0)  # full batches go meanwhile
            await asyncio.sleep(0.0205)
            begin = loop.time()
            await producer.send_and_wait(TOPIC, b"cold", partition=2)
            assert loop.time() - begin < 0.1
            assert not backlog[-1]._batch.done

    cluster.run(work)


@pytest.mark.parametrize("is_sent", [False, True], ids=["before the transport had it", "on its way"])
def test_a_call_that_is_given_up_is_answered_once_and_says_whether_it_may_have_arrived(
    cluster: FakeCluster, is_sent: bool
) -> None:
    answers: list[tuple[str, str | None]] = []

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            calls = ProduceCalls(
                client._context,
                acks=-1,
                on_answer=lambda batch, error, _: answers.append((batch.topic, error and error.context["unsent"])),
                on_free=lambda _: None,
                on_crash=lambda error: pytest.fail(repr(error)),
            )
            cluster.fail("Produce", Lost())
            request = calls.prepare(calls.lane(BROKERS[0]))
            request.add(Batch(PartitionId(TOPIC_ID, 0), TOPIC, now_ms(), now_ms() + 60_000))
            assert request.lane.in_flight == 1
            calls.start(request)
            if is_sent:
                await asyncio.sleep(LATENCY_S / 2)
            calls.abandon(request)
            await cluster.pause()
            assert request.lane.in_flight == 0

    cluster.run(work)
    assert answers == [(TOPIC, "false" if is_sent else "true")]


def test_a_slow_call_is_known_by_its_age(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            cluster.fail("Produce", Lost())
            await producer.send(TOPIC, b"v", partition=0)
            await asyncio.sleep(0.5)
            calls = producer._sender._calls
            assert calls.slow(600) == []
            (request,) = calls.slow(400)
            assert request.lane.address == BROKERS[0]
            calls.abandon(request)

    cluster.run(work)
