"""Every reference in code, tests, protos and documentation leads to something that stands in this repository.

    hole 5, holes 17, 18      docs/internals/invariants.md#hole-5
    case C92, cases A1-A6     docs/internals/cases.md#case-c92
    input 57, inputs 1-18     docs/internals/inputs.md#input-57
    S9, (S3-S5)               docs/internals/storage.md#s9
    W13                       docs/internals/cases.md#w13
    decision 0017             docs/decisions/0017-*.md
    docs/page.md#anchor       that page, and that heading of it
    KIP-101, KAFKA-17507      Kafka's own numbers: only their form is checked

Rule 1: of a range both ends must be there.
Rule 2: a page is named by its path and an anchor, never by the number of a section: numbers of sections change.
Rule 3: a Markdown file that is not in the repository is named nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from scripts import markdown
from tests.unit.test_tidy import texts

INTERNALS: Final = "docs/internals/"

PRETENDED: Final = frozenset(
    {
        *("NNNN-short-name", "README.template", "architecture", "b", "helm-chart", "index", "lost", "new", "nowhere"),
        *("other", "page", "quick-start", "this", "x"),
    }
)
"""Pages that tests of the documentation's tools make up, without `.md`."""
NOT_LOOKED_AT: Final = re.compile(r"^(locks/.*|.*_pb2(_grpc)?\.pyi?|tests/unit/test_code_references\.py|.*\.svg)$")

_NUMBERS: Final = r"(\d+(?:(?:-|, and |, | and )\d+)*)"
_CASE_NUMBERS: Final = r"([A-Z]\d+(?:(?:-|, and |, | and )[A-Z]\d+)*)"


@dataclass(frozen=True)
class Numbered:
    """References by number: how they look, and which anchor of which page `number` means."""

    pattern: re.Pattern[str]
    page: str
    anchor: Callable[[str], str]


NUMBERED: Final = (
    Numbered(re.compile(rf"\b[Hh]oles?\s+{_NUMBERS}"), f"{INTERNALS}invariants.md", lambda number: f"hole-{number}"),
    Numbered(
        re.compile(rf"\b[Cc]ases?\s+{_CASE_NUMBERS}"), f"{INTERNALS}cases.md", lambda number: f"case-{number.lower()}"
    ),
    Numbered(re.compile(rf"\b[Ii]nputs?\s+{_NUMBERS}"), f"{INTERNALS}inputs.md", lambda number: f"input-{number}"),
    Numbered(re.compile(r"(?<![\w.{])(S[1-9]\d?)(?![\w(]|\.\w)"), f"{INTERNALS}storage.md", str.lower),
    Numbered(re.compile(r"(?<![\w.{])(W[1-9]\d?)(?![\w(]|\.\w)"), f"{INTERNALS}cases.md", str.lower),
)
FORBIDDEN: Final = {
    re.compile(r"\bDESIGN\b(?!_)"): "there is no such document: name a page of docs/internals",
    re.compile(
        r"\b(semantics|reliability|losses|peers|style) [A-K]?\d"
    ): "there is no such document: name a page of docs/internals",
    re.compile(r"\b[Cc]ases? \d+(?! (of|in|out))"): "a case has a letter, as in `case C92`",
    re.compile(r"\.md`? \d"): "name an anchor (`page.md#anchor`), not the number of a section",
    re.compile(r"\b(KIP|KAFKA)(?!-[1-9]\d{0,4}\b)[- ]?\w*\d"): "write it as in KIP-101 and KAFKA-17507",
}
_PAGE: Final = re.compile(r"(?<![\w/.-])((?:docs|helm|protos)/[\w/.-]+\.md)(?:#([\w-]+))?")
_NAME: Final = re.compile(r"(?<![\w.-])([\w-]+(?:\.template)?)\.md\b(?!-)")
_DECISION: Final = re.compile(r"\b[Dd]ecisions?(?:/| )(\d{4})\b(?!-)")


@dataclass(frozen=True)
class Pages:
    """What references may lead to: anchors by page, names of all Markdown files, numbers of decisions."""

    anchors: Mapping[str, frozenset[str]]
    names: frozenset[str]
    decisions: frozenset[str]


@cache
def known_pages() -> Pages:
    """Those of the repository, and those that are awaited."""
    found = {
        file: frozenset(markdown.anchors(text)) for file, text in texts(include_generated=True) if file.endswith(".md")
    }
    decisions = frozenset(Path(file).name[:4] for file in found if file.startswith("docs/decisions/0"))
    names = frozenset(Path(file).stem for file in found) | PRETENDED
    return Pages(found, names, decisions)


def broken(text: str, pages: Pages) -> list[tuple[int, str]]:
    """Lines (from 1) and what is wrong there."""
    found = (*_broken_numbers(text, pages), *_broken_pages(text, pages), *_forbidden(text))
    return sorted((text.count("\n", 0, position) + 1, why) for position, why in found)


