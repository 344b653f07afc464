"""What the streaming source answers to Spark, over a log that grows under it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from oncelog.errors import (
    ConfigError,
    NetworkError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    OncelogError,
    UnknownTopicError,
)
from pyspark_oncelog.datasource import DefaultSource
from pyspark_oncelog.options.offsets import Position
from pyspark_oncelog.options.read_write_options import SourceOptions
from pyspark_oncelog.source import cluster_view, stream_reader
from pyspark_oncelog.source.positions import PartitionView, TopicView
from pyspark_oncelog.source.stream_reader import OncelogStreamReader, RefusedStreamReader

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
        self.commit_error: OncelogError | None = None
        self.commit_tries = 0
        self.topics_told: list[list[str]] = []
        self.is_deleted = False
        self.looks: list[str] = []

    def view(
        self, options: SourceOptions, missing_topics: bool = False, with_ends: bool = True
    ) -> dict[str, TopicView]:
        self.looks.append("starts and ends" if with_ends else "starts")
        if self.is_deleted:
            if not missing_topics and not options.subscription.pattern:
                raise UnknownTopicError(topic="t")
            return {}
        ends = self.ends if options.read_committed else self.log_ends or self.ends
        parts = {p: PartitionView(self.starts[p], end, self.epoch) for p, end in enumerate(ends)}
        return {"t": TopicView("id", parts)}

    def commit(self, _options: SourceOptions, at: Position) -> None:
        self.commit_tries += 1
        if self.commit_error is not None:
            raise self.commit_error
        self.topics_told.append(sorted(at.topics))
        if "t" in at.topics:
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


@pytest.mark.parametrize(
    "begins",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"t":{"0":-1,"1":-1}}'},
        {"startingOffsets": "earliest"},
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [0, 5])
def test_a_first_micro_batch_that_runs_again_begins_where_it_began(
    log: FakeLog, begins: dict[str, str], rows: int
) -> None:
    """Spark keeps its end alone, and asks a new process for the start."""
    source = reader(**begins)
    start = source.initialOffset()
    log.ends = [10 + rows, 20]
    end = json.loads(json.dumps(source.latestOffset(start, ALL)))
    planned = [p.value for p in source.partitions(start, end)]
    log.ends = [30, 40]
    restarted = reader(**begins)
    assert [p.value for p in restarted.partitions(restarted.initialOffset(), end)] == planned
    later = restarted.latestOffset(end, ALL)
    [task] = restarted.partitions(end, later)
    assert [(r.partition, r.start, r.end) for r in task.value] == [(0, 10 + rows, 30), (1, 20, 40)]


def test_records_that_were_deleted_before_the_first_micro_batch_ran_again_are_lost(log: FakeLog) -> None:
    source = reader()
    end = source.latestOffset(source.initialOffset(), ALL)
    log.starts = [4, 0]
    restarted = reader()
    with pytest.raises(OffsetOutOfRangeError, match="begins at offset 4: 0 and up were deleted"):
        restarted.partitions(restarted.initialOffset(), end)


def test_an_end_without_news_is_the_same_to_the_letter(log: FakeLog) -> None:
    """Spark compares texts: another one would be a micro-batch without rows."""
    source = reader(startingOffsets="latest")
    start = source.initialOffset()
    log.ends = [15, 20]
    end = source.latestOffset(start, ALL)
    assert end["from"] == start["topics"]
    assert json.dumps(source.latestOffset(end, ALL)) == json.dumps(end)


def test_a_checkpoint_without_the_first_start_is_read_as_before(log: FakeLog) -> None:
    end = {"v": 1, "topics": {"t": {"id": "id", "p": {"0": [10, 1], "1": [20, 1]}}}}
    source = reader()
    [task] = source.partitions(source.initialOffset(), end)
    assert [(r.partition, r.start, r.end) for r in task.value] == [(0, 0, 10), (1, 0, 20)]


def test_a_run_that_ends_by_itself_may_end_before_it_begins(log: FakeLog) -> None:
    """Its target is looked up first, and rows come before its start is."""
    source = reader(startingOffsets="latest")
    source.prepareForTriggerAvailableNow()
    log.ends = [12, 25]
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    assert offsets_of(end) == {"0": 12, "1": 25}
    assert source.partitions(start, end) == []


def test_a_query_that_no_longer_reads_open_transactions_waits_for_them(log: FakeLog) -> None:
    """It was told as "was cut to offset 10, below 15", and rows came twice with failOnDataLoss=false."""
    log.log_ends = [15, 20]
    first = reader(isolation="read_uncommitted")
    end = first.latestOffset(first.initialOffset(), ALL)
    restarted = reader()
    log.ends = [10, 21]
    later = restarted.latestOffset(end, ALL)
    assert offsets_of(later) == {"0": 15, "1": 21}
    log.ends = [17, 21]
    assert offsets_of(restarted.latestOffset(later, ALL)) == {"0": 17, "1": 21}


@pytest.mark.parametrize(("cut", "offset"), [(10, 10), (8, 9), (9, 9)], ids=["late", "cut", "cut there"])
def test_an_end_below_the_start_under_another_leader_is_a_cut_if_the_log_says_so(
    log: FakeLog, cut: int, offset: int
) -> None:
    start = reader().latestOffset(reader().initialOffset(), ALL)
    log.ends, log.epoch, log.epoch_ends = [9, 20], 2, {("t", 0): cut}
    assert offsets_of(reader().latestOffset(start, ALL)) == {"0": offset, "1": 20}


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


def test_a_group_that_cannot_be_told_stops_nothing_and_is_left_alone_for_a_while(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try holds the micro-batch up until its time is over, and there are two of them for each."""
    now_ms = 1_000_000
    monkeypatch.setattr(stream_reader, "_now_ms", lambda: now_ms)
    source = reader(commitGroup="g")
    start = source.initialOffset()
    log.commit_error = NetworkError()
    source.commit(start)
    end = source.latestOffset(start, ALL)
    source.commit(end)
    assert log.commit_tries == 1
    log.commit_error = None
    now_ms += 30_000
    source.commit(end)
    assert log.committed == [{"0": 10, "1": 20}]


