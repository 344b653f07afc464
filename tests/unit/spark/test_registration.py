"""Registration by hand: the workers' Python is looked at first."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import (
    ConfigError,
)
from pyspark_oncelog.datasource import DefaultSource
from pyspark_oncelog.registration import register, require_worker_python


def test_a_worker_python_that_does_not_run_is_named() -> None:

    with pytest.raises(ConfigError, match="no-such-python lacks a Python that runs: set PYSPARK_PYTHON"):
        require_worker_python("no-such-python")


def test_this_python_has_what_a_worker_needs() -> None:

    require_worker_python(sys.executable)


def session(executable: str | None, registered: list[type]) -> Any:
    """Stands in for a Spark session; without an executable for one of Spark Connect."""
    source = SimpleNamespace(register=registered.append)
    if executable is None:
        return SimpleNamespace(dataSource=source)
    return SimpleNamespace(dataSource=source, _sc=SimpleNamespace(pythonExec=executable))


def test_a_session_knows_the_source_once_its_workers_were_looked_at() -> None:
    registered: list[type] = []
    register(session(sys.executable, registered))
    register(session(None, registered))
    assert registered == [DefaultSource] * 2


def test_a_session_whose_workers_lack_something_is_left_as_it_was(tmp_path: Path) -> None:
    poor = tmp_path / "python"
    poor.write_text("#!/bin/sh\necho pyarrow grpc\n")
    poor.chmod(0o755)
    registered: list[type] = []
    with pytest.raises(ConfigError, match=f"{poor} lacks pyarrow, grpc: set PYSPARK_PYTHON"):
        register(session(str(poor), registered))
    assert registered == []
