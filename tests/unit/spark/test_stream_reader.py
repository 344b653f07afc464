"""What the streaming source answers to Spark, over a log that grows under it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from oncelog.errors import ConfigError, NetworkError, OffsetOutOfRangeError
from pyspark_oncelog import cluster_view
from pyspark_oncelog.datasource import DefaultSource
from pyspark_oncelog.offsets import Position
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.positions import PartitionView, TopicView
from pyspark_oncelog.stream_reader import OncelogStreamReader, RefusedStreamReader

ALL = ReadAllAvailable()


class FakeLog:
    """One topic with two partitions."""

    def __init__(self) -> None:
        self.ends = [10, 20]
        self.log_ends: list[int] = []  # where an open transaction holds the stable ends back
        self.starts = [0, 0]
        self.epoch = 1
        self.epoch_ends: dict[tuple[str, int], int] = {}
        self.committed: list[dict[str, Any]] = []
        self.commit_error: NetworkError | None = None

    def view(self, options: SourceOptions, _missing_topics: bool = False) -> dict[str, TopicView]:
        ends = self.ends if options.read_committed else self.log_ends or self.ends
        parts = {p: PartitionView(self.starts[p], end, self.epoch) for p, end in enumerate(ends)}
        return {"t": TopicView("id", parts)}

    def commit(self, _options: SourceOptions, at: Position) -> None:
        if self.commit_error is not None:
            raise self.commit_error
        self.committed.append(offsets_of(at.to_json()))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> FakeLog:
    fake = FakeLog()
    monkeypatch.setattr(cluster_view, "load_view", fake.view)
    monkeypatch.setattr(cluster_view, "commit_group", fake.commit)
    monkeypatch.setattr(
        cluster_view, "epoch_ends", lambda _options, asked, _view: {w: fake.epoch_ends[w] for w in asked}
    )
    return fake


def reader(**options: str) -> OncelogStreamReader:
    given = {"bootstrapServers": "a:1", "subscribe": "t", "startingOffsets": "earliest", **options}
    return OncelogStreamReader(SourceOptions.parse(given, streaming=True), StructType())


def offsets_of(position: dict[str, Any]) -> dict[str, Any]:
    return {p: at[0] for p, at in position["topics"]["t"]["p"].items()}


def test_the_start_is_the_same_however_often_spark_asks(log: FakeLog) -> None:
    source = reader(startingOffsets="latest")
    first = source.initialOffset()
    log.ends = [99, 99]
    assert source.initialOffset() == first
    assert offsets_of(first) == {"0": 10, "1": 20}


def test_a_micro_batch_ends_at_what_can_be_read_or_at_the_limit(log: FakeLog) -> None:
    source = reader(maxOffsetsPerTrigger="3")
    start = source.initialOffset()
    assert source.getDefaultReadLimit() == ReadMaxRows(3)
    assert offsets_of(source.latestOffset(start, ReadMaxRows(3))) == {"0": 1, "1": 2}
    assert offsets_of(source.latestOffset(start, ALL)) == {"0": 10, "1": 20}


def test_a_run_that_ends_by_itself_ends_where_the_log_was(log: FakeLog) -> None:
    source = reader()
    source.prepareForTriggerAvailableNow()
    log.ends = [50, 50]
    end = source.latestOffset(source.initialOffset(), ALL)
    assert offsets_of(end) == {"0": 10, "1": 20}
    assert source.latestOffset(end, ALL) == end
    assert offsets_of(source.reportLatestOffset() or {}) == {"0": 50, "1": 50}


def test_a_micro_batch_waits_for_enough_but_the_first_does_not(log: FakeLog) -> None:
    source = reader(minOffsetsPerTrigger="5")
    end = source.latestOffset(source.initialOffset(), ALL)
    log.ends = [12, 22]
    assert source.latestOffset(end, ALL) == end
    log.ends = [12, 23]
    assert offsets_of(source.latestOffset(end, ALL)) == {"0": 12, "1": 23}


def test_waiting_has_an_end(log: FakeLog) -> None:
    source = reader(minOffsetsPerTrigger="5", maxTriggerDelay="0s")
    end = source.latestOffset(source.initialOffset(), ALL)
    log.ends = [11, 20]
    assert offsets_of(source.latestOffset(end, ALL)) == {"0": 11, "1": 20}


def test_tasks_of_a_replay_are_those_of_the_first_time(log: FakeLog) -> None:
    source = reader(minRowsPerTask="1")
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    planned = [p.value for p in source.partitions(start, end)]
    log.ends = [500, 500]
    assert [p.value for p in reader(minRowsPerTask="1").partitions(start, end)] == planned
    assert [(r.partition, r.start, r.end) for task in planned for r in task] == [(0, 0, 10), (1, 0, 20)]


def test_lost_records_end_the_query_unless_the_user_allows_it(log: FakeLog) -> None:
    start = reader().initialOffset()
    end = reader().latestOffset(start, ALL)
    log.starts = [4, 0]
    with pytest.raises(OffsetOutOfRangeError, match=r"begins at offset 4.*failOnDataLoss=false"):
        reader().partitions(start, end)
    [task] = reader(failOnDataLoss="false").partitions(start, end)
    assert [(r.partition, r.start, r.end) for r in task.value] == [(0, 4, 10), (1, 0, 20)]


def test_a_log_that_was_cut_under_another_leader_ends_the_query(log: FakeLog) -> None:
    start = reader().latestOffset(reader().initialOffset(), ALL)
    log.ends, log.epoch, log.epoch_ends = [15, 20], 2, {("t", 0): 8}
    end = reader().latestOffset(start, ALL)
    with pytest.raises(OffsetOutOfRangeError, match="was cut to offset 8, below 10"):
        reader().partitions(start, end)


def test_a_group_hears_of_every_batch_that_spark_has_committed(log: FakeLog) -> None:
    source = reader(commitGroup="g")
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    source.commit(end)
    source.latestOffset(end, ALL)  # where the commit of the last batch would be missing
    assert log.committed == [{"0": 0, "1": 0}, {"0": 10, "1": 20}]


def test_a_group_that_cannot_be_told_stops_nothing(log: FakeLog) -> None:
    source = reader(commitGroup="g")
    log.commit_error = NetworkError()
    source.commit(source.initialOffset())
    log.commit_error = None
    source.commit(source.initialOffset())
    assert log.committed == [{"0": 0, "1": 0}]


def test_without_a_group_nothing_is_committed(log: FakeLog) -> None:
    source = reader()
    source.commit(source.initialOffset())
    assert log.committed == []


def test_a_start_beyond_the_end_is_a_wrong_option_and_no_lost_data(log: FakeLog) -> None:
    """new_user.md 6, bug 14: a typo was told as "was cut to offset 3342, below 999999, which was read"."""
    beyond = {"startingOffsets": '{"t":{"0":999999,"1":0}}'}
    with pytest.raises(OffsetOutOfRangeError) as caught:
        reader(**beyond).initialOffset()
    told = "option startingOffsets lies beyond the end: partition 0 of topic t ends at offset 10, below the 999999 asked for"
    assert str(caught.value).startswith(told)
    assert "lost" not in str(caught.value)
    assert offsets_of(reader(**beyond, failOnDataLoss="false").initialOffset()) == {"0": 10, "1": 0}


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_a_start_within_an_open_transaction_is_refused_since_records_before_it_would_be_read(
    log: FakeLog, lossy: str
) -> None:
    """With failOnDataLoss=false too: the query would begin at the stable end, below the offset that was asked for."""
    log.log_ends = [120, 20]
    with pytest.raises(OffsetOutOfRangeError, match="start of an open transaction"):
        reader(startingOffsets='{"t":{"0":100,"1":0}}', failOnDataLoss=lossy).initialOffset()


def test_what_is_wrong_with_a_stream_is_said_by_every_call_and_not_before() -> None:
    refused = DefaultSource({"bootstrapServers": "a:1"}).streamReader(StructType())
    assert isinstance(refused, RefusedStreamReader)
    calls: dict[str, tuple[Any, ...]] = {
        "initialOffset": (),
        "getDefaultReadLimit": (),
        "latestOffset": ({}, ALL),
        "prepareForTriggerAvailableNow": (),
        "partitions": ({}, {}),
        "read": (InputPartition(()),),
    }
    for name, arguments in calls.items():
        with pytest.raises(ConfigError, match="subscribe is required"):
            getattr(refused, name)(*arguments)
    refused.stop()
    assert isinstance(
        DefaultSource({"bootstrapServers": "a:1", "subscribe": "t"}).streamReader(StructType()), OncelogStreamReader
    )
