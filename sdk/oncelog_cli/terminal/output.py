"""Printing: one value, as a table for people or as JSON or YAML for programs.

Rule 1: all formats come from the same rows, so they never disagree; JSON and YAML have every column, `wide` ones too.
Rule 2: whole numbers are JSON numbers up to 2^53; above that they are text, because JavaScript and jq would round them
        (only the ids under which coordinators write their own logs are that large).
Rule 3: times are milliseconds for programs, under a name that ends in `_ms`; people see `2m5s` and UTC.
Rule 4: what clients chose (ids, keys, values) cannot forge a line of a table.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TextIO

Row = Mapping[str, object]
FORMATS: Final = ("text", "json", "yaml", "wide")
_SAFE: Final = 1 << 53
_YEAR_10000_MS: Final = 253_402_300_800_000
_MOMENTS: Final = ("timestamp_ms", "since_ms", "committed_ms")
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./ -]*[A-Za-z0-9_]|[A-Za-z_]")
_NOT_PLAIN: Final = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"))


def as_json(value: object) -> object:
    """JSON types only; whole numbers that JavaScript would round become text."""
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return value if -_SAFE < value < _SAFE else str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    assert isinstance(value, Iterable), f"no JSON type for {type(value).__name__}"
    return [as_json(item) for item in value]


def as_yaml(value: object) -> str:
    """A YAML 1.2 document of what `as_json` returns, in block style."""
    return "\n".join(_yaml(as_json(value), 0))


def _yaml(value: object, depth: int) -> list[str]:
    pad = "  " * depth
    if isinstance(value, dict) and value:
        lines = []
        for name, item in value.items():
            head = f"{pad}{_scalar(name)}:"
            lines += [head, *_yaml(item, depth + 1)] if _is_nested(item) else [f"{head} {_scalar(item)}"]
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            inner = _yaml(item, depth + 1)
            lines += [f"{pad}- {inner[0].lstrip()}", *inner[1:]]
        return lines
    return [pad + _scalar(value)]


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _NOT_PLAIN
        return value if is_plain else "".join(map(_escaped, json.dumps(value, ensure_ascii=False)))
    text = json.dumps(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # older readers of YAML take 1e+16 for text
    return text


def _escaped(character: str) -> str:
    """Inside of double quotes, as YAML wants it; JSON's pairs of surrogates mean something else there."""
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _cell(value: object) -> str:
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


def _shown(name: str, value: object) -> str:
    """For people: points in time and spans of time, which programs get in milliseconds."""
    if name.endswith("_ms") and isinstance(value, int):
        return moment(value) if name.endswith(_MOMENTS) else duration(value)
    return _cell(value)


def moment(ms: int) -> str:
    """UTC, to the millisecond; `-` for 0 and below: not known. A later time than calendars have is a number."""
    if ms <= 0:
        return "-"
    if ms >= _YEAR_10000_MS:
        return f"{ms}ms"
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def duration(ms: int) -> str:
    """The two largest units: `2m5s`, `3d4h`, `750ms`."""
    if ms < 1_000:
        return f"{ms}ms"
    parts, left = [], ms // 1000
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Aligned columns under upper-case titles. A number has its unit in the title, a span of time in its cell."""
    titles = [_title(name, [row.get(name) for row in rows]) for name in columns]
    lines = [titles] + [[_shown(name, row.get(name)) for name in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _title(name: str, values: Sequence[object]) -> str:
    if name.endswith("_ms") and not any(isinstance(value, float) for value in values):
        name = name.removesuffix("_ms")  # shown as a span or a point in time, which tell their units
    return name.upper().replace("_", "-")


class Printer:
    """Prints in the format that `--format` names."""

    def __init__(self, style: str, out: TextIO | None = None) -> None:
        self.style = style
        self._out = out or sys.stdout
        self._documents = 0

    def rows(self, rows: Sequence[Row], columns: Sequence[str], wide: Sequence[str] = ()) -> None:
        """A list: a table (with the `wide` columns too under `--format wide`), or an array of objects."""
        if self.is_text:
            self.text(table(rows, (*columns, *wide) if self.style == "wide" else columns))
        else:
            self.data([{name: row.get(name) for name in (*columns, *wide)} for row in rows])

    def value(self, value: Row, sentence: str) -> None:
        """One result: a sentence, or an object."""
        if self.is_text:
            self.text(sentence)
        else:
            self.data(value)

    @property
    def is_text(self) -> bool:
        """For people: `text` or `wide`. Else `data` is printed."""
        return self.style in ("text", "wide")

    def data(self, value: object) -> None:
        """One document for programs; in JSON one line."""
        if self.style == "json":
            self.text(json.dumps(as_json(value)))
            return
        if self._documents:
            self.text("---")
        self._documents += 1
        self.text(as_yaml(value))

    def text(self, text: str) -> None:
        """Prints it as it is, and a newline."""
        print(text, file=self._out, flush=True)

    def raw(self, text: str) -> None:
        """Prints it as it is, without a newline."""
        self._out.write(text)
        self._out.flush()

    def complain(self, text: str) -> None:
        """To standard error, for people."""
        print(text, file=sys.stderr, flush=True)
