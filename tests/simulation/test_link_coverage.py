"""The tool that says how much of the link's code runs in a simulation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.simulation.link_coverage import CORE, Coverage
from tests.simulation.test_links import whole_story

CODE = '''"""A module."""

class Toy:
    """A class."""

    size = 1

    def ask(self, is_it: bool) -> int:
        """Docstrings do not run."""
        if is_it:
            return 1
        return 2

    def port(self) -> None:
        """Others implement it."""
        ...
'''


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "toy_of_link_coverage.py"
    path.write_text(CODE)
    sys.path.insert(0, str(tmp_path))
    try:
        yield __import__(path.stem)
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules[path.stem]


def test_lines_of_functions_are_counted_and_those_that_ran_are_known(toy: ModuleType) -> None:
    coverage = Coverage.of(toy)
    name = str(toy.__file__)
    assert coverage.missed(name) == [10, 11, 12]
    with coverage.watching():
        toy.Toy().ask(True)
    toy.Toy().ask(False)  # after the watch
    assert coverage.missed(name) == [12]
    assert coverage.share == pytest.approx(2 / 3)
    *_, total = coverage.report()
    assert total.split() == ["all", "3", "lines", "66.7%"]


def test_a_simulation_of_links_alone_runs_most_of_their_core() -> None:
    """Passwords, strangers and small messages come with whole clusters."""
    coverage = Coverage.of(*CORE)
    with coverage.watching():
        whole_story(0)
    assert coverage.share >= 0.8, "\n".join(coverage.report())
