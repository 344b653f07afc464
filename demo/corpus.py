"""The input of the demo: the source files of the installed Python standard library, and what must be read back.

Rule 1: a line is what Spark takes for one: it ends at \\n, \\r or \\r\\n, and a leading byte order mark is dropped.
Rule 2: Spark takes names that begin with `_` or `.` for hidden and never reads them, so each part of a staged path gets
        `STAGED_PREFIX`, which the job takes off again.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
STAGED_PREFIX: Final = "f-"
_BOM: Final = b"\xef\xbb\xbf"
_LEFT_OUT: Final = ("site-packages", "dist-packages", "__pycache__", "node_modules")


@dataclass(frozen=True, slots=True)
class FileDigest:
    """How many lines a file has, and the SHA-256 of its lines joined by newlines."""

    lines: int
    sha256: str


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file as Spark's text source reads them."""
    parts = _LINE_END.split(data.removeprefix(_BOM))
    return parts[:-1] if parts[-1] == b"" else parts


def digest(data: bytes) -> FileDigest:
    """Count and hash of a file's lines."""
    lines = lines_of(data)
    return FileDigest(len(lines), hashlib.sha256(b"\n".join(lines)).hexdigest())


def standard_library_files() -> list[Path]:
    """All `.py` files of the standard library of this interpreter, sorted; empty ones are left out (no lines, no records)."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = (p for p in root.rglob("*.py") if not any(part in _LEFT_OUT for part in p.relative_to(root).parts))
    return sorted(p for p in found if p.is_file() and p.stat().st_size > 0)


def stage(target: Path) -> dict[str, FileDigest]:
    """Copies the files under `target` and returns what must be read back, by path relative to it."""
    root = Path(sysconfig.get_paths()["stdlib"])
    expected: dict[str, FileDigest] = {}
    for source in standard_library_files():
        name = source.relative_to(root).as_posix()
        copy = target.joinpath(*(STAGED_PREFIX + part for part in Path(name).parts))
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        expected[name] = digest(copy.read_bytes())
    return expected
