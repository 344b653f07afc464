"""Writes one JSON object per log line to stderr, with the trace that it belongs to.

Rule 1: the keys `time level logger message` are always there; `extra=` values follow under their own names.
Rule 2: a line never fails: values that JSON cannot represent are written as text.
Rule 3: text chosen by a client stays on one line, and cannot control a terminal: JSON escapes the characters below a
        blank, and we escape the other unprintable ones.
Rule 4: secrets are never passed as `extra`; keys that look like a secret are masked all the same.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from oncelog.trace.trace_context import TRACEPARENT

_OWN_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SECRET: Final = re.compile("password|secret|token|authorization|private_key", re.IGNORECASE)
_TRACEPARENT: Final = re.compile("[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line, without its end."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (trace := _TRACEPARENT.fullmatch(TRACEPARENT.get())) is not None:
            line["trace_id"], line["span_id"] = trace.groups()
        for name, value in vars(record).items():
            if name not in _OWN_FIELDS:
                line[name] = "***" if _SECRET.search(name) else value
        if record.exc_info:
            line["stack"] = self.formatException(record.exc_info)
        text = json.dumps(line, default=str, ensure_ascii=False)
        return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def configure(level: str, stream: TextIO | None = None) -> None:
    """Sends all loggers of this process to `stream` (stderr) from `level` of `LEVELS` on. Replaces earlier configurations."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
