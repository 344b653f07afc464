"""docs/durability.md promises nothing without a test: every test that it names exists, and every promise names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs/durability.md").read_text()
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def _functions(path: str) -> set[str]:
    tree = ast.parse((_ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_test_that_the_page_names_exists() -> None:
    named = _TEST.findall(_PAGE)
    assert len(named) > 10
    missing = [f"{path}::{name}" for path, name in named if name not in _functions(path)]
    assert not missing


def test_every_promise_names_a_test() -> None:
    rows = [line for line in _PAGE.splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    assert [row for row in rows[1:] if not _TEST.search(row)] == []
