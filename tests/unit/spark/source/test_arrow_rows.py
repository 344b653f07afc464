"""Rows leave with exactly the Arrow types that Spark checks."""

from __future__ import annotations

import pyarrow as pa

from oncelog.core.batch.batch import HEADERS_TYPE
from pyspark_oncelog.source.arrow_rows import to_spark


def client_rows() -> pa.RecordBatch:
    """As the client reads them: the topic is a dictionary."""
    columns = {
        "key": pa.array([b"k", None], pa.binary()),
        "value": pa.array([None, b"v"], pa.binary()),
        "timestamp": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "partition": pa.array([3, 3], pa.int32()),
        "offset": pa.array([7, 8], pa.int64()),
        "topic": pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["t"])),
        "headers": pa.array([[{"key": "h", "value": b"x"}], None], HEADERS_TYPE),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_every_column_has_the_type_of_the_schema() -> None:
    headers = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    schema = pa.schema(
        [
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("offset", pa.int64()),
            ("timestampType", pa.int32()),
            ("headers", headers),
        ]
    )
    found = to_spark(client_rows(), "t", schema)
    assert found.schema == schema
    found.validate(full=True)
    assert found.to_pylist()[0] == {
        "value": None,
        "topic": "t",
        "offset": 7,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}],
    }
