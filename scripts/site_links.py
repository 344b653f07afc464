"""Follows every link of a folder of HTML.

Rule 1: a link inside leads to a file that is there, and what stands behind `#` is an id in it.
Rule 2: a link to elsewhere is an http, https or mailto address with a host; nobody calls there.
Rule 3: a page loads nothing (scripts, styles, images, fonts) from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_LOADED: Final = {("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src")}


@dataclass(slots=True)
class Checked:
    """How many links there were, and what is wrong with which."""

    links: int = 0
    problems: list[str] = field(default_factory=list)


class _Page(HTMLParser):
    """Ids and links of a page; a link is (target, whether the page loads it)."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        given = {name: value for name, value in attrs if value is not None}
        self.ids |= {given[name] for name in ("id", "name") if name in given and (name == "id" or tag == "a")}
        if tag == "link" and "href" in given:
            self.links.append((given["href"], given.get("rel") == "stylesheet"))
        elif "href" in given:
            self.links.append((given["href"], False))
        self.links += [(given[name], True) for of, name in _LOADED if of == tag and name in given]


def check(folder: Path) -> Checked:
    """Every link of every .html file below the folder."""
    pages = {path: _read(path) for path in sorted(folder.rglob("*.html"))}
    done = Checked()
    for path, page in pages.items():
        for target, is_loaded in page.links:
            done.links += 1
            done.problems += [
                f"{path.relative_to(folder)}: {target}: {problem}"
                for problem in _problems(path, target, is_loaded, pages)
            ]
    if not pages:
        done.problems.append(f"no pages in {folder}")
    return done


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def _problems(path: Path, target: str, is_loaded: bool, pages: dict[Path, _Page]) -> Iterator[str]:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        if is_loaded:
            yield "is loaded from elsewhere"
        elif parts.scheme not in ("http", "https", "mailto") or not (parts.netloc or parts.scheme == "mailto"):
            yield "is no address"
        return
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    there = there / "index.html" if there.is_dir() else there
    if not there.is_file():
        yield "leads to no file"
    elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].ids:
        yield "leads to no heading"
