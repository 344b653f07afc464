"""Where the W3C trace context of the running task stands.

Rule: a transport sends what is here with each call; a server puts what it received here before it runs a handler, so a
call that a handler makes belongs to the caller's trace without anybody passing it along.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

TRACEPARENT: Final[ContextVar[str]] = ContextVar("oncelog_traceparent", default="")
"""`00-<trace id>-<span id>-<flags>`, empty, or `-00`: the work here is not to be recorded."""

LINKS: Final[ContextVar[tuple[str, ...]]] = ContextVar("oncelog_trace_links", default=())
"""More contexts for which this task works, when it has gathered the work of several."""
