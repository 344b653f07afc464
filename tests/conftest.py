"""What all tests share: no test is judged by how long it takes, since a busy machine is no bug; and each test has the markers
of the cases that it shows (`pytest -m case_B30`), from the tables of `tests/conformance/table`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.conformance.table.everything import ALL, markers_by_test, markers_of

settings.register_profile("oncelog", deadline=None)
settings.load_profile("oncelog")

_TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Makes the markers known."""
    for number, case in ALL:
        for marker in markers_of(number):
            config.addinivalue_line("markers", f"{marker}: {case.title}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that a table names."""
    markers = markers_by_test()
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(_TESTS):
            test = f"{item.path.relative_to(_TESTS).as_posix()}::{item.originalname}"
            for marker in markers.get(test, ()):
                item.add_marker(marker)
