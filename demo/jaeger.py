"""A Jaeger to send traces to and to ask for them: one that runs, or one that is started for the while.

Looked for in this order: ONCELOG_JAEGER_URL (its UI), http://127.0.0.1:16686, the command in ONCELOG_JAEGER, `jaeger` on PATH.
Rule: one that was started here ends with `stop`; one that ran before stays.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, Final

LOCAL_URL: Final = "http://127.0.0.1:16686"
OTLP_PORT: Final = 4317
_START_S: Final = 20.0
_ANSWER_S: Final = 5.0
HOW_TO: Final = (
    "no Jaeger was found. Start one, for example\n"
    "    docker run --rm -p 16686:16686 -p 4317:4317 cr.jaegertracing.io/jaegertracing/jaeger:latest\n"
    "or put the binary `jaeger` (https://www.jaegertracing.io/download/) on PATH, or name its command in ONCELOG_JAEGER, "
    "or the address of its UI in ONCELOG_JAEGER_URL"
)


class NoJaeger(Exception):
    """There is none, and the message says how to get one."""


@dataclass(slots=True)
class Jaeger:
    """`url` of the UI and query API; `endpoint` takes OTLP over gRPC."""

    url: str
    endpoint: str
    process: subprocess.Popen[bytes] | None = None

    def answers(self) -> bool:
        """True when the query API is there."""
        try:
            self.get("/api/services")
        except (OSError, ValueError):
            return False
        return True

    def get(self, path: str, **query: Any) -> list[dict[str, Any]]:
        """The `data` of an answer of the query API. Raises `OSError`."""
        asked = f"?{urllib.parse.urlencode(query)}" if query else ""
        with urllib.request.urlopen(f"{self.url}{path}{asked}", timeout=_ANSWER_S) as answer:
            return json.load(answer)["data"] or []

    def traces(self, service: str, operation: str, limit: int = 200) -> list[dict[str, Any]]:
        """Traces with such a span, the newest first."""
        found = self.get("/api/traces", service=service, operation=operation, limit=limit, lookback="1h")
        return sorted(found, key=lambda t: max(span["startTime"] for span in t["spans"]), reverse=True)

    def trace(self, trace_id: str) -> dict[str, Any] | None:
        """One trace, as far as it has come."""
        try:
            found = self.get(f"/api/traces/{trace_id}")
        except urllib.error.HTTPError:
            return None
        return found[0] if found else None

    def link(self, trace_id: str) -> str:
        """Where a browser shows a trace."""
        return f"{self.url}/trace/{trace_id}"

    def stop(self) -> None:
        """Ends it if it was started here."""
        process, self.process = self.process, None
        if process is not None:
            process.terminate()
            process.wait()


def find_jaeger() -> Jaeger:
    """A Jaeger that answers. Raises `NoJaeger`."""
    named = os.environ.get("ONCELOG_JAEGER_URL", "").rstrip("/")
    url = named or LOCAL_URL
    host = urllib.parse.urlsplit(url).hostname or "127.0.0.1"
    jaeger = Jaeger(url, os.environ.get("ONCELOG_OTLP_ENDPOINT") or f"http://{host}:{OTLP_PORT}")
    if jaeger.answers():
        return jaeger
    if named:
        raise NoJaeger(f"no Jaeger answers at {named} (ONCELOG_JAEGER_URL)")
    command = shlex.split(os.environ.get("ONCELOG_JAEGER", "")) or [shutil.which("jaeger") or ""]
    if not command[0]:
        raise NoJaeger(HOW_TO)
    return _started(jaeger, command)


def _started(jaeger: Jaeger, command: list[str]) -> Jaeger:
    try:
        jaeger.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        raise NoJaeger(f"{command[0]} cannot be started: {error.strerror}") from error
    deadline = time.monotonic() + _START_S
    while not jaeger.answers():
        if jaeger.process.poll() is not None or time.monotonic() > deadline:
            jaeger.stop()
            raise NoJaeger(f"{shlex.join(command)} does not answer at {jaeger.url}")
        time.sleep(0.1)
    return jaeger
