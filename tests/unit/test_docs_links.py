"""Every link in the documentation leads somewhere, on a code host as on the site; what stands in code blocks is no nonsense."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pygments.lexers import get_lexer_by_name

from oncelog_cli.main import build_parser
from pyspark_oncelog.options import option_table
from scripts import markdown
from scripts.gen_cli_docs import verbs

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "helm" / "oncelog" / "README.md"])
_OF_THEIR_TIME = ("CHANGELOG.md", "older-changes.md", "STYLE.md")
FOR_USERS = [page for page in PAGES if page.parent.name != "decisions" and page.name not in _OF_THEIR_TIME]

BY_HAND = [page for page in FOR_USERS if "docs/reference" not in page.as_posix()]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


def dead(page: Path) -> list[str]:
    """Links of a page that lead nowhere, each with its line."""
    found = []
    for line, target in markdown.links(page.read_text()):
        parts = urlsplit(target)
        there = (page.parent / parts.path).resolve() if parts.path else page
        if parts.scheme:
            is_good = parts.scheme in ("http", "https") and "." in parts.netloc
        elif there.is_dir() or there.suffix != ".md":
            is_good = there.exists() and not parts.fragment
        else:
            is_good = there.exists() and (
                not parts.fragment or parts.fragment in markdown.anchors(there.read_text(encoding="utf-8"))
            )
        if not is_good:
            found.append(f"{name(page)}:{line + 1}: {target}")
    return found


def test_there_are_links_to_look_at() -> None:
    assert len(PAGES) > 60
    assert sum(len(markdown.links(page.read_text())) for page in PAGES) > 300


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert dead(page) == []


def test_a_dead_link_is_noticed(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("# Title\n\n## Some `code` here\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#some-code-here) [c](other.md#twice-1) [d](#here) [e](https://x.example/y)\n# Here\n"
        "```\n[no link](nowhere.md)\n```\n`[nor](this.md)`\n"
        "[f](other.md#some-code) [g](lost.md) ![h](lost.png) [i](#there) [j](https://nohost)\n"
    )
    targets = ["other.md#some-code", "lost.md", "lost.png", "#there", "https://nohost"]
    assert dead(page) == [f"page.md:7: {target}" for target in targets]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("What is not there yet", "what-is-not-there-yet"),
        ("`oncelog topic create`", "oncelog-topic-create"),
        ("Backup, and restore of etcd!", "backup-and-restore-of-etcd"),
        ("Client.join_transaction", "clientjoin_transaction"),
        ("A [link](b.md) - in it", "a-link---in-it"),
    ],
)
def test_anchors_are_those_of_code_hosts(heading: str, anchor: str) -> None:
    assert markdown.slug(heading) == anchor


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_headings_go_down_by_one_and_code_is_of_its_language(page: Path) -> None:
    """What the site's tools would warn of, and a warning is an error there."""
    text = page.read_text()
    levels = [heading.level for heading in markdown.headings(text)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert [(a, b) for a, b in zip(levels, levels[1:], strict=False) if b > a + 1] == []
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        lexer = get_lexer_by_name(language)
        lexer.add_filter("raiseonerror")
        assert list(lexer.get_tokens(code)), f"{language}: {code}"


def blocks(language: str) -> list[tuple[str, str]]:
    """Fenced code of a language in pages that people write."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(name(page), code) for page in BY_HAND for code in fence.findall(page.read_text())]


def test_python_in_the_guides_is_python_and_names_options_that_exist() -> None:
    python = blocks("python")
    assert len(python) > 15
    known = {*option_table.CONNECTION, *option_table.SOURCE, *option_table.SINK, "checkpointLocation"}
    for page, code in python:
        compile(code, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        given = re.findall(r"""\.option\(\s*["'](\w+)["']""", code)
        assert set(given) <= known, page


def test_every_verb_and_flag_that_the_guides_name_exists() -> None:
    parsers = {parser.prog: parser for parser in verbs(build_parser())}
    named = {
        (name(page), code) for page in FOR_USERS for code in re.findall(r"`(oncelog [a-z][^`]*)`", page.read_text())
    }
    assert len(named) > 100
    assert {(page, code) for page, code in named if unknown_words(code, parsers)} == set()


def unknown_words(code: str, parsers: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """What of a command line no parser knows: its verb, flags of it, or values of flags that have a list of them."""
    words = code.replace("\\|", " ").split()
    prog = next((" ".join(words[:n]) for n in (3, 2) if " ".join(words[:n]) in parsers), "")
    if not prog:
        return [] if any(known.startswith(f"{' '.join(words)} ") for known in parsers) else words
    known = parsers[prog]._option_string_actions
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    return sorted(given - set(known)) + [
        f"{flag} {value}"
        for flag, value in flags_with_values(words)
        if flag in known and known[flag].choices is not None and not is_choice(known[flag], value)
    ]


def flags_with_values(words: list[str]) -> list[tuple[str, str]]:
    """As `--flag value` or `--flag=value`."""
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            found.append((flag, value if equals else following))
    return found


def is_choice(action: argparse.Action, value: str) -> bool:
    """As argparse judges it, which converts first."""
    convert = action.type if callable(action.type) else str
    return convert(value) in (action.choices or ())


def test_a_wrong_verb_and_a_wrong_flag_are_noticed() -> None:
    parsers = {parser.prog: parser for parser in verbs(build_parser())}
    assert unknown_words("oncelog topic alter orders", parsers) == ["oncelog", "topic", "alter", "orders"]
    assert unknown_words("oncelog topic list --interal --format json", parsers) == ["--interal"]
    assert unknown_words("oncelog txn", parsers) == []
    assert unknown_words("oncelog txn list --state=begun --format xml", parsers) == ["--state begun", "--format xml"]
    assert unknown_words("oncelog txn list --state ongoing --format json", parsers) == []
