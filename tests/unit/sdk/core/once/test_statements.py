"""Statements have their parameters as the driver writes them, and a name of a table is nothing else."""

from __future__ import annotations

import pytest

from oncelog.core.once import statements
from oncelog.core.once.statements import PARAMSTYLES, bind, is_table_name


@pytest.mark.parametrize(
    ("style", "text", "parameters"),
    [
        ("qmark", "x = ? AND y = ? AND x < ?", [1, 2, 1]),
        ("numeric", "x = :1 AND y = :2 AND x < :3", [1, 2, 1]),
        ("format", "x = %s AND y = %s AND x < %s", [1, 2, 1]),
        ("named", "x = :x AND y = :y AND x < :x", {"x": 1, "y": 2}),
        ("pyformat", "x = %(x)s AND y = %(y)s AND x < %(x)s", {"x": 1, "y": 2}),
    ],
)
def test_every_style_of_parameters(style: str, text: str, parameters: object) -> None:
    given = {"x": 1, "y": 2, "more": 3}
    assert bind("x = :x AND y = :y AND x < :x", "t", given, style) == (text, parameters)


def test_every_style_is_one_that_can_be_given() -> None:
    assert set(PARAMSTYLES) == {"qmark", "numeric", "named", "format", "pyformat"}


def test_the_table_has_the_name_that_was_given() -> None:
    for name in ("CREATE", "READ", "INSERT", "SWAP", "FINISH", "PURGE", "FORGET"):
        text, _ = bind(getattr(statements, name), "mine.done", dict.fromkeys(EVERY, 0), "qmark")
        assert "mine.done" in text
        assert "{" not in text
        assert "%" not in text, "drivers with %s would read it"


EVERY = [
    *("group_id", "topic", "partition_no", "record_id", "next_offset", "fencing", "owner", "until_ms", "now_ms"),
    *("old_next_offset", "old_fencing", "old_owner", "old_until_ms", "abandoned_ms"),
]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("done", True),
        ("a.b", True),
        ("_1", True),
        ("", False),
        ("a b", False),
        ("a;b", False),
        ("a.b.c", False),
        ("ä", False),
    ],
)
def test_a_name_of_a_table_is_plain(name: str, is_one: bool) -> None:
    assert is_table_name(name) == is_one
