"""The table of cases is complete, and every test that it names exists."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.table.cases import CASES, HOLES, Case
from tests.conformance.table.cases_later import LATER
from tests.conformance.table.everything import ALL, markers_of
from tests.conformance.table.stories import STORIES

_TESTS = Path(__file__).parents[2]
_NUMBERS = {
    "A": [*range(1, 7), *range(8, 19), 20, 21, 23, 24, 25],
    "B": [*range(26, 31), *range(32, 37), *range(38, 46), *range(47, 51)],
    "C": [*range(51, 62), *range(63, 70), *range(71, 78), *range(79, 86), *range(87, 90), 92, 93],
    "D": [*range(94, 97), *range(98, 103), *range(104, 107), *range(108, 112), *range(113, 121)],
}


@cache
def _functions(path: str) -> set[str]:
    tree = ast.parse((_TESTS / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


_GROUPS = {
    "H": [*range(156, 161), *range(162, 166), 167, 168, 170, 171],
    "I": [172, 173, 175, 176],
}


def test_every_number_of_groups_is_in_the_table() -> None:
    listed = {f"{letter}{number}" for letter, numbers in _GROUPS.items() for number in numbers}
    assert {number for number in LATER if number[0] in _GROUPS} == listed


def test_every_number_is_in_the_table() -> None:
    listed = {f"{letter}{number}" for letter, numbers in _NUMBERS.items() for number in numbers}
    assert set(CASES) == listed
    assert set(HOLES) == set(range(1, 26))


@pytest.mark.parametrize(("number", "case"), ALL)
def test_a_case_is_tested_or_has_a_reason(number: str, case: Case) -> None:
    assert case.title
    assert case.tests or len(case.reason) > 40, f"{number} is neither tested nor explained"
    for test in case.tests:
        path, _, name = test.partition("::")
        assert name in _functions(path), f"{number}: there is no {test}"


def test_every_tested_case_has_its_story() -> None:
    assert set(STORIES) == {number for number, case in {**CASES, **LATER}.items() if case.tests}


def test_every_script_is_in_the_table() -> None:
    named = {test for _, case in ALL for test in case.tests}
    here = Path(__file__)
    for file in sorted((_TESTS / "conformance").rglob("test_*.py")):
        if file == here:
            continue
        path = file.relative_to(_TESTS).as_posix()
        missing = {name for name in _functions(path) if name.startswith("test_")} - {
            test.partition("::")[2] for test in named if test.startswith(f"{path}::")
        }
        assert not missing, f"scripts that no case names: {sorted(missing)}"


@pytest.mark.parametrize(
    ("number", "markers"),
    [
        ("B30", ["case_B30"]),
        ("W3", ["case_W3"]),
        ("hole 7", ["hole_7"]),
        ("drain 1", ["drain_1"]),
        ("input 8, 12", ["input_8", "input_12"]),
        ("input 1-3", ["input_1", "input_2", "input_3"]),
        ("open files", []),
    ],
)
def test_a_case_is_a_marker(number: str, markers: list[str]) -> None:
    assert markers_of(number) == markers


def test_the_tests_of_a_case_are_found_by_its_marker() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-m", "case_B30"]
    done = subprocess.run(
        [*command, "tests/conformance/producers"], cwd=_TESTS.parent, capture_output=True, text=True, check=True
    )
    found = [line.rpartition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    wanted = {test.rpartition("::")[2] for number, case in ALL if number == "B30" for test in case.tests}
    assert found
    assert set(found) <= wanted


def test_no_unit_test_is_named_by_a_number() -> None:
    numbered = re.compile(r"def (test_(?:hole_\d|[a-z]?\d+_)\w*)")
    files = sorted((_TESTS / "unit").rglob("test_*.py"))
    assert [name for file in files for name in numbered.findall(file.read_text())] == []


@pytest.mark.case("B30", "hole 7", "S12")
def test_a_test_outside_of_the_tables_names_its_cases_itself(request: pytest.FixtureRequest) -> None:
    assert {"case_B30", "hole_7", "case_S12"} <= {marker.name for marker in request.node.iter_markers()}