def _broken_numbers(text: str, pages: Pages) -> Iterator[tuple[int, str]]:
    for kind in NUMBERED:
        known = pages.anchors.get(kind.page, frozenset())
        for match in kind.pattern.finditer(text):
            for number in re.findall(r"[A-Z]?\d+", match[1]):
                if kind.anchor(number) not in known:
                    yield match.start(), f"{match[0]!r}: no {kind.page}#{kind.anchor(number)}"


def _broken_pages(text: str, pages: Pages) -> Iterator[tuple[int, str]]:
    for match in _PAGE.finditer(text):
        page, anchor = match[1], match[2]
        if page not in pages.anchors:
            yield match.start(), f"no page {page}"
        elif anchor and anchor not in pages.anchors[page]:
            yield match.start(), f"no {page}#{anchor}"
    for match in _DECISION.finditer(text):
        if match[1] not in pages.decisions:
            yield match.start(), f"no decision {match[1]}"
    for match in _NAME.finditer(text):
        if match[1] not in pages.names:
            yield match.start(), f"no file {match[1]}.md"


def _forbidden(text: str) -> Iterator[tuple[int, str]]:
    for pattern, advice in FORBIDDEN.items():
        yield from ((match.start(), f"{match[0]!r}: {advice}") for match in pattern.finditer(text))


# ---------------------------------------------------------------- the repository


def test_every_reference_leads_to_something_in_the_repository() -> None:
    found = [
        f"{file}:{line}: {why}"
        for file, text in texts(include_generated=True)
        if not NOT_LOOKED_AT.match(file)
        for line, why in broken(text, known_pages())
    ]
    assert found == []


def test_there_are_references_to_look_at() -> None:
    counts = [0] * len(NUMBERED)
    for file, text in texts(include_generated=False):
        for place, kind in enumerate(NUMBERED):
            counts[place] += 0 if NOT_LOOKED_AT.match(file) else len(kind.pattern.findall(text))
    assert [count > 3 for count in counts] == [True] * len(NUMBERED), counts


# ---------------------------------------------------------------- the check itself

KNOWN: Final = Pages(
    {
        "docs/internals/invariants.md": frozenset({"hole-5", "hole-17", "hole-18"}),
        "docs/internals/cases.md": frozenset({"case-a1", "case-a6", "case-c92", "w7"}),
        "docs/internals/inputs.md": frozenset({"input-1", "input-7", "input-57"}),
        "docs/internals/storage.md": frozenset({"s3", "s5", "rot"}),
    },
    frozenset({"storage", "README"}),
    frozenset({"0017"}),
)


@pytest.mark.parametrize(
    "line",
    [
        "acts only on entries that name itself (hole 5), never by name (holes 17, 18). A deposed one",
        "is no proof (case C92; cases A1-A6; W7).",
        "refused by name (inputs 1-7, 57)",
        "it is cut (S3-S5), see docs/internals/storage.md#rot",
        "decision 0017, docs/decisions/0017, KIP-101, KIP-320 and KAFKA-17507",
        "TASKS2, _S3, S3Client, P0, Raft 5.4.2, README.md",
    ],
)
def test_a_reference_that_resolves_is_left_alone(line: str) -> None:
    assert broken(line, KNOWN) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("(hole 6)", "invariants.md#hole-6"),
        ("(holes 5, 19)", "invariants.md#hole-19"),
        ("(holes 5-7)", "invariants.md#hole-7"),
        ("case C93", "cases.md#case-c93"),
        ("(cases 75, 76)", "a case has a letter"),
        ("(inputs 1-8)", "inputs.md#input-8"),
        ("(S33)", "storage.md#s33"),
        ("(S3-S6)", "storage.md#s6"),
        ("as in hole\n6", "invariants.md#hole-6"),
        ("see docs/internals/storage.md#rotten", "no docs/internals/storage.md#rotten"),
        ("see docs/internals/elsewhere.md", "no page docs/internals/elsewhere.md"),
        ("decision 0018", "no decision 0018"),
        ("by the rules of DESIGN 9", "no such document"),
        ("(semantics 1.3)", "no such document"),
        ("(reliability 7)", "no such document"),
        ("(W13)", "cases.md#w13"),
        ("storage.md 5.2", "name an anchor"),
        ("in holes.md", "no file holes.md"),
        ("KIP 101", "write it as"),
        ("KAFKA-0123", "write it as"),
    ],
)
def test_a_reference_that_leads_nowhere_is_noticed(line: str, says: str) -> None:
    found = broken(f"first\n{line}", KNOWN)
    assert [why for number, why in found if number == 2 and says in why] != [], found
