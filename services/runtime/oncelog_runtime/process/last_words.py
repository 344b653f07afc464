"""What a process said about its end, out of its log: one line for a person, without stacks.

Our services end with a sentence that begins with `oncelog `; etcd writes JSON lines of which the last grave one says why.
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
    """The last sentence of ours, else the last grave line of JSON, else the last line that is not empty, else nothing."""
    for line in reversed(lines):
        if line.startswith(_OURS) and ": " in line:
            return _cut(line.partition(": ")[2])
    for line in reversed(lines):
        if said := _grave(line):
            return _cut(said)
    return _cut(next((line.strip() for line in reversed(lines) if line.strip()), ""))


def _grave(line: str) -> str:
    """Message and error of a JSON line that tells of a failure; nothing for other lines."""
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
