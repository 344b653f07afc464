"""Tests that start real processes stay together, and what a test wrote survives the way to the process that prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributing import REAL_PROCESSES, encodable, together

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("folder", sorted(REAL_PROCESSES))
def test_tests_with_real_processes_stay_together(folder: str) -> None:
    assert (TESTS / folder).is_dir()
    assert together(f"tests/{folder}/test_any.py::test_one[a::b]") == together(
        "tests/contracts/deep/test_other.py::test"
    )


def test_other_files_stay_whole() -> None:
    file = "tests/unit/sdk/test_any.py"
    assert together(f"{file}::test_one[a::b]") == together(f"{file}::Tests::test_two") == file


def test_a_report_with_half_a_surrogate_pair_can_be_sent() -> None:
    report = {"sections": [("Captured log call", "said \ud800 and é")], "lines": ["\udfff", 7, None], "\ud800": True}
    assert encodable(report) == {
        "sections": [("Captured log call", "said \\ud800 and é")],
        "lines": ["\\udfff", 7, None],
        "\\ud800": True,
    }
