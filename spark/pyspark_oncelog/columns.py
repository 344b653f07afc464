"""The columns that a DataFrame must have to be written, and Arrow batches in the shape that the log takes. No I/O.

Column names are those of Spark's Kafka sink, in any case: `value` is required; `key`, `headers`, `topic`, `partition`
and, beyond Kafka, `timestamp` are optional.  Anything else is refused, on the driver, before data is computed.
Rule 1: the option `topic` beats the column `topic`.
Rule 2: rows of one partition keep their order.
Rule 3: no work per row in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from oncelog.errors import ConfigError

_BYTES: Final = ("binary", "string")
_HEADERS: Final = "array<struct<key:string,value:binary>>"
TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": _BYTES,
    "value": _BYTES,
    "headers": (_HEADERS,),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}
"""Spark types that each column may have; `void` (all null) is allowed for every optional column."""
_PAYLOAD: Final = ("key", "value", "timestamp", "headers")


def check_write_schema(fields: Sequence[tuple[str, str]], topic_option: str) -> None:
    """Checks (name, Spark type) pairs of a DataFrame. Raises `ConfigError` that names the column and what it may be."""
    seen: set[str] = set()
    for name, spark_type in fields:
        allowed = TYPES.get(name.lower())
        if allowed is None:
            raise ConfigError(
                f"column {name} cannot be written; the columns of a record are {', '.join(TYPES)}: select those, "
                "for example to_json(struct(*)) AS value"
            )
        if name.lower() in seen:
            raise ConfigError(f"column {name} is there twice")
        seen.add(name.lower())
        _check_type(name, spark_type, allowed)
    if "value" not in seen:
        raise ConfigError("column value is missing", columns=", ".join(name for name, _ in fields))
    if not topic_option and "topic" not in seen:
        raise ConfigError("no topic: give option topic, or a column topic")


def _check_type(name: str, spark_type: str, allowed: tuple[str, ...]) -> None:
    plain = "string" if spark_type.startswith(("string", "varchar", "char(")) else spark_type
    if plain in allowed or (plain == "void" and name.lower() != "value"):
        return
    raise ConfigError(f"column {name} has type {spark_type}, and must be {' or '.join(allowed)}")


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that go to one topic. `partition` None = by key, or any for rows without one."""

    topic: str
    partition: int | None
    rows: Any  # pyarrow.RecordBatch of key, value and maybe timestamp and headers


def pieces(batch: Any, topic_option: str) -> Iterator[Piece]:
    """The rows of an Arrow batch as the log takes them, by topic and by partition where a column names it.

    Raises `ConfigError` for a row without a topic.
    """
    if batch.num_rows == 0:
        return
    columns = {name.lower(): batch.column(i) for i, name in enumerate(batch.schema.names)}
    rows = _payload(columns)
    topics = None if topic_option else columns.get("topic")
    partitions = columns.get("partition")
    if partitions is not None and partitions.null_count == len(partitions):
        partitions = None
    if topics is None and partitions is None:
        yield Piece(_required_topic(topic_option), None, rows)
    else:
        yield from _grouped(rows, topics, partitions, topic_option)


def _required_topic(topic: str | None) -> str:
    if not topic:
        raise ConfigError("a row has no topic: its column topic is null, and option topic is not set")
    return topic


def _payload(columns: Mapping[str, Any]) -> Any:
    """Key and value as binary (from a string without a copy), timestamp and headers as they are."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    for name in _PAYLOAD:
        column = columns.get(name)
        if column is None or (pa.types.is_null(column.type) and name != "value"):
            continue
        found[name] = _binary(name, column) if name in ("key", "value") else column
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def _binary(name: str, column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_binary(column.type):
        return column
    try:
        return column.cast(pa.binary())
    except pa.ArrowException as error:
        raise ConfigError(f"column {name} has type {column.type}, and must be binary or string") from error


def _grouped(rows: Any, topics: Any, partitions: Any, topic_option: str) -> Iterator[Piece]:
    """One stable sort by (topic, partition), then one slice per group."""
    import numpy as np
    import pyarrow as pa

    names, codes = _topic_codes(rows.num_rows, topics, topic_option)
    numbers = np.full(rows.num_rows, -1, np.int64)
    if partitions is not None:
        numbers = partitions.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    group = codes.astype(np.int64) << 32 | (numbers + 1)
    order = np.argsort(group, kind="stable")
    borders = np.flatnonzero(np.diff(group[order])) + 1
    starts = [0, *borders.tolist()]
    ends = [*borders.tolist(), rows.num_rows]
    in_order = rows if len(starts) == 1 else rows.take(pa.array(order))
    for start, end in zip(starts, ends, strict=True):
        row = order[start]
        number = int(numbers[row])
        yield Piece(_required_topic(names[codes[row]]), _partition(number), in_order.slice(start, end - start))


def _partition(number: int) -> int | None:
    if number < -1:
        raise ConfigError("column partition is negative", partition=number)
    return None if number == -1 else number


def _topic_codes(count: int, topics: Any, topic_option: str) -> tuple[list[str | None], Any]:
    """Distinct topics, and for each row the index of its topic."""
    import numpy as np

    if topics is None:
        return [_required_topic(topic_option)], np.zeros(count, np.int32)
    encoded = topics.dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)
