"""What people read of the command line and of errors is plain English: what a stranger stumbled over does not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog import errors

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted(
    path
    for folder in ("sdk/oncelog", "sdk/oncelog_cli", "spark/pyspark_oncelog")
    for path in (ROOT / folder).rglob("*.py")
    if path.parent.name != "v1"
)

STUMBLED_OVER = {
    r"\bfor ever\b": "never changes, or: until ...",
    "nobody to ask": "there is no terminal to ask at",
    "nothing hangs on": "no hanging transactions",
    r"\ba (?=[aeio][a-z])(?!one\b)": "an",
    "of the old one is gone": "records ... are lost",
    "one day": "not decided yet",
    r"\bis no (?!longer\b|terminal\b|regular expression: )(whole|span|size|name|regular)": "is not a ...",
    r"(default|about): who I am|says who I am|from which he comes|\bhis password": "who you are, the user's",
}
"""Patterns, and what to write instead. They were found by reading every message once."""


def _docstrings(tree: ast.Module) -> set[int]:
    """Ids of the constants that are docstrings, or stand alone below a name, which nobody prints."""
    alone = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return {id(value) for value in alone if isinstance(value, ast.Constant)}


def printed(path: Path) -> Iterator[str]:
    """Every text of a file that may be shown to somebody: constants, and the fixed parts of f-strings."""
    tree = ast.parse(path.read_text())
    silent = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


def texts() -> Iterator[tuple[str, str]]:
    """Where it stands, and the text."""
    for path in SOURCES:
        for text in printed(path):
            yield path.relative_to(ROOT).as_posix(), text
    yield "docs/cli.md", (ROOT / "docs" / "cli.md").read_text()
    for kind in errors.BY_CODE.values():
        yield kind.__name__, kind.__doc__ or ""


def found(pattern: str, said: Iterator[tuple[str, str]]) -> list[str]:
    return [
        f"{where}: ...{text[max(0, m.start() - 30) : m.end() + 30]!r}"
        for where, text in said
        for m in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize("pattern", STUMBLED_OVER)
def test_nothing_that_is_printed_says_it_again(pattern: str) -> None:
    assert found(pattern, texts()) == [], f"write instead: {STUMBLED_OVER[pattern]}"


@pytest.mark.parametrize(
    "text",
    [
        "Say --yes: there is nobody to ask", "nothing hangs on 108 partitions", "kept for ever", "a int",
        "what is not read of the old one is gone", "Ongoing is decided one day",
        "'x' is no size", "whom to ask about: who I am",
    ],
)  # fmt: skip
def test_what_was_stumbled_over_is_noticed(text: str) -> None:
    assert any(found(pattern, iter([("here", text)])) for pattern in STUMBLED_OVER)


def test_there_is_much_to_read() -> None:
    assert sum(" " in text for _, text in texts()) > 1_000
