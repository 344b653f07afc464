"""All tables in one, and the pytest marker of each case: `pytest -m case_B30`, `-m hole_7`, `-m input_57`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from tests.conformance.table.cases import CASES, HOLES, Case
from tests.conformance.table.cases_attacks import ATTACKS
from tests.conformance.table.cases_disks import DISKS
from tests.conformance.table.cases_hostile import HOSTILE
from tests.conformance.table.cases_kafka import WEAKNESSES
from tests.conformance.table.cases_later import LATER
from tests.conformance.table.cases_operations import OPERATIONS
from tests.conformance.table.cases_outcomes import OUTCOMES

ALL: Final[list[tuple[str, Case]]] = [
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

STORAGE_FAULTS: Final = tuple(f"S{number}" for number in range(1, 33))
"""The faults of docs/internals/storage.md. Each is a parameter of `test_storage_case`; other tests that show one are marked."""


def markers_of(number: str) -> list[str]:
    """The markers of a case, several for a range; none for a case that has a title and no number."""
    if re.fullmatch(r"[A-Z]\d+", number):
        return [f"case_{number}"]
    numbered = re.fullmatch(r"([a-z ]+?) (\d[\d, -]*)", number)
    if numbered is None:
        return []
    name = numbered[1].replace(" ", "_")
    found = []
    for part in numbered[2].split(","):
        first, _, last = part.strip().partition("-")
        found += [f"{name}_{n}" for n in range(int(first), int(last or first) + 1)]
    return found


@cache
def markers_by_test() -> Mapping[str, tuple[str, ...]]:
    """`path::name` below `tests/` -> its markers."""
    found: dict[str, dict[str, None]] = {}
    for number, case in ALL:
        for test in case.tests:
            found.setdefault(test, {}).update(dict.fromkeys(markers_of(number)))
    return {test: tuple(markers) for test, markers in found.items()}
