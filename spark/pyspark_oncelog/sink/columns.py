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
from typing import TYPE_CHECKING, Final

from oncelog.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

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
_PAYLOAD: Final = ("key", "value", "timestamp", "headers", "partition")


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
    """Rows that go to one topic: a `pyarrow.RecordBatch` of `value` and maybe `key`, `timestamp`, `headers`, `partition`."""

    topic: str
    rows: pa.RecordBatch


def pieces(batch: pa.RecordBatch, topic_option: str) -> Iterator[Piece]:
    """The rows of an Arrow batch as the client takes them, by topic; it chooses partitions by column `partition` or key.

    Raises `ConfigError` for a row without a topic.
    """
    if batch.num_rows == 0:
        return
    columns = {name.lower(): batch.column(i) for i, name in enumerate(batch.schema.names)}
    rows = _payload(columns)
    topics = None if topic_option else columns.get("topic")
    if topics is None:
        yield Piece(_required_topic(topic_option), rows)
    else:
        yield from _by_topic(rows, topics)


def _required_topic(topic: str | None) -> str:
    if not topic:
        raise ConfigError("a row has no topic: its column topic is null, and option topic is not set")
    return topic


def _payload(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Key and value as binary (from a string without a copy), the others as they are."""
    import pyarrow as pa

    found: dict[str, pa.Array] = {}
    for name in _PAYLOAD:
        column = columns.get(name)
        if column is None or (pa.types.is_null(column.type) and name != "value"):
            continue
        found[name] = _binary(name, column) if name in ("key", "value") else column
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def _binary(name: str, column: pa.Array) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_binary(column.type):
        return column
    try:
        return column.cast(pa.binary())
    except pa.ArrowException as error:
        raise ConfigError(f"column {name} has type {column.type}, and must be binary or string") from error


def _by_topic(rows: pa.RecordBatch, topics: pa.StringArray) -> Iterator[Piece]:
    """One stable sort by topic, then a copy of the rows of each: a slice would keep the memory of all of them."""
    import numpy as np
    import pyarrow as pa

    encoded = topics.dictionary_encode(null_encoding="encode")
    names = [_required_topic(name) for name in encoded.dictionary.to_pylist()]
    if len(names) == 1:
        yield Piece(names[0], rows)
        return
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    order = pa.array(np.argsort(codes, kind="stable"))
    start = 0
    for name, end in zip(names, np.cumsum(np.bincount(codes, minlength=len(names))).tolist(), strict=True):
        yield Piece(name, rows.take(order.slice(start, end - start)))
        start = end
