"""What every script that writes files from the sources does at its end: it writes them, or says which are out of date.

Rule: `--check` writes nothing, and its exit code is 1 when a file is not what would be written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def write_or_check(files: Mapping[Path, str], what: str, command: str, arguments: list[str] | None) -> int:
    """Writes each file (path -> text), or tells which ones `command` would write anew. Returns the exit code."""
    parser = argparse.ArgumentParser(description=f"Write {what}.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is out of date")
    check = parser.parse_args(arguments).check
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if check and stale:
        names = ", ".join(path.relative_to(ROOT).as_posix() for path in stale)
        print(f"out of date: {names}; run {command}", file=sys.stderr)
        return 1
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path])
    return 0
