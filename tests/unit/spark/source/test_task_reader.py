"""A task reads the topic for which its range was planned, or says that it is gone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from pyspark.sql.types import StructType

from oncelog import sync
from oncelog.client.defaults import SystemClock
from oncelog.errors import OffsetOutOfRangeError, UnknownTopicError
from oncelog.types import PartitionId
from pyspark_oncelog.options.read_write_options import SourceOptions
from pyspark_oncelog.source import task_reader
from pyspark_oncelog.source.planning import OffsetRange
from pyspark_oncelog.worker import worker_client
from tests.unit.sdk.client.consume.test_following import append
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster

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


def values(part: OffsetRange = PLANNED, **more: str) -> list[bytes]:
    options = SourceOptions.parse({"bootstrapServers": "a:1", "subscribe": TOPIC, **more}, streaming=True)
    schema = StructType().add("value", "binary")
    return [value for rows in task_reader.read_task(options, schema, [part]) for value in rows["value"].to_pylist()]


def test_a_task_reads_its_range() -> None:
    assert values() == [b"old", b"old too"]


def test_a_range_costs_its_fetches_and_nothing_else(cluster: FakeCluster) -> None:
    values()
    cluster.calls.clear()
    values()
    assert {method.rsplit(".")[-1] for _, method, _ in cluster.calls} == {"Fetch"}


def test_a_topic_that_is_created_again_once_the_task_has_begun_is_not_read_in_its_place(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The description was still the old topic's, and the name that was assigned already the new one's."""
    fetch = cluster._Fetch

    async def create_again_first(*given: Any) -> Any:
        if cluster.topic_id == TOPIC_ID:
            cluster.create_again()
            append(cluster, 0, b"new", b"new too")
        return await fetch(*given)

    monkeypatch.setattr(cluster, "_Fetch", create_again_first)
    with pytest.raises(UnknownTopicError, match="deleted and created again since the query was planned"):
        values()


def test_a_process_that_remembers_the_topic_before_it_was_created_again_reads_the_new_one(cluster: FakeCluster) -> None:
    values()
    new_id = cluster.create_again()
    append(cluster, 0, b"new", b"new too")
    assert values(dataclasses.replace(PLANNED, topic_id=new_id)) == [b"new", b"new too"]


# ------------------------------------------------------------ records that are deleted under a task


def delete(cluster: FakeCluster, before: int) -> None:
    cluster.logs[PartitionId(TOPIC_ID, 0)].start = before


def test_what_retention_leaves_of_a_range_is_read(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    """The whole rest of the range was left out."""
    append(cluster, 0, b"2", b"3", b"4")
    delete(cluster, 3)
    planned = dataclasses.replace(PLANNED, end=4)
    assert values(planned, failOnDataLoss="false") == [b"3"]
    assert "3 offsets, from 0 on, of partition 0 of orders are lost, and reading goes on at 3" in caplog.text
    with pytest.raises(OffsetOutOfRangeError):
        values(planned)


def test_retention_that_passes_a_task_costs_what_it_deletes(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2, 8):
        append(cluster, 0, b"%d" % number)
    monkeypatch.setattr(task_reader, "_rows", deletes_under(cluster, task_reader._rows))
    assert values(dataclasses.replace(PLANNED, end=8), failOnDataLoss="false") == [b"old", b"old too", b"6", b"7"]
    assert "4 offsets, from 2 on" in caplog.text


def deletes_under(cluster: FakeCluster, read: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Rows, of which those from 2 to 5 are deleted after the first ones were read."""

    def rows(client: Any, options: Any, part: OffsetRange, with_headers: bool) -> Iterator[Any]:
        if cluster.logs[PartitionId(TOPIC_ID, 0)].start:
            yield from read(client, options, part, with_headers)
            return
        yield from read(client, options, dataclasses.replace(part, end=2), with_headers)
        delete(cluster, 6)
        yield from read(client, options, dataclasses.replace(part, start=2), with_headers)

    return rows


@pytest.mark.parametrize("earliest", [2, 9])
def test_a_range_of_which_nothing_is_left_is_lost_whole(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, earliest: int
) -> None:
    append(cluster, 0, *(b"%d" % number for number in range(2, 12)))
    delete(cluster, earliest)
    assert values(failOnDataLoss="false") == []
    assert "offsets 0 to 1 of partition 0 of orders are lost" in caplog.text


def test_a_topic_that_is_gone_is_lost_whole(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.create_again()
    assert values(failOnDataLoss="false") == []
    assert "offsets 0 to 1 of partition 0 of orders are lost" in caplog.text


@pytest.mark.parametrize(
    ("options", "environment", "broker"),
    [
        ({}, "", BROKERS[0]),
        ({"clientRack": "b"}, "", BROKERS[1]),
        ({"kafka.client.rack": "b"}, "", BROKERS[1]),
        ({}, "b", BROKERS[1]),
        ({"clientRack": "a"}, "b", BROKERS[0]),
    ],
)
def test_a_task_reads_in_the_rack_of_the_option_or_of_its_executor(
    cluster: FakeCluster, options: dict[str, str], environment: str, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.racks[:] = ["a", "b"]
    cluster.answering.add(BROKERS[1])
    monkeypatch.setenv("ONCELOG_CLIENT_RACK", environment)
    assert values(**options) == [b"old", b"old too"]
    assert {address for address, method, _ in cluster.calls if method.endswith(".Fetch")} == {broker}
