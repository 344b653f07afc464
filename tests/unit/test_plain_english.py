"""Docstrings and comments are plain English: the words and openings that make riddles become fewer, never more.

Rule 1: a docstring or comment does not open with "Of", "What", "Who", "Whose", "Whom" or "As whom": it says what the
    thing is or does, in a sentence with a verb.
Rule 2: it says which broker, caller or task acts, not "somebody", "whoever" or "nobody"; and it has plain words for what
    the others of `WORDS` say.
Rule 3: each package has a ceiling, the number that was left when somebody last went through it. It only goes down: when
    a package has become better by more than `SLACK`, its ceiling has to follow.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

import pytest

from tests.unit.test_tidy import texts

OPENINGS: Final = re.compile(r"(Of|What|Who|Whose|Whom|As whom)\b")
WORDS: Final = re.compile(
    r"\b(nobody|whoever|somebody|everybody|hears|(is|are|was|were) told|is over|for ever|anew|what became of"
    r"|leads? (it )?no more|no more leads)\b",
    re.IGNORECASE,
)
SLACK: Final = 5
"""How far a package may stay below its ceiling, so that a small improvement needs no second edit."""
GENERATED: Final = re.compile(r"_pb2(_grpc)?\.pyi?$|/_generated/")
WRITTEN: Final = re.compile(r"\A\"\"\"[^\"]*\nWritten by scripts/")
"""The docstring of a file that a script writes: its words are those of another file."""


class Ceiling(NamedTuple):
    """The most that a package may have of each kind."""

    openings: int
    words: int


CEILINGS: Final = {
    "sdk/oncelog/": Ceiling(0, 0),
    "sdk/oncelog_cli/": Ceiling(0, 0),
    "spark/": Ceiling(0, 0),
    "services/runtime/": Ceiling(0, 0),
    "services/coordinator/": Ceiling(0, 0),
    "services/partition_leader/": Ceiling(0, 5),
    "services/pid_allocator/": Ceiling(0, 0),
}


@dataclass(frozen=True)
class Prose:
    """One docstring, or comment lines that follow each other, with its white space made single."""

    file: str
    line: int
    text: str


def prose(file: str, source: str) -> Iterator[Prose]:
    """Every docstring (of modules, classes, functions and attributes) and every comment of a Python file."""
    for node in ast.walk(ast.parse(source, file)):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield Prose(file, node.lineno, " ".join(text.split()))
    yield from _comments(file, source)


def _comments(file: str, source: str) -> Iterator[Prose]:
    found = [
        (token.start[0], token.string.lstrip("# "))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    starts = [0, *(at for at, ((above, _), (line, _)) in enumerate(pairwise(found), 1) if line != above + 1)]
    for start, end in pairwise([*starts, len(found)]):
        if start < end:
            yield Prose(file, found[start][0], " ".join(text for _, text in found[start:end]))


def bad_openings(piece: Prose) -> list[str]:
    match = OPENINGS.match(piece.text)
    return [f"{piece.file}:{piece.line}: opens with {match[0]!r}: {piece.text[:60]}"] if match else []


def bad_words(piece: Prose) -> list[str]:
    return [
        f"{piece.file}:{piece.line}: {match[0]!r} in ...{piece.text[max(0, match.start() - 40) : match.end() + 20]}"
        for match in WORDS.finditer(piece.text)
    ]


@cache
def everything() -> tuple[Prose, ...]:
    """All prose of the production packages, generated files left out."""
    return tuple(
        piece
        for file, text in texts(include_generated=False)
        if file.endswith(".py") and file.startswith(tuple(CEILINGS))
        if not GENERATED.search(file) and not WRITTEN.match(text)
        for piece in prose(file, text)
    )


def found_in(package: str) -> tuple[list[str], list[str]]:
    """The bad openings and the bad words of one package."""
    mine = [piece for piece in everything() if piece.file.startswith(package)]
    return [bad for piece in mine for bad in bad_openings(piece)], [bad for piece in mine for bad in bad_words(piece)]


@pytest.mark.parametrize("package", CEILINGS)
def test_no_package_gets_more_riddles(package: str) -> None:
    openings, words = found_in(package)
    assert len(openings) <= CEILINGS[package].openings, "\n".join(openings)
    assert len(words) <= CEILINGS[package].words, "\n".join(words)


@pytest.mark.parametrize("package", CEILINGS)
def test_a_ceiling_follows_what_became_better(package: str) -> None:
    openings, words = found_in(package)
    ceiling = CEILINGS[package]
    assert ceiling.openings - len(openings) <= SLACK, f"lower the ceiling: Ceiling({len(openings)}, {len(words)})"
    assert ceiling.words - len(words) <= SLACK, f"lower the ceiling: Ceiling({len(openings)}, {len(words)})"


def test_every_package_has_prose_to_look_at() -> None:
    assert [package for package in CEILINGS if not any(piece.file.startswith(package) for piece in everything())] == []


# ---------------------------------------------------------------- the check itself


def _bad(source: str) -> tuple[int, int]:
    pieces = list(prose("a.py", source))
    return sum(len(bad_openings(piece)) for piece in pieces), sum(len(bad_words(piece)) for piece in pieces)


@pytest.mark.parametrize(
    "source",
    [
        '"""Whatever follows is fine, and so is overhead: it tells nothing."""',
        'x = "nobody, whoever, somebody"  # a string is a message, not prose',
        "# A reader waits here.\n# What it waits for is the high watermark.",
        'def f() -> None:\n    """Ends this leadership for good."""',
    ],
)
def test_plain_prose_is_left_alone(source: str) -> None:
    assert _bad(source) == (0, 0)


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ('"""Of one producer."""', (1, 0)),
        ('class A:\n    """Who drains."""', (1, 0)),
        ('x: int\n"""What a hello is answered."""', (1, 0)),
        ("x = 1  # As whom a batch is written", (1, 0)),
        ("x = 1  # of\n\n# What\n# nobody knows for\n# ever", (1, 2)),
        ('"""A caller hears that; it is\n    told what became of it."""', (0, 3)),
        ('"""Leads it no more. Whoever waits begins anew."""', (0, 3)),
    ],
)
def test_a_riddle_is_counted(source: str, counts: tuple[int, int]) -> None:
    assert _bad(source) == counts