def test_a_group_with_members_is_left_to_them_and_the_query_goes_on(
    log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    source = reader(commitGroup="g")
    start = source.initialOffset()
    log.commit_error = NonEmptyGroupError("only members commit its offsets", members=2)
    end = source.latestOffset(start, ALL)
    source.commit(end)
    assert source.partitions(start, end)
    assert log.committed == []
    (said,) = [record.getMessage() for record in caplog.records if "offsets of group g" in record.getMessage()]
    assert "NON_EMPTY_GROUP" in said
    assert "The query goes on." in said
    assert "name a group of its own in option commitGroup" in said


def test_without_a_group_nothing_is_committed(log: FakeLog) -> None:
    source = reader()
    source.commit(source.initialOffset())
    assert log.committed == []


def test_a_topic_that_is_deleted_ends_a_query_only_if_it_may_lose_nothing(
    log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    start = reader().initialOffset()
    log.is_deleted = True
    with pytest.raises(UnknownTopicError):
        reader().latestOffset(start, ALL)
    source = reader(failOnDataLoss="false", commitGroup="g")
    assert source.latestOffset(start, ALL) == start, "others would be read"
    assert source.latestOffset(start, ALL) == start
    assert caplog.text.count("no such topic: t; what was not read of it is lost, and others are read") == 1
    source.prepareForTriggerAvailableNow()
    with pytest.raises(UnknownTopicError):
        reader(failOnDataLoss="false").initialOffset()


def test_a_topic_that_is_seen_again_is_read_where_it_was_left(log: FakeLog) -> None:
    """Were its place forgotten, all of it would be read twice."""
    source = reader(failOnDataLoss="false")
    end = source.latestOffset(source.initialOffset(), ALL)
    log.is_deleted = True
    assert source.latestOffset(end, ALL) == end
    log.is_deleted, log.ends = False, [11, 20]
    later = source.latestOffset(end, ALL)
    [task] = source.partitions(end, later)
    assert [(r.partition, r.start, r.end) for r in task.value] == [(0, 10, 11)]


def by_pattern(lossy: str, pattern: str = "t.*") -> OncelogStreamReader:
    given = {"bootstrapServers": "a:1", "subscribePattern": pattern, "startingOffsets": "earliest"}
    return OncelogStreamReader(SourceOptions.parse({**given, "failOnDataLoss": lossy}, streaming=True), StructType())


def test_a_topic_of_a_pattern_that_is_not_listed_for_a_moment_is_read_where_it_was_left(
    log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    """All of it was read again from its beginning."""
    source = by_pattern("false")
    end = source.latestOffset(source.initialOffset(), ALL)
    log.is_deleted = True
    assert source.latestOffset(end, ALL) == end
    assert "no such topic: t" in caplog.text
    log.is_deleted, log.ends = False, [11, 20]
    [task] = source.partitions(end, source.latestOffset(end, ALL))
    assert [(r.partition, r.start, r.end) for r in task.value] == [(0, 10, 11)]
    log.is_deleted = True
    assert by_pattern("false", "u.*").latestOffset(end, ALL)["topics"] == {}, "the pattern was changed"


def test_a_topic_of_a_pattern_that_is_gone_ends_a_query_before_its_place_is_forgotten(log: FakeLog) -> None:
    source = by_pattern("true")
    end = source.latestOffset(source.initialOffset(), ALL)
    log.is_deleted = True
    with pytest.raises(UnknownTopicError, match=r"no longer finds t, .*failOnDataLoss=false"):
        source.latestOffset(end, ALL)
    log.is_deleted = False
    assert source.latestOffset(end, ALL) == end


def test_a_topic_of_a_pattern_that_one_look_misses_is_looked_for_once_more(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = by_pattern("true")
    end = source.latestOffset(source.initialOffset(), ALL)
    answers = iter([{}, log.view(SourceOptions.parse({"bootstrapServers": "a:1", "subscribe": "t"}, streaming=True))])
    monkeypatch.setattr(cluster_view, "load_view", lambda *_given, **_more: next(answers))
    assert source.latestOffset(end, ALL) == end


@pytest.mark.parametrize("seen", ["nothing", "its predecessor"])
@pytest.mark.parametrize("lossy", ["true", "false"])
def test_a_topic_that_one_look_misses_is_looked_for_once_more_before_its_rows_of_a_replay_are_lost(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, lossy: str, seen: str
) -> None:
    """With failOnDataLoss=false they were left out, and the query went on behind them."""
    source = by_pattern(lossy)
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    planned = [task.value for task in source.partitions(start, end)]
    restarted = by_pattern(lossy)
    start = restarted.initialOffset()
    late = {} if seen == "nothing" else {"t": TopicView("older", {0: PartitionView(0, 5, 1)})}
    answers = iter([late, log.view(restarted._options)])
    monkeypatch.setattr(cluster_view, "load_view", lambda *_given, **_more: next(answers))
    assert [task.value for task in restarted.partitions(start, end)] == planned


def test_a_group_is_not_told_of_a_topic_that_is_gone(log: FakeLog) -> None:
    source = reader(failOnDataLoss="false", commitGroup="g")
    end = source.latestOffset(source.initialOffset(), ALL)
    log.is_deleted = True
    source.latestOffset(end, ALL)
    source.commit({**end, "topics": {**end["topics"], "u": {"id": "other", "p": {"0": [5, 1]}}}})
    assert log.topics_told[-1] == ["u"]


def test_a_micro_batch_looks_at_the_cluster_once_and_again_only_when_it_runs_again(log: FakeLog) -> None:
    source = reader()
    start = source.initialOffset()
    log.looks.clear()
    end = source.latestOffset(start, ALL)
    source.partitions(start, json.loads(json.dumps(end)))
    assert log.looks == ["starts and ends"]
    reader().partitions(start, end)
    assert log.looks == ["starts and ends", "starts"]


def test_a_start_beyond_the_end_is_a_wrong_option_and_no_lost_data(log: FakeLog) -> None:
    """Regression: a typo was told as "was cut to offset 3342, below 999999, which was read"."""
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
