"""A task reads the topic for which its range was planned, or says that it is gone."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from pyspark.sql.types import StructType

from oncelog import sync
from oncelog.client.defaults import SystemClock
from oncelog.errors import UnknownTopicError
from pyspark_oncelog import task_reader, worker_client
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.planning import OffsetRange
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.test_following import append

PLANNED = OffsetRange(TOPIC, 0, TOPIC_ID, 0, 2)


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    append(cluster, 0, b"old", b"old too")
    return cluster


@pytest.fixture(autouse=True)
def client(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[sync.Client]:
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as made:
        monkeypatch.setattr(worker_client, "client_for", lambda _connection: made)
        yield made


def values() -> list[bytes]:
    options = SourceOptions.parse({"bootstrapServers": "a:1", "subscribe": TOPIC}, streaming=True)
    schema = StructType().add("value", "binary")
    return [value for rows in task_reader.read_task(options, schema, [PLANNED]) for value in rows["value"].to_pylist()]


def test_a_task_reads_its_range() -> None:
    assert values() == [b"old", b"old too"]


def test_a_topic_that_is_created_again_once_the_task_has_begun_is_not_read_in_its_place(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The description was still the old topic's, and the name that was assigned already the new one's."""
    describe = task_reader._require_same_topic

    def then_create_again(*given: Any) -> None:
        describe(*given)
        if cluster.topic_id == TOPIC_ID:
            cluster.create_again()
            append(cluster, 0, b"new", b"new too")

    monkeypatch.setattr(task_reader, "_require_same_topic", then_create_again)
    with pytest.raises(UnknownTopicError, match="deleted and created again"):
        values()
