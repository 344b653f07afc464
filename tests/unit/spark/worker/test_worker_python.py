"""The driver reports that its workers find no oncelog."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_oncelog.worker.worker_python import problem


def program(folder: Path, name: str, code: int) -> Path:
    """Answers every question with this exit code, as a Python with (0) or without (1) oncelog does."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_a_python_with_oncelog_is_fine(tmp_path: Path) -> None:
    assert problem({"PATH": str(program(tmp_path / "bin", "python3", 0).parent)}, "/venv/bin/python") == ""
    named = program(tmp_path / "other", "python", 0)
    assert problem({"PATH": "", "PYSPARK_PYTHON": str(named)}, "/venv/bin/python") == ""


def test_the_activated_environment_is_not_even_asked(tmp_path: Path) -> None:
    found = program(tmp_path / "bin", "python3", 1)
    assert problem({"PATH": str(found.parent)}, str(found.parent / "python")) == ""


@pytest.mark.parametrize("variable", ["", "other-python", "no-such-python"])
def test_a_missing_or_wrong_python_is_named_with_what_to_set(variable: str, tmp_path: Path) -> None:
    folder = program(tmp_path / "bin", "python3", 1).parent
    program(folder, "other-python", 1)
    environment = {"PATH": str(folder)} | ({"PYSPARK_PYTHON": variable} if variable else {})
    told = problem(environment, "/venv/bin/python")
    assert "set PYSPARK_PYTHON=/venv/bin/python" in told
    assert (f"PYSPARK_PYTHON={variable}" if variable else str(folder / "python3")) in told
    assert "there is none" in problem({"PATH": str(tmp_path)}, "/venv/bin/python")


def test_a_driver_that_imports_the_package_is_warned_and_goes_on(tmp_path: Path) -> None:
    folder = program(tmp_path / "bin", "python3", 1).parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", "import pyspark_oncelog; print('on')"],
        env={**environment, "PATH": f"{folder}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "on\n"
    assert f"PYSPARK_PYTHON={sys.executable}" in done.stderr
    assert done.stderr.count("UserWarning") == 1
