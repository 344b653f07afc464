"""The previous version's code, taken from the history into a temporary folder, and how its processes are started.

Rule: without that history (a shallow clone, a source archive) everything that needs it is skipped, and says so.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests import archives

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = (
    "sdk",
    "services/runtime",
    "services/partition_leader",
    "services/coordinator",
    "services/pid_allocator",
)
HERE: Final = Path(__file__).resolve().parent


def previous_commit() -> str:
    """The full hash of N-1."""
    return (HERE / "previous.txt").read_text().split()[0]


def has_history() -> bool:
    """The previous version can be had."""
    command = ["git", "cat-file", "-e", f"{previous_commit()}^{{commit}}"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def unpack(folder: Path) -> Path:
    """Its sources, below `folder`."""
    target = folder / previous_commit()[:12]
    if target.exists():
        return target
    archive = folder / "previous.tar"
    command = ["git", "archive", "--format=tar", "-o", str(archive), previous_commit(), *SOURCES]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(archive) as tar:
        archives.unpack(tar, target)
    return target


@cache
def skip_reason() -> str:
    """Why the tests with real old processes do not run here; empty = they do."""
    if has_history():
        return ""
    return f"the history does not hold the previous version {previous_commit()[:12]} (a shallow clone?)"


needs_previous = pytest.mark.skipif(bool(skip_reason()), reason=skip_reason() or "never")


def python_path(sources: Path) -> str:
    """PYTHONPATH of a version's sources; it stands before whatever is installed."""
    return ":".join(str(sources / source) for source in SOURCES)


def with_sources(sources: Path, *words: str) -> list[str]:
    """A command line of Python with these sources."""
    return ["/usr/bin/env", f"PYTHONPATH={python_path(sources)}", sys.executable, *words]
