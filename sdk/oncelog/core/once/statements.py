"""Writes the SQL of the table of done work, for SQLite (3.24 and newer) and PostgreSQL, with parameters as the driver has them.

Rule 1: each statement changes at most one row, and only if it still is as it was read: the caller looks at the row count.
Rule 2: values are parameters, never text of the statement. The table's name is text, so only plain names are taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

PARAMSTYLES: Final = ("qmark", "numeric", "named", "format", "pyformat")
"""The ways of DB-API 2 to write a parameter."""
_PARAMETER: Final = re.compile(r":(\w+)")
_TABLE_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)

CREATE: Final = """
CREATE TABLE IF NOT EXISTS {table} (
    group_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition_no INTEGER NOT NULL,
    record_id TEXT NOT NULL,
    next_offset BIGINT NOT NULL,
    fencing BIGINT NOT NULL,
    owner TEXT NOT NULL,
    until_ms BIGINT NOT NULL,
    PRIMARY KEY (group_id, topic, partition_no, record_id)
)
"""
_KEY: Final = "group_id = :group_id AND topic = :topic AND partition_no = :partition_no AND record_id = :record_id"
READ: Final = f"SELECT next_offset, fencing, owner, until_ms FROM {{table}} WHERE {_KEY}"
INSERT: Final = (
    "INSERT INTO {table} (group_id, topic, partition_no, record_id, next_offset, fencing, owner, until_ms)"
    " VALUES (:group_id, :topic, :partition_no, :record_id, :next_offset, :fencing, :owner, :until_ms)"
    " ON CONFLICT (group_id, topic, partition_no, record_id) DO NOTHING"
)
SWAP: Final = (
    "UPDATE {table} SET next_offset = :next_offset, fencing = :fencing, owner = :owner, until_ms = :until_ms"
    f" WHERE {_KEY} AND next_offset = :old_next_offset AND fencing = :old_fencing AND owner = :old_owner"
    " AND until_ms = :old_until_ms"
)
FINISH: Final = (
    "UPDATE {table} SET next_offset = :next_offset, until_ms = :until_ms"
    f" WHERE {_KEY} AND fencing = :fencing AND owner = :owner"
)
PURGE: Final = (
    "DELETE FROM {table} WHERE group_id = :group_id AND record_id <> ''"
    " AND (next_offset = 1 AND until_ms <= :now_ms OR until_ms <= :abandoned_ms)"
)
FORGET: Final = "DELETE FROM {table} WHERE group_id = :group_id AND topic = :topic"

Values = Mapping[str, object]
Bound = tuple[str, Sequence[object] | Mapping[str, object]]
"""A statement and its parameters, as `cursor.execute` takes them."""


def is_table_name(name: str) -> bool:
    """True for a plain name, with or without a schema before it."""
    return _TABLE_NAME.fullmatch(name) is not None


def bind(statement: str, table: str, values: Values, paramstyle: str) -> Bound:
    """The statement for this table, with parameters as the driver writes them."""
    assert is_table_name(table)
    assert paramstyle in PARAMSTYLES
    text = statement.replace("{table}", table)
    names: list[str] = _PARAMETER.findall(text)
    if paramstyle in ("named", "pyformat"):
        form = ":{}" if paramstyle == "named" else "%({})s"
        return _PARAMETER.sub(lambda found: form.format(found[1]), text), {name: values[name] for name in names}
    numbers = iter(range(1, len(names) + 1))
    form = {"qmark": "?", "numeric": ":{}", "format": "%s"}[paramstyle]
    return _PARAMETER.sub(lambda _: form.format(next(numbers)), text), [values[name] for name in names]
