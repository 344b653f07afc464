"""Finds in a process's log why it ended: one line for a person, without stack traces.

Our services end with a sentence that begins with `oncelog `; etcd writes JSON lines of which the last severe one says
why.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from oncelog.core.malformed import MALFORMED

_OURS: Final = "oncelog "
_GRAVE: Final = ("panic", "fatal", "error", "critical")
_MOST: Final = 300


def last_words(lines: Sequence[str]) -> str:
    """Returns our last sentence, else the last severe line of JSON, else the last line that is not empty, else nothing."""
    for line in reversed(lines):
        if line.startswith(_OURS) and ": " in line:
            return _cut(line.partition(": ")[2])
    for line in reversed(lines):
        if said := _grave(line):
            return _cut(said)
    return _cut(next((line.strip() for line in reversed(lines) if line.strip()), ""))


def _grave(line: str) -> str:
    """Returns message and error of a JSON line that reports a failure; empty for other lines."""
    try:
        entry = json.loads(line)
        if str(entry["level"]).lower() not in _GRAVE:
            return ""
        message, error = (str(entry.get(name) or "") for name in ("msg", "error"))
    except MALFORMED:
        return ""
    return ": ".join(part for part in (message or str(entry.get("message") or ""), error) if part)


def _cut(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= _MOST else f"{first[:_MOST]}..."
