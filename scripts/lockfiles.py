"""Lock files as they are read by `make sbom` and `make audit`: pinned packages, their hashes, and who needs them.

Rule 1: every line is understood or an error: what an installer would obey and this does not see must not pass.
Rule 2: names are normalised as package indexes do (lower case, `-` for `_` and `.`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ROOT / "locks"
_PINNED: Final = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([A-Za-z0-9.!+_-]+)(?:\s*;\s*(.+))?")
_HASH: Final = re.compile(r"--hash=(\w+):([0-9a-f]+)")
_PROJECT: Final = "oncelog"


class LockError(Exception):
    """A lock file says something that it must not say; the message names file and line."""


@dataclass(slots=True)
class Package:
    """One pinned package of a lock file."""

    name: str
    version: str
    marker: str = ""
    hashes: list[str] = field(default_factory=list)
    needed_by: list[str] = field(default_factory=list)
    """Names of packages, or `oncelog` for what our own metadata asks for."""

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def normalised(name: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(path: Path) -> list[Package]:
    """The packages, in the order of the file. Raises `LockError`."""
    found: list[Package] = []
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip().removesuffix("\\").strip()
        try:
            _take(words, found)
        except LockError as error:
            raise LockError(f"{path.name}:{number}: {error}") from None
    return found


def _take(words: str, found: list[Package]) -> None:
    if words.startswith("#"):
        if found:
            _take_comment(words.removeprefix("#").strip(), found[-1])
        return
    if not words:
        return
    if words.startswith("--hash="):
        match = _HASH.fullmatch(words)
        if match is None or not found:
            raise LockError(f"no hash of a package: {words[:80]}")
        if match[1] != "sha256" or len(match[2]) != 64:
            raise LockError(f"not a SHA-256: {words[:80]}")
        found[-1].hashes.append(match[2])
        return
    pinned = _PINNED.fullmatch(words)
    if pinned is None:
        raise LockError(f"neither a pinned package nor a hash: {words[:80]}")
    found.append(Package(normalised(pinned[1]), pinned[2], pinned[3] or ""))


def _take_comment(words: str, package: Package) -> None:
    words = words.removeprefix("via").strip()
    if words and not words.startswith(("-c ", "-r ")) and not words.endswith(".in"):
        package.needed_by.append(normalised(words.split(" ")[0]))


def all_locks(folder: Path = LOCKS) -> dict[str, list[Package]]:
    """Every lock file by name. Raises `LockError`."""
    return {path.name: read(path) for path in sorted(folder.glob("*.txt"))}


def closure(packages: Iterable[Package], roots: Iterable[str]) -> list[Package]:
    """The packages that are reached from `roots`, by name and version."""
    known = list(packages)
    reached = set(map(normalised, roots))
    while True:
        more = {p.name for p in known if p.name not in reached and reached.intersection(p.needed_by) - {_PROJECT}}
        if not more:
            break
        reached |= more
    return sorted((p for p in known if p.name in reached), key=lambda p: (p.name, p.version))
