"""docs/coming-from-queues.md: each row of the tables of NSQ and Redis names a test, which runs the code that the row shows.

Rule: code is shown with other names of topics than a test has. So what has to be in the test, or in a fixture that it asks for,
are the row's words: names of methods, options, commands and flags, and values such as `latest`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/coming-from-queues.md").read_text()
TESTS: Final = (ROOT / "tests/integration/test_coming_from_queues.py").read_text()
FUNCTIONS: Final = {
    node.name: ast.get_source_segment(TESTS, node) or ""
    for node in ast.parse(TESTS).body
    if isinstance(node, ast.FunctionDef)
}
ASKED_FOR: Final = {
    node.name: [argument.arg for argument in node.args.args]
    for node in ast.parse(TESTS).body
    if isinstance(node, ast.FunctionDef)
}
COMMANDS: Final = {
    "NSQ": ("PUB", "MPUB", "DPUB", "SUB", "RDY", "FIN", "REQ", "TOUCH", "CLS", "pause", "empty", "delete"),
    "Redis Streams": (
        *("XADD", "XLEN", "XRANGE", "XREVRANGE", "XREAD", "XGROUP CREATE", "XGROUP SETID", "XGROUP DESTROY"),
        *("CREATECONSUMER", "DELCONSUMER", "XREADGROUP", "XACK", "XPENDING", "XCLAIM", "XAUTOCLAIM", "XDEL", "XTRIM"),
        *("XINFO STREAM", "XINFO GROUPS", "XINFO CONSUMERS"),
    ),
}
GENERIC: Final = frozenset(("oncelog", "await", "async", "for", "in", "client", "admin", "topic", "place"))
"""Words that a row may have and its test need not: what things are called in the page."""


class Row(NamedTuple):
    """A row of a table."""

    command: str
    here: str
    test: str


def rows(section: str) -> list[Row]:
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = [
        Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in text.splitlines() if line[:2] == "| "
    ]
    assert found[0][1:] == ("here", "test")
    return found[1:]


ROWS: Final = [row for section in COMMANDS for row in rows(section)]
WITH_TEST: Final = [row for row in ROWS if row.test.startswith("`")]


def words(code: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_][\w-]*", code))


@pytest.mark.parametrize("section", COMMANDS)
def test_every_command_has_a_row(section: str) -> None:
    told = "\n".join(row.command for row in rows(section))
    assert [command for command in COMMANDS[section] if not re.search(rf"\b{command}\b", told)] == []


@pytest.mark.parametrize("row", WITH_TEST, ids=lambda row: row.test.strip("`"))
def test_a_rows_test_runs_the_rows_code(row: Row) -> None:
    name = row.test.strip("`")
    source = "".join(FUNCTIONS.get(part, "") for part in (name, *ASKED_FOR.get(name, ())))
    assert name in FUNCTIONS, f"{row.command}: there is no {row.test} in tests/integration/test_coming_from_queues.py"
    shown = {word for code in re.findall(r"`([^`]+)`", row.here) for word in words(code)}
    assert shown, f"{row.command}: a row shows code"
    assert shown - words(source) - GENERIC == set(), f"{row.test} does not run what the row of {row.command} shows"


def test_a_row_without_a_test_says_why() -> None:
    assert {row.command: row.test for row in ROWS if row not in WITH_TEST} == {
        "nsqlookupd": "none: there is no such command"
    }


def test_every_test_stands_in_the_page() -> None:
    named = {row.test.strip("`") for row in WITH_TEST}
    assert {name for name in FUNCTIONS if name.startswith("test_")} == named
