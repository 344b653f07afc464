"""Who calls: what a handler may ask about the request that it serves.

Rule: a server sets `CALL` before it starts a handler; tasks which that handler starts inherit it. Nothing may depend
on it being set: the simulated network does not authenticate.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CallInfo:
    """The caller of one link or unary call."""

    peer: str
    """Network address, for logs."""
    principals: tuple[str, ...] = ()
    """Subject alternative names of a verified client certificate; empty without mutual TLS."""
    listener: str = "internal"
    """The door it came through, one of `oncelog_runtime.listeners.NAMES`."""
    authorization: str = ""
    """The `authorization` metadata, unverified; never log it."""


CALL: Final[ContextVar[CallInfo | None]] = ContextVar("oncelog_call", default=None)
