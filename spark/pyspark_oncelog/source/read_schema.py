"""The columns of a read: those of Spark's Kafka source, of which a user schema may choose some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog.errors import ConfigError

_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
_HEADERS: Final = "array<struct<key:string,value:binary>>"
READ_SCHEMA: Final = ", ".join(f"{name} {spark_type}" for name, spark_type in _TYPES.items())
READ_SCHEMA_WITH_HEADERS: Final = f"{READ_SCHEMA}, headers {_HEADERS}"


def check_read_schema(fields: Sequence[tuple[str, str]]) -> None:
    """Checks (name, Spark type) pairs of the schema to read with. Raises `ConfigError`."""
    allowed = {**_TYPES, "headers": _HEADERS}
    for name, spark_type in fields:
        if name not in allowed:
            raise ConfigError(f"there is no column {name} to read; the columns are {', '.join(allowed)}")
        if spark_type != allowed[name]:
            raise ConfigError(f"column {name} is read as {allowed[name]}, not {spark_type}: cast it in the query")
