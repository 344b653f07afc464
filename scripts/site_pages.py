"""The pages of the documentation site, made of the files that a code host shows: nothing is written twice.

Rule 1: every page is a file of the repository, or cut out of one, with its relative links led to pages of the site.
Rule 2: a link to what has no page, a page that no menu names, and a menu entry without a page are `SiteError`s.
Rule 3: this file needs the standard library alone, so tests look at the site without the tools that draw it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from scripts import markdown

ROOT: Final = Path(__file__).resolve().parents[1]

QUICK_START: Final = ("Try it", "Write and read", "Spark", "Deploy")
"""Sections of README.md that are the quick start; its beginning and `HOME` are the first page."""
HOME: Final = ("What it promises",)

MENU: Final[Mapping[str, tuple[str, ...]]] = {
    "Start": (
        "quick-start",
        "examples",
        "examples-go",
        "examples-node",
        "coming-from-kafka",
        "coming-from-aiokafka",
        "coming-from-queues",
    ),
    "Guides": (
        *(
            "spark",
            "transactions",
            "two-phase-sink",
            "consumer",
            "channels",
            "delays",
            "delivery",
            "once",
            "processes",
            "partitioner",
            "compaction",
            "security",
            "operations",
            "runbooks",
            "durability",
        ),
        *("repeated-calls", "tracing", "metrics", "tools", "threat_model", "helm-chart", "other-languages"),
    ),
    "Options": (
        *("reference/client", "reference/producer", "reference/consumer", "reference/worker", "reference/spark"),
        *("reference/topics", "reference/services"),
    ),
    "Reference": (
        *("reference/api/client", "reference/api/producer", "reference/api/transaction", "reference/api/consumer"),
        *("reference/api/worker", "reference/api/once"),
        *("reference/api/admin", "reference/api/sync", "reference/api/spark", "reference/errors", "cli", "protocol"),
        "batch-format",
    ),
    "Internals": (
        *(
            "internals/index",
            "internals/protocol",
            "internals/coordinator",
            "internals/groups",
            "internals/channels",
            "internals/delays",
            "internals/replication",
            "internals/storage",
            "internals/overload",
        ),
        *("internals/spark", "internals/invariants", "internals/states", "internals/cases", "internals/inputs"),
        *("internals/simulation", "internals/torture", "internals/glossary"),
    ),
    "Project": ("architecture", "style", "decisions/index", "changelog", "older-changes", "licence"),
}
"""Headings of the menu, and the pages below each."""

_OTHERS: Final = {
    "ARCHITECTURE.md": "architecture",
    "STYLE.md": "style",
    "CHANGELOG.md": "changelog",
    "LICENSE": "licence",
    "helm/oncelog/README.md": "helm-chart",
    "examples": "examples",
    "examples/go": "examples-go",
    "examples/node": "examples-node",
    "protos/oncelog/v1": "protocol",
    "protos/oncelog/v1/BATCH.md": "batch-format",
}
"""Files and folders outside of docs/ that have a page."""
_FOLDERS: Final = {"docs/reference": "reference/client", "docs/decisions": "decisions/index"}
"""Folders that links name, and the pages that stand for them."""
_LANGUAGES: Final = {".py": "python", ".proto": "protobuf", ".go": "go", ".js": "javascript", ".sh": "sh"}
_LISTINGS: Final = {
    "examples": "Examples",
    "examples/go": "Examples in Go",
    "examples/node": "Examples in Node",
    "protos/oncelog/v1": "The wire contract",
}
"""Folders whose page shows their files, and its title."""


class SiteError(Exception):
    """The site cannot be made; the message says of which file and why."""


# ---------------------------------------------------------------- what there is


def page_of(root: Path) -> dict[str, str]:
    """The page of each file and folder that has one; README.md, which has two, is not among them."""
    found = {**_OTHERS, **_FOLDERS}
    for path in sorted((root / "docs").rglob("*.md")):
        inside = path.relative_to(root / "docs").with_suffix("").as_posix()
        found[f"docs/{inside}.md"] = re.sub(r"\bREADME$", "index", inside)
    return found


def sources(root: Path) -> dict[str, str]:
    """Markdown of each page with links as the code host has them, and the file that they are relative to: page -> text."""
    pages = {page: _text(root, name) for name, page in page_of(root).items() if name not in _FOLDERS}
    home, quick_start = readme(_read(root, "README.md"))
    return {**pages, "index": home, "quick-start": quick_start}


def _home_of(root: Path) -> dict[str, str]:
    """The file by which relative links of a page are meant."""
    homes = {page: name for name, page in page_of(root).items() if name not in _FOLDERS}
    return {**homes, "index": "README.md", "quick-start": "README.md"}


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def _text(root: Path, name: str) -> str:
    if name == "LICENSE":
        return f"# Licence\n\n```text\n{_read(root, name).strip()}\n```\n"
    return _listing(root, name) if (root / name).is_dir() else _read(root, name)


def _listing(root: Path, folder: str) -> str:
    """A folder of sources as one page."""
    text = [f"# {_LISTINGS[folder]}", f"The files of `{folder}`."]
    for path in sorted((root / folder).iterdir()):
        if path.suffix in _LANGUAGES:
            text += [
                f"## {path.name}",
                f"```{_LANGUAGES[path.suffix]}\n{path.read_text(encoding='utf-8').strip()}\n```",
            ]
    return "\n\n".join(text) + "\n"


# ---------------------------------------------------------------- README.md


def readme(text: str) -> tuple[str, str]:
    """The first page and the quick start. Raises `SiteError` when a section that they are made of is not there."""
    lines = text.splitlines()
    starts = [heading for heading in markdown.headings(text) if heading.level == 2]
    ends = [*(heading.line for heading in starts[1:]), len(lines)]
    sections = {h.text: "\n".join(lines[h.line : end]).strip() for h, end in zip(starts, ends, strict=True)}
    if missing := [name for name in (*QUICK_START, *HOME) if name not in sections]:
        raise SiteError(f"README.md has no section {', '.join(missing)}")
    beginning = "\n".join(lines[: starts[0].line]).strip()
    home = "\n\n".join([beginning, *(sections[name] for name in HOME)])
    return home + "\n", "\n\n".join(["# Quick start", *(sections[name] for name in QUICK_START)]) + "\n"


# ---------------------------------------------------------------- links


def led(text: str, page: str, home: str, pages: Mapping[str, str], anchors: Mapping[str, set[str]]) -> str:
    """The text with relative links to files as relative links to pages. Raises `SiteError` for one that leads nowhere."""
    lines = text.splitlines()
    for link in markdown.links(text):
        if is_relative(link.target):
            there = _target(link.target, page, home, pages, anchors)
            lines[link.line] = lines[link.line].replace(f"]({link.target})", f"]({there})")
    return "\n".join(lines) + "\n"


def is_relative(target: str) -> bool:
    """True for a link inside of the repository."""
    return not re.match(r"[a-z][a-z0-9+.-]*:|//", target)


def _target(target: str, page: str, home: str, pages: Mapping[str, str], anchors: Mapping[str, set[str]]) -> str:
    file, _, anchor = target.partition("#")
    name = posixpath.normpath(posixpath.join(posixpath.dirname(home), file)) if file else ""
    if name.startswith("docs/images/"):
        return _between(page, name.removeprefix("docs/"))
    there = page if not file else _page_of_readme(anchor, anchors) if name == "README.md" else pages.get(name, "")
    if not there:
        raise SiteError(f"{home} links to {target}, which has no page")
    if anchor and anchor not in anchors[there]:
        raise SiteError(f"{home} links to {target}, and there is no such heading")
    path = _between(page, f"{there}.md") if file else ""
    return f"{path}#{anchor}" if anchor else path


def _page_of_readme(anchor: str, anchors: Mapping[str, set[str]]) -> str:
    return "quick-start" if anchor in anchors["quick-start"] else "index"


def _between(page: str, there: str) -> str:
    return posixpath.relpath(there, posixpath.dirname(page) or ".")


# ---------------------------------------------------------------- the whole


def site(root: Path = ROOT) -> dict[str, str]:
    """Every page: its name without ending -> Markdown for the site, menus included. Raises `SiteError`."""
    texts, homes, pages = sources(root), _home_of(root), page_of(root)
    _check_menu(texts)
    anchors = {page: markdown.anchors(text) for page, text in texts.items()}
    done = {page: led(text, page, homes[page], pages, anchors) for page, text in sorted(texts.items())}
    done["index"] += "".join(f"\n{_menu(title, names)}" for title, names in MENU.items())
    decisions = [posixpath.basename(page) for page in sorted(texts) if re.match(r"decisions/\d", page)]
    done["decisions/index"] += f"\n{_menu('', decisions)}"
    return done


def _check_menu(texts: Mapping[str, str]) -> None:
    named = [page for pages in MENU.values() for page in pages]
    if twice := {page for page in named if named.count(page) > 1}:
        raise SiteError(f"the menu names twice: {', '.join(sorted(twice))}")
    there = {page for page in texts if page != "index" and not re.match(r"decisions/\d", page)}
    if lost := sorted(set(named) - there):
        raise SiteError(f"the menu names pages that do not exist: {', '.join(lost)}")
    if unnamed := sorted(there - set(named)):
        raise SiteError(f"no menu names {', '.join(unnamed)}: add them to MENU in scripts/site_pages.py")


def _menu(title: str, pages: list[str] | tuple[str, ...]) -> str:
    options = [f":caption: {title}"] if title else [":hidden:"]
    return "\n".join(["```{toctree}", *options, ":maxdepth: 1", "", *pages, "```", ""])


def images(root: Path = ROOT) -> Iterator[Path]:
    """Files that pages show."""
    for folder, _, names in os.walk(root / "docs" / "images"):
        yield from (Path(folder) / name for name in sorted(names))
