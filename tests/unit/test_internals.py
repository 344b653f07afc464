"""The pages in docs/internals are drawn from the tables of the tests, and name only files and functions that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts import gen_internals, markdown
from tests.conformance.table.cases import CASES, HOLES
from tests.conformance.table.cases_later import LATER

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "internals"
PAGES = (
    *("README.md", "protocol.md", "coordinator.md", "spark.md", "glossary.md", "invariants.md"),
    *("replication.md", "storage.md", "simulation.md", "groups.md", "states.md", "overload.md", "torture.md"),
)
SOURCES = {
    "oncelog": "sdk",
    "oncelog_cli": "sdk",
    "pyspark_oncelog": "spark",
    "oncelog_partition_leader": "services/partition_leader",
    "oncelog_coordinator": "services/coordinator",
    "oncelog_pid_allocator": "services/pid_allocator",
    "oncelog_runtime": "services/runtime",
    "tests": ".",
    "scripts": ".",
}
"""Folder of each package, as docs/internals/README.md has it."""
REFERENCE = re.compile(r"`(\w+(?:/\w+)+\.py)(?:::(\w+))?`")


def references(text: str) -> Iterator[tuple[str, str]]:
    """(path, name) of each file that a text names; the name may be empty."""
    yield from REFERENCE.findall(text)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Functions, methods and classes of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def dead(text: str) -> list[str]:
    """References that lead nowhere."""
    found = []
    for path, name in references(text):
        file = ROOT / SOURCES.get(path.partition("/")[0], "no package") / path
        if not file.is_file() or (name and name not in names_in(file)):
            found.append(f"{path}::{name}")
    return found


def read(page: str) -> str:
    return (FOLDER / page).read_text(encoding="utf-8")


def test_the_pages_are_up_to_date() -> None:
    assert gen_internals.main(["--check"]) == 0, "run python -m scripts.gen_internals"


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_function_that_a_page_names_exists(page: str) -> None:
    text = read(page)
    assert len(list(references(text))) > 3
    assert dead(text) == []


def test_a_dead_reference_is_noticed() -> None:
    good = "`oncelog/core/batch/header.py` and `oncelog/core/batch/header.py::partition_tag`"
    assert dead(good) == []
    assert dead("`oncelog/core/batch/lost.py`, `oncelog/core/batch/header.py::lost`, `nowhere/header.py`") == [
        "oncelog/core/batch/lost.py::",
        "oncelog/core/batch/header.py::lost",
        "nowhere/header.py::",
    ]


def test_the_readme_says_where_the_packages_are() -> None:
    rows = dict(re.findall(r"^\| (`.*/`) \| (.+) \|$", read("README.md"), re.MULTILINE))
    told = {name: folder for names, folder in rows.items() for name in re.findall(r"`(\w+)/`", names)}
    assert set(told) == set(SOURCES)
    assert {name: folder.strip("`").rstrip("/") for name, folder in told.items() if folder.startswith("`")} == {
        name: folder for name, folder in SOURCES.items() if folder != "."
    }


def test_every_hole_and_every_case_has_an_anchor() -> None:
    invariants, cases = markdown.anchors(read("invariants.md")), markdown.anchors(read("cases.md"))
    assert {f"hole-{number}" for number in {*HOLES, 26, 27, 28, 29}} <= invariants
    assert {f"p{number}" for number in range(1, 9)} <= markdown.anchors(read("protocol.md"))
    assert {f"case-{number.lower()}" for number in {**CASES, **LATER}} <= cases
    assert {f"w{number}" for number in range(1, 25)} <= cases


def test_every_hole_says_how_it_breaks_by_which_rule_it_is_closed_and_where() -> None:
    for section in read("invariants.md").split("\n## Hole ")[1:]:
        number = section.partition("\n")[0]
        kept = gen_internals.with_proofs(section)
        assert kept == section, f"hole {number}"
        assert "*Shown by.*" in section, f"hole {number}"
        words = (
            ("*How it breaks.*", "*Rule.*", "*In code.*") if number != "25" else ("| how it breaks | rule | in code |",)
        )
        assert [word for word in words if word not in section] == [], f"hole {number}"


def test_a_hole_is_shown_by_its_tests_its_planted_bug_and_its_rule_of_the_model() -> None:
    proof = gen_internals.proof(1)
    assert HOLES[1].tests[0].partition("::")[2] in proof
    assert "planted bug `hole-01`" in proof
    assert "`epoch_record_before_answer`" in proof
    assert "no planted bug" not in proof
    assert gen_internals.with_proofs("a\n<!-- shown-by: hole 1 -->\nold\n<!-- end -->\nb\n").count("old") == 0


@pytest.mark.parametrize(
    ("question", "source"),
    [
        ("Where is a duplicate batch recognised?", "sequence_window.py::judge"),
        ("Why can a late END not touch the next transaction?", "client_decisions.py::end"),
        ("What happens when a leader dies between append and answer?", "producer_window.py::judge"),
    ],
)
def test_the_first_page_answers_what_newcomers_ask_first(question: str, source: str) -> None:
    (row,) = [line for line in read("README.md").splitlines() if line.startswith(f"| {question} |")]
    assert source in row
    assert "(protocol.md#" in row
