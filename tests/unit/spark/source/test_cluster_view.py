"""What a query is told of its topics is told of one topic, also when another one has got the name."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from oncelog import sync
from oncelog.client.defaults import SystemClock
from oncelog.errors import ConfigError, UnknownTopicError
from pyspark_oncelog.options.offsets import PartitionPosition, Position, TopicPosition
from pyspark_oncelog.options.read_write_options import SourceOptions
from pyspark_oncelog.source import cluster_view
from pyspark_oncelog.source.positions import NOT_ASKED, PartitionView, TopicView
from pyspark_oncelog.source.stream_reader import OncelogStreamReader
from pyspark_oncelog.worker import worker_client
from tests.unit.sdk.client.consume.test_following import append
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster


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


def test_a_micro_batch_asks_each_leader_once_for_starts_and_once_for_ends_at_the_same_time(
    cluster: FakeCluster,
) -> None:
    source = OncelogStreamReader(options(startingOffsets="earliest"), StructType())
    start = source.initialOffset()
    source.latestOffset(start, ReadAllAvailable())
    cluster.calls.clear()
    end = source.latestOffset(start, ReadAllAvailable())
    assert (cluster.count("GetMetadata"), cluster.count("ListOffsets")) == (1, 4), "there are two leaders"
    assert times(cluster) == [-2, -2, -1, -1]
    cluster.calls.clear()
    [task] = source.partitions(start, end)
    assert cluster.calls == []
    again = OncelogStreamReader(options(), StructType())
    [same] = again.partitions(start, end)
    assert same.value == task.value
    assert (cluster.count("GetMetadata"), times(cluster)) == (1, [-2, -2])


def times(cluster: FakeCluster) -> list[int]:
    requests = [request for _, name, request in cluster.calls if name.endswith(".ListOffsets")]
    return sorted(item.timestamp_ms for request in requests for item in request.partitions)


def test_an_end_that_was_looked_up_before_records_were_deleted_is_not_below_the_start(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_of = cluster._ListOffsets

    async def deleted_meanwhile(address: str, request: Any, payload: bytes) -> Any:
        reply, bulk = await ends_of(address, request, payload)
        for item in reply.partitions:
            item.offset = {-2: 7, -1: 3}[request.partitions[0].timestamp_ms]
        return reply, bulk

    monkeypatch.setattr(cluster, "_ListOffsets", deleted_meanwhile)
    assert cluster_view.load_view(options())[TOPIC].partitions[0] == PartitionView(7, 7, 0)


@pytest.mark.parametrize(("starts_at", "end", "epoch"), [(0, 200, 5), (200, 200, 5), (210, 210, 4)])
def test_an_end_has_the_epoch_of_the_leader_that_told_it(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, starts_at: int, end: int, epoch: int
) -> None:
    """The description is older: with its epoch, 0, an end that the next leader told looks like one that was cut."""
    ends_of = cluster._ListOffsets

    async def led_by_another_one(address: str, request: Any, payload: bytes) -> Any:
        reply, bulk = await ends_of(address, request, payload)
        for item in reply.partitions:
            item.offset, item.leader_epoch = {-2: (starts_at, 4), -1: (200, 5)}[request.partitions[0].timestamp_ms]
        return reply, bulk

    monkeypatch.setattr(cluster, "_ListOffsets", led_by_another_one)
    assert cluster_view.load_view(options())[TOPIC].partitions[0] == PartitionView(starts_at, end, epoch)
    only_starts = cluster_view.load_view(options(), with_ends=False)
    assert only_starts[TOPIC].partitions[0] == PartitionView(starts_at, NOT_ASKED, 4)


@pytest.mark.parametrize(("timeout_ms", "waits_ms"), [("60000", 3_000), ("50", 50)])
def test_a_group_is_not_waited_for_longer_than_seconds(
    cluster: FakeCluster, client: sync.Client, monkeypatch: pytest.MonkeyPatch, timeout_ms: str, waits_ms: int
) -> None:
    given: list[dict[str, Any]] = []
    made = client.consumer
    monkeypatch.setattr(client, "consumer", lambda **limits: given.append(limits) or made(**limits))
    position = Position({TOPIC: TopicPosition(TOPIC_ID, {0: PartitionPosition(2, 0)})})
    cluster_view.commit_group(options(commitGroup="g", requestTimeoutMs=timeout_ms), position)
    assert given == [{"group_id": "g", "request_timeout_ms": waits_ms, "default_api_timeout_ms": waits_ms}]


def test_a_topic_that_does_not_exist_is_an_error_or_left_out(cluster: FakeCluster) -> None:
    given = options(subscribe=f"{TOPIC},nowhere")
    with pytest.raises(UnknownTopicError, match="oncelog topic create nowhere"):
        cluster_view.load_view(given)
    assert list(cluster_view.load_view(given, missing_topics=True)) == [TOPIC]


def test_a_query_that_may_lose_data_begins_with_the_topics_that_are_there(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """One that was deleted before the first micro-batch was committed kept the others from being read."""
    given = {
        "subscribe": f"{TOPIC},nowhere",
        "startingOffsets": f'{{"{TOPIC}":{{"0":9}},"nowhere":{{"0":1}}}}',
        "failOnDataLoss": "false",
    }
    start = OncelogStreamReader(options(**given), StructType()).initialOffset()
    assert start["topics"] == {TOPIC: {"id": TOPIC_ID, "p": {"0": [3, 0], "1": [0, 0]}}}
    assert "no such topic: nowhere" in caplog.text
    with pytest.raises(UnknownTopicError, match="oncelog topic create nowhere"):
        OncelogStreamReader(options(subscribe=f"{TOPIC},nowhere"), StructType()).initialOffset()
    with pytest.raises(UnknownTopicError, match="oncelog topic create nowhere"):
        OncelogStreamReader(options(subscribe="nowhere", failOnDataLoss="false"), StructType()).initialOffset()


def test_a_partition_that_is_assigned_and_not_there_is_named() -> None:
    given = SourceOptions.parse({"bootstrapServers": "a:1", "assign": f'{{"{TOPIC}":[9]}}'}, streaming=True)
    with pytest.raises(ConfigError, match="option assign names a partition"):
        cluster_view.load_view(given)
