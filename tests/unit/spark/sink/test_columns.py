"""Which DataFrames may be written, and how their rows are divided among topics and partitions."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from oncelog.core.batch.batch import decode_batch, encode_arrow
from oncelog.core.batch.header import BatchIdentity
from oncelog.errors import ConfigError
from pyspark_oncelog.sink.columns import check_write_schema, pieces

VALUE = [("value", "string")]


@pytest.mark.parametrize(
    "fields",
    [
        [("value", "binary")],
        [("KEY", "string"), ("Value", "varchar(10)")],
        [
            *VALUE,
            ("headers", "array<struct<key:string,value:binary>>"),
            ("partition", "int"),
            ("timestamp", "timestamp"),
        ],
        [*VALUE, ("key", "void")],
    ],
)
def test_these_can_be_written(fields: list[tuple[str, str]]) -> None:
    check_write_schema(fields, "t")


@pytest.mark.parametrize(
    ("fields", "topic", "says"),
    [
        ([("key", "string")], "t", "column value is missing"),
        ([("value", "bigint")], "t", "column value has type bigint, and must be binary or string"),
        ([("value", "void")], "t", "column value has type void"),
        ([*VALUE, ("id", "bigint")], "t", "column id cannot be written"),
        ([*VALUE, ("VALUE", "string")], "t", "twice"),
        ([*VALUE, ("partition", "bigint")], "t", "must be int"),
        ([*VALUE, ("headers", "map<string,string>")], "t", "must be array<struct"),
        (VALUE, "", "no topic: give option topic"),
    ],
)
def test_these_cannot(fields: list[tuple[str, str]], topic: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_write_schema(fields, topic)


def rows(**columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(columns)


def test_without_partition_and_with_one_topic_the_batch_stays_whole() -> None:
    [piece] = pieces(rows(key=["a", None], value=["1", "2"]), "t")
    assert piece.topic == "t"
    assert piece.rows.to_pydict() == {"key": [b"a", None], "value": [b"1", b"2"]}


def test_rows_go_to_the_topic_that_they_name_in_order() -> None:
    batch = rows(
        value=[str(i) for i in range(5)],
        topic=["b", "a", "b", "a", "b"],
        partition=pa.array([1, None, 1, 0, 0], pa.int32()),
    )
    found = {p.topic: p.rows.to_pydict() for p in pieces(batch, "")}
    assert found == {
        "b": {"value": [b"0", b"2", b"4"], "partition": [1, 1, 0]},
        "a": {"value": [b"1", b"3"], "partition": [None, 0]},
    }


def test_rows_of_one_topic_keep_no_memory_of_the_others() -> None:
    """One row of a rare topic, held until there are more, held the whole batch that it came with."""
    batch = rows(value=["x" * 100] * 1_000, topic=["rare", *["busy"] * 999])
    sizes = {p.topic: p.rows.get_total_buffer_size() for p in pieces(batch, "")}
    assert sizes["rare"] < 1_000
    assert sizes["busy"] > 99_900


def test_the_option_beats_the_column() -> None:
    [piece] = pieces(rows(value=["1"], topic=["other"]), "t")
    assert piece.topic == "t"
    assert piece.rows.schema.names == ["value"]


def test_a_row_without_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match="a row has no topic"):
        list(pieces(rows(value=["1", "2"], topic=["a", None]), ""))


def test_a_column_of_nulls_says_nothing() -> None:
    [piece] = pieces(rows(value=["1"], key=pa.nulls(1)), "t")
    assert piece.rows.schema.names == ["value"]


def test_an_empty_batch_has_no_pieces() -> None:
    assert list(pieces(rows(value=pa.array([], pa.string())), "t")) == []


def test_large_strings_zones_and_headers_reach_the_log() -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=datetime.UTC)
    header = pa.array([[{"key": "h", "value": b"x"}]])
    batch = rows(
        value=pa.array(["v"], pa.large_string()),
        timestamp=pa.array([at], pa.timestamp("us", "Europe/Berlin")),
        headers=header,
    )
    [piece] = pieces(batch, "t")
    [record] = decode_batch(encode_arrow(piece.rows, BatchIdentity(tag=0), timestamp_ms=0))
    assert record.value == b"v"
    assert record.timestamp_ms == int(at.timestamp() * 1000)
    assert record.headers == (("h", b"x"),)
