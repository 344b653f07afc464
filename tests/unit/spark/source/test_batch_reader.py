"""A batch read: everything between two positions that are fixed when the query is planned."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from oncelog.errors import ConfigError, OffsetOutOfRangeError
from pyspark_oncelog.options.read_write_options import SourceOptions
from pyspark_oncelog.source import batch_reader, cluster_view, task_reader
from pyspark_oncelog.source.batch_reader import OncelogBatchReader
from pyspark_oncelog.source.positions import PartitionView, TopicView, View


class FakeLog:
    """One topic with two partitions, as the driver sees it."""

    def __init__(self) -> None:
        self.looks = 0
        self.partitions = {0: PartitionView(2, 10, 1), 1: PartitionView(0, 20, 1)}

    def view(self, _options: SourceOptions, **_more: bool) -> View:
        self.looks += 1
        return {"t": TopicView("id", self.partitions)}


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> FakeLog:
    fake = FakeLog()
    monkeypatch.setattr(cluster_view, "load_view", fake.view)
    return fake


def reader(**options: str) -> OncelogBatchReader:
    given = {"bootstrapServers": "a:1", "subscribe": "t", **options}
    return OncelogBatchReader(SourceOptions.parse(given, streaming=False), StructType())


def planned(source: OncelogBatchReader) -> list[tuple[int, int, int]]:
    return [(r.partition, r.start, r.end) for task in source.partitions() for r in task.value]


def test_a_read_is_everything_that_is_there_when_it_is_planned(log: FakeLog) -> None:
    assert planned(reader()) == [(0, 2, 10), (1, 0, 20)]
    assert log.looks == 1


def test_a_read_goes_from_one_offset_to_another(log: FakeLog) -> None:
    source = reader(startingOffsets='{"t":{"0":4,"1":5}}', endingOffsets='{"t":{"0":-1,"1":7}}')
    assert planned(source) == [(0, 4, 10), (1, 5, 7)]


@pytest.mark.parametrize(("options", "tasks"), [({}, 1), ({"minPartitions": "4", "minRowsPerTask": "1"}, 4)])
def test_small_ranges_share_a_task_unless_more_are_wanted(log: FakeLog, options: dict[str, str], tasks: int) -> None:
    assert len(reader(**options).partitions()) == tasks


def test_a_read_that_ends_before_it_begins_is_refused(log: FakeLog) -> None:
    with pytest.raises(ConfigError, match=r"the end of the read .* lies before its start"):
        reader(startingOffsets='{"t":{"0":9}}', endingOffsets='{"t":{"0":4}}').partitions()


@pytest.mark.parametrize(
    ("option", "says"),
    [("startingOffsets", "option startingOffsets lies beyond the end"), ("endingOffsets", "option endingOffsets lies")],
)
def test_an_offset_beyond_the_log_is_named_by_its_option(log: FakeLog, option: str, says: str) -> None:
    beyond = {option: '{"t":{"0":11}}'}
    with pytest.raises(OffsetOutOfRangeError, match=says):
        reader(**beyond).partitions()
    there = [(1, 0, 20)] if option == "startingOffsets" else [(0, 2, 10), (1, 0, 20)]
    assert planned(reader(**beyond, failOnDataLoss="false")) == there


def test_records_that_were_deleted_before_they_were_read_are_lost(log: FakeLog) -> None:
    deleted = {"startingOffsets": '{"t":{"0":1}}'}
    with pytest.raises(OffsetOutOfRangeError, match="begins at offset 2"):
        reader(**deleted).partitions()
    assert planned(reader(**deleted, failOnDataLoss="false")) == [(0, 2, 10), (1, 0, 20)]


def test_a_task_is_read_by_a_pickled_copy(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_reader, "read_task", lambda _options, _schema, ranges: iter(ranges))
    monkeypatch.setattr(batch_reader, "freeze_modules", lambda: None)
    source = reader()
    copy = pickle.loads(pickle.dumps(source))
    [task] = source.partitions()
    assert tuple(copy.read(task)) == task.value
    assert tuple(copy.read(InputPartition(None))) == ()
