"""The columns of a read: a schema may choose some of them, and no other type."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigError
from pyspark_oncelog.source.read_schema import READ_SCHEMA, READ_SCHEMA_WITH_HEADERS, check_read_schema


@pytest.mark.parametrize(
    ("field", "says"),
    [(("valeu", "binary"), "no column valeu"), (("value", "string"), "read as binary, not string")],
)
def test_a_schema_that_cannot_be_read_is_named(field: tuple[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_read_schema([("offset", "bigint"), field])


@pytest.mark.parametrize("columns", [READ_SCHEMA, READ_SCHEMA_WITH_HEADERS, "value binary", ""])
def test_all_columns_or_some_can_be_read(columns: str) -> None:
    fields = [tuple(column.split(" ", 1)) for column in columns.split(", ") if column]
    check_read_schema(fields)  # type: ignore[arg-type]


def test_headers_are_read_where_they_are_asked_for() -> None:
    assert f"{READ_SCHEMA}, headers array<struct<key:string,value:binary>>" == READ_SCHEMA_WITH_HEADERS
    assert "headers" not in READ_SCHEMA
