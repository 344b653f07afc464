"""Pages of docs/internals that name storage faults and bad inputs have all of them, and every test that they name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from scripts import gen_inputs, markdown
from tests.hostile_inputs.rows import NUMBERS
from tests.unit.partition_leader.log.test_storage_cases import CASES
from tests.unit.test_tidy import ROOT

INTERNALS = ROOT / "docs" / "internals"
PAGES = ("replication", "storage", "simulation", "states", "inputs")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
PATH = re.compile(r"`((?:oncelog\w*|pyspark_oncelog|tests)/[\w/.]*?(?:\.\w+|/))`")
PACKAGES = (ROOT, ROOT / "sdk", ROOT / "spark", *sorted((ROOT / "services").iterdir()))


def text_of(page: str) -> str:
    """A page of docs/internals."""
    return (INTERNALS / f"{page}.md").read_text(encoding="utf-8")


@cache
def functions(path: str) -> set[str]:
    """Tests of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def missing(text: str) -> list[str]:
    """Tests and files that a page names and that do not exist."""
    tests = [
        f"{path}::{name}"
        for path, name in TEST.findall(text)
        if not (ROOT / path).exists() or (name and name not in functions(path))
    ]
    return tests + [path for path in PATH.findall(text) if not any((at / path).exists() for at in PACKAGES)]


def test_every_storage_fault_has_a_section_in_the_order_of_the_table() -> None:
    sections = [found.text for found in markdown.headings(text_of("storage")) if re.fullmatch(r"S\d+", found.text)]
    assert sections == [f"S{number}" for number in sorted(CASES)]


def test_a_fault_that_the_log_cannot_show_alone_names_another_test() -> None:
    sections = dict(re.findall(r"^### S(\d+)\n(.*?)(?=^###? |\Z)", text_of("storage"), re.MULTILINE | re.DOTALL))
    elsewhere = [number for number, outcome in CASES.items() if outcome.startswith("elsewhere: ")]
    assert [number for number in elsewhere if not TEST.search(sections[str(number)])] == []


def test_every_bad_input_has_a_section() -> None:
    assert gen_inputs.main(["--check"]) == 0, "run python -m scripts.gen_inputs"
    assert {f"input-{number}" for number in NUMBERS} <= markdown.anchors(text_of("inputs"))


@pytest.mark.parametrize("page", PAGES)
def test_every_test_and_file_that_a_page_names_exists(page: str) -> None:
    assert len(TEST.findall(text_of(page))) >= 4
    assert missing(text_of(page)) == []


def test_a_name_that_does_not_exist_is_noticed() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    known = f"`{here}::text_of`, `oncelog/types.py`, `oncelog_partition_leader/log/`"
    assert missing(known) == []
    wrong = f"`{here}::nowhere`, `tests/nowhere.py`, `oncelog/nowhere.py`"
    assert missing(wrong) == [f"{here}::nowhere", "tests/nowhere.py::", "tests/nowhere.py", "oncelog/nowhere.py"]
