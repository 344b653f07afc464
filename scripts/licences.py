"""The licences of the packages of the lock files: who says which, and which are allowed. Read from locks/licences.toml.

Rule 1: the table is written by hand, from what each package says of itself; a package that is not in it is an error.
Rule 2: an expression is allowed when one side of each OR, and all sides of each AND, are: as SPDX defines them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.lockfiles import LOCKS, normalised

PATH: Final = LOCKS / "licences.toml"
_WORD: Final = re.compile(r"\(|\)|[^\s()]+")


class LicenceError(Exception):
    """A package has no licence in the table, or an expression is none; the message says which."""


@dataclass(frozen=True, slots=True)
class Licences:
    """The table."""

    packages: Mapping[str, str]
    allowed: frozenset[str]
    exceptions: Mapping[str, str]
    """Package -> why its licence is fine though it is not among `allowed`."""

    @classmethod
    def read(cls, path: Path = PATH) -> Licences:
        """From the file."""
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(table["packages"], frozenset(table["allowed"]["licences"]), table.get("exceptions", {}))

    def of(self, name: str) -> str:
        """The expression of a package. Raises `LicenceError`."""
        try:
            return self.packages[normalised(name)]
        except KeyError:
            raise LicenceError(f"{name} is not in locks/licences.toml: look up its licence and add it") from None

    def allows(self, name: str) -> bool:
        """Its licence may be used. Raises `LicenceError`."""
        return name in self.exceptions or is_allowed(self.of(name), self.allowed)


def is_allowed(expression: str, allowed: frozenset[str]) -> bool:
    """Rule 2. Raises `LicenceError` for what is no expression."""
    words = _WORD.findall(expression)

    def either() -> bool:
        answer = both()
        while words[:1] == ["OR"]:
            words.pop(0)
            right = both()
            answer = answer or right
        return answer

    def both() -> bool:
        answer = one()
        while words[:1] == ["AND"]:
            words.pop(0)
            right = one()
            answer = answer and right
        return answer

    def one() -> bool:
        word = words.pop(0) if words else ""
        if word == "(":
            answer = either()
            if words[:1] != [")"]:
                raise LicenceError(f"no licence expression: {expression}")
            words.pop(0)
            return answer
        if word in ("", ")", "AND", "OR", "WITH"):
            raise LicenceError(f"no licence expression: {expression}")
        if words[:1] == ["WITH"]:
            word = f"{word} WITH {words[1] if len(words) > 1 else ''}"
            del words[:2]
        return word in allowed

    answer = either()
    if words:
        raise LicenceError(f"no licence expression: {expression}")
    return answer
