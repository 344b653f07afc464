"""What a query is told of its topics is told of one topic, also when another one has got the name."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from oncelog import sync
from oncelog.client.defaults import SystemClock
from oncelog.errors import UnknownTopicError
from pyspark_oncelog import cluster_view, worker_client
from pyspark_oncelog.offsets import PartitionPosition, Position, TopicPosition
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.positions import PartitionView, TopicView
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.test_following import append


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    append(cluster, 0, b"old", b"old too", b"the third")
    return cluster


@pytest.fixture(autouse=True)
def client(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[sync.Client]:
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as made:
        monkeypatch.setattr(worker_client, "client_for", lambda _connection: made)
        yield made


def options(**more: str) -> SourceOptions:
    return SourceOptions.parse({"bootstrapServers": "a:1", "subscribe": TOPIC, **more}, streaming=True)


def asked(cluster: FakeCluster, method: str) -> set[str]:
    """Ids of the topics that these calls were about."""
    found: list[Any] = [request for _, name, request in cluster.calls if name.endswith("." + method)]
    return {item.topic_id for request in found for item in getattr(request, "partitions", [request])}


def test_a_topic_that_was_created_again_under_a_running_query_has_its_own_ends(cluster: FakeCluster) -> None:
    assert cluster_view.load_view(options()) == {
        TOPIC: TopicView(TOPIC_ID, {0: PartitionView(0, 3, 0), 1: PartitionView(0, 0, 0)})
    }
    new_id = cluster.create_again()
    append(cluster, 0, b"new")
    cluster.calls.clear()
    assert cluster_view.load_view(options()) == {
        TOPIC: TopicView(new_id, {0: PartitionView(0, 1, 0), 1: PartitionView(0, 0, 0)})
    }
    assert asked(cluster, "ListOffsets") == {new_id}


def test_a_topic_that_is_created_again_while_it_is_looked_at_is_looked_at_once_more(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_of = cluster._ListOffsets
    ids: list[str] = []

    async def created_again(address: str, request: Any, payload: bytes) -> Any:
        if not ids:
            ids.append(cluster.create_again())
            append(cluster, 0, b"new")
        return await ends_of(address, request, payload)

    monkeypatch.setattr(cluster, "_ListOffsets", created_again)
    view = cluster_view.load_view(options())
    assert view == {TOPIC: TopicView(ids[0], {0: PartitionView(0, 1, 0), 1: PartitionView(0, 0, 0)})}


def test_times_are_looked_up_in_the_topic_of_the_view(cluster: FakeCluster) -> None:
    given = options(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest")
    cluster_view.load_view(given)
    new_id = cluster.create_again()
    view = cluster_view.load_view(given)
    cluster.calls.clear()
    cluster_view.resolve(given, given.starting, view)
    assert asked(cluster, "ListOffsets") == {new_id}


def test_where_an_epoch_ended_is_asked_of_the_topic_of_the_view(cluster: FakeCluster) -> None:
    old = cluster_view.load_view(options())
    assert cluster_view.epoch_ends(options(), {(TOPIC, 0): 0}, old) == {(TOPIC, 0): 3}
    cluster.create_again()
    append(cluster, 0, b"new")
    new = cluster_view.load_view(options())
    assert cluster_view.epoch_ends(options(), {(TOPIC, 0): 0}, new) == {(TOPIC, 0): 1}
    with pytest.raises(UnknownTopicError, match="created again"):
        cluster_view.epoch_ends(options(), {(TOPIC, 0): 0}, old)


def test_a_group_hears_only_of_offsets_of_the_topic_that_was_read(cluster: FakeCluster) -> None:
    def commit(topic_id: str, offset: int) -> None:
        topic = TopicPosition(topic_id, {0: PartitionPosition(offset, 0)})
        cluster_view.commit_group(options(commitGroup="g"), Position({TOPIC: topic}))

    commit(TOPIC_ID, 2)
    new_id = cluster.create_again()
    cluster_view.load_view(options())
    commit(TOPIC_ID, 3)
    commit(new_id, 1)
    assert cluster.offsets == {(TOPIC_ID, 0): 2, (new_id, 0): 1}
