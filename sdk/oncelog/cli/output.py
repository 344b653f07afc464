"""Printing: one value, as a table for people or as JSON for programs.

Rule 1: both come from the same rows, so they never disagree. Rule 2: 64-bit numbers are text in JSON where a program could
round them (offsets, producer ids): they are printed as JSON numbers only up to 2^53.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

Row = Mapping[str, Any]
_SAFE: Final = 1 << 53


def as_json(value: Any) -> Any:
    """JSON types only; whole numbers that JavaScript would round become text."""
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return value if -_SAFE < value < _SAFE else str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    return [as_json(item) for item in value]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return ",".join(f"{k}={_cell(v)}" for k, v in value.items()) or "-"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_cell(item) for item in value) or "-"
    # A newline or an escape sequence inside of a client's string must not forge a line.
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value)) or "-"


def table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Aligned columns under upper-case titles."""
    titles = [name.upper().replace("_", "-") for name in columns]
    lines = [titles] + [[_cell(row.get(name)) for name in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


class Printer:
    """Prints in the format that `--format` names."""

    def __init__(self, style: str, out: TextIO | None = None) -> None:
        self.style = style
        self._out = out or sys.stdout

    def rows(self, rows: Sequence[Row], columns: Sequence[str]) -> None:
        """A list: a table, or a JSON array."""
        if self.style == "json":
            self._line(json.dumps([as_json({name: row.get(name) for name in columns}) for row in rows]))
        else:
            self._line(table(rows, columns))

    def value(self, value: Row, sentence: str) -> None:
        """One result: a sentence, or a JSON object."""
        self._line(json.dumps(as_json(value)) if self.style == "json" else sentence)

    def _line(self, text: str) -> None:
        print(text, file=self._out, flush=True)
