"""What a producer's core is told about the client around it."""

from __future__ import annotations

from oncelog.client.home.context import now_ms
from oncelog.types import PartitionId
from oncelog.wire import methods
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster

P0 = PartitionId(TOPIC_ID, 0)


def test_the_facts_are_those_of_the_client() -> None:
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"v", partition=0)
            facts = producer._sender.deliveries.facts
            assert facts.leader(P0) == BROKERS[0]
            assert facts.leader(PartitionId(TOPIC_ID, 99)) is None
            assert not facts.is_gone(TOPIC_ID)
            assert facts.is_gone("another id")
            assert facts.newer_topic(TOPIC, TOPIC_ID) is None
            newer = facts.newer_topic(TOPIC, "an older id")
            assert newer is not None
            assert newer.topic_id == TOPIC_ID
            assert facts.delay_ms(1, at_least_ms=70_000) == 70_000

    cluster.run(work)


def test_a_quota_on_produce_holds_and_one_on_another_method_does_not() -> None:
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            facts, throttles, now = producer._sender.deliveries.facts, client._context.throttles, now_ms()
            throttles.told(BROKERS[0], methods.FETCH.name, 500, now)
            assert facts.held_until_ms(BROKERS[0], now) == 0
            throttles.told(BROKERS[0], methods.PRODUCE.name, 500, now)
            assert facts.held_until_ms(BROKERS[0], now) == now + 500
            assert facts.was_held_since(BROKERS[0], now)
            assert not facts.was_held_since(BROKERS[1], now)

    cluster.run(work)


def test_calls_under_way_are_counted_by_broker() -> None:
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            sender = producer._sender
            facts = sender.deliveries.facts
            request = sender._calls.prepare(sender._calls.lane(BROKERS[0]))
            assert [facts.calls_in_flight(address) for address in BROKERS[:2]] == [1, 0]
            sender._calls.start(request)
            await cluster.pause()
            assert facts.calls_in_flight(BROKERS[0]) == 0

    cluster.run(work)
