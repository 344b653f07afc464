"""Of the brokers that describe the cluster, one that lags behind is not believed."""

from __future__ import annotations

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster

MANY = 20
"""Enough that each broker is asked."""


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_what_was_described_once_is_not_taken_back_by_a_broker_that_is_late(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.admin.describe_topic(TOPIC)
            cluster.fall_behind(BROKERS[1])
            new_id = cluster.create_again()
            while (await client.admin.describe_topic(TOPIC)).topic_id != new_id:
                pass
            for _ in range(MANY):
                assert (await client.admin.describe_topic(TOPIC)).topic_id == new_id

    cluster.run(work)
    asked = [address for address, method, _ in cluster.calls if method.endswith("GetMetadata")]
    assert set(asked[-MANY:]) == set(BROKERS)


def test_what_metadata_has_learnt_is_not_taken_back_either(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            cluster.fall_behind(BROKERS[1])
            new_id = cluster.create_again()
            while client._metadata.revision < cluster.revision:
                client._metadata._any_broker.ask_another()
                await client._metadata.refresh(client._context.deadline_ms())
            for _ in range(MANY):
                assert (await client.admin.describe_topic(TOPIC)).topic_id == new_id

    cluster.run(work)


def test_when_only_late_brokers_answer_it_is_said_instead_of_what_they_know(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(default_api_timeout_ms=2_000) as client:
            await client.admin.describe_topic(TOPIC)
            for address in BROKERS:
                cluster.behind[address] = (cluster.revision - 1, cluster.topic_id)
            with pytest.raises(errors.MetadataUnavailableError, match="know less than this client was told before"):
                await client.admin.describe_topic(TOPIC)
            cluster.behind.clear()
            assert (await client.admin.describe_topic(TOPIC)).topic_id == cluster.topic_id

    cluster.run(work)
    assert cluster.loop.time() < 2.5


def test_brokers_that_know_as_much_are_asked_once(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            asked = cluster.count("GetMetadata")
            for _ in range(MANY):
                await client.admin.describe_topic(TOPIC)
            assert cluster.count("GetMetadata") == asked + MANY

    cluster.run(work)
