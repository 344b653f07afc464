"""The table of cases is complete, and every test that it names exists."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.cases import CASES, HOLES, Case
from tests.conformance.cases_attacks import ATTACKS
from tests.conformance.cases_disks import DISKS
from tests.conformance.cases_hostile import HOSTILE
from tests.conformance.cases_kafka import WEAKNESSES
from tests.conformance.cases_later import LATER
from tests.conformance.cases_operations import OPERATIONS
from tests.conformance.cases_outcomes import OUTCOMES
from tests.conformance.stories import STORIES

_TESTS = Path(__file__).parents[1]
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


def test_every_number_is_in_the_table() -> None:
    listed = {f"{letter}{number}" for letter, numbers in _NUMBERS.items() for number in numbers}
    assert set(CASES) == listed
    assert set(HOLES) == set(range(1, 26))


_ALL = [
    *CASES.items(),
    *LATER.items(),
    *WEAKNESSES.items(),
    *((f"hole {n}", case) for n, case in HOLES.items()),
    *OPERATIONS.items(),
    *OUTCOMES.items(),
    *DISKS.items(),
    *HOSTILE.items(),
    *ATTACKS.items(),
]


@pytest.mark.parametrize(("number", "case"), _ALL)
def test_a_case_is_tested_or_has_a_reason(number: str, case: Case) -> None:
    assert case.title
    assert case.tests or len(case.reason) > 40, f"{number} is neither tested nor explained"
    for test in case.tests:
        path, _, name = test.partition("::")
        assert name in _functions(path), f"{number}: there is no {test}"


def test_every_tested_case_has_its_story() -> None:
    assert set(STORIES) == {number for number, case in {**CASES, **LATER}.items() if case.tests}


def test_every_script_is_in_the_table() -> None:
    named = {test for _, case in _ALL for test in case.tests}
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        if file == Path(__file__):
            continue
        path = f"conformance/{file.name}"
        missing = {name for name in _functions(path) if name.startswith("test_")} - {
            test.partition("::")[2] for test in named if test.startswith(f"{path}::")
        }
        assert not missing, f"scripts that no case names: {sorted(missing)}"
