"""Markdown as a code host shows it: where headings are, and where links lead. Nothing but the standard library.

Rule 1: what stands in code, fenced or between backticks, is no heading and no link.
Rule 2: an anchor is made of a heading as code hosts do it: lower case, hyphens for spaces, no other punctuation; the second of
        the same name ends in `-1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_FENCE: Final = re.compile(r"^ {0,3}(```+|~~~+)")
_HEADING: Final = re.compile(r"^(#{1,6}) +(.*?)(?: +#+)? *$")
_CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK: Final = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(<?([^()\s<>]*(?:\([^()\s]*\)[^()\s]*)*)>?(?:\s+\"[^\"]*\")?\)"
)
_IMAGE_OR_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


class Heading(NamedTuple):
    """A heading: its line (from 0), its level (from 1), and its text as written."""

    line: int
    level: int
    text: str


class Link(NamedTuple):
    """Where a link or an image leads, as written, and on which line (from 0)."""

    line: int
    target: str


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside of fenced code, with their numbers."""
    fence = ""
    for number, line in enumerate(text.splitlines()):
        match = _FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif match and fence and match[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence:
            yield number, line


def headings(text: str) -> list[Heading]:
    """All headings that begin with `#`."""
    return [
        Heading(number, len(match[1]), match[2])
        for number, line in prose_lines(text)
        if (match := _HEADING.match(line))
    ]


def slug(heading: str) -> str:
    """Rule 2, for a heading that is the first of its name."""
    text = _IMAGE_OR_LINK.sub(r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """What may stand behind `#`."""
    seen: dict[str, int] = {}
    found = set()
    for heading in headings(text):
        name = slug(heading.text)
        found.add(f"{name}-{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return found


def links(text: str) -> list[Link]:
    """Links and images with their target in parentheses."""
    found = []
    for number, line in prose_lines(text):
        blank = _CODE.sub(lambda match: "x" * len(match[0]), line)
        found += [Link(number, line[match.start(1) : match.end(1)]) for match in _LINK.finditer(blank)]
    return found
