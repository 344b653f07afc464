"""Rows as the client reads them, as Arrow batches of exactly the types that Spark checks. Pure; no work per row.

One wrong type, a dictionary for example, makes Spark's query fail.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

CREATE_TIME: Final = 0
"""Value of `timestampType`, as in Kafka: the producer's clock."""


def to_spark(rows: pa.RecordBatch, topic: str, schema: pa.Schema) -> pa.RecordBatch:
    """A record batch of this Arrow schema, whose columns are some of those of a read.

    `rows` has `key`, `value`, `timestamp`, `partition`, `offset` and, if the schema has it, `headers`.
    """
    return pa.RecordBatch.from_arrays([_column(rows, topic, field) for field in schema], schema=schema)


def _column(rows: pa.RecordBatch, topic: str, field: pa.Field) -> pa.Array:
    match field.name:
        case "topic":
            return pa.repeat(pa.scalar(topic, field.type), rows.num_rows)
        case "timestampType":
            return pa.repeat(pa.scalar(CREATE_TIME, field.type), rows.num_rows)
        case name:
            column = rows.column(name)
            return column if column.type == field.type else column.cast(field.type)
