"""Who calls: what a handler may ask about the request that it serves.

Rule: a server sets `CALL` before it starts a handler; tasks which that handler starts inherit it. Nothing may depend
on it being set: the simulated network does not authenticate.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncelog_runtime.core.listeners import CLIENT, INTERNAL

if TYPE_CHECKING:
    from oncelog.errors import OncelogError
    from oncelog_runtime.core.security.access import Access


@dataclass(frozen=True, slots=True)
class CallInfo:
    """The caller of one link or unary call."""

    peer: str
    """Network address, for logs."""
    principals: tuple[str, ...] = ()
    """Subject alternative names of a verified client certificate; empty without mutual TLS."""
    listener: str = "internal"
    """The door it came through, one of `oncelog_runtime.core.listeners.NAMES`."""
    access: Access | None = None
    """Who the caller proved to be and what he may do; None: access rules are off, or it is one of the cluster's services."""
    access_of: Callable[[str, str], Access] | None = None
    """Of one of the cluster's services: what the client may do for whom it asks, by principal and host. None: access rules
    are off, or it is a client."""
    methods: frozenset[str] | None = None
    """What a service with this certificate may call, where rules say so; None = everything."""
    expires_ms: int = 0
    """Wall clock time from which on the caller's token counts no more; 0 = never."""
    over: Callable[[], OncelogError | None] | None = None
    """Why what the caller was let in with counts no more (a changed password, an ended token); None: it cannot end."""

    @property
    def principal(self) -> str:
        """Who it is, for logs and quotas; empty without access rules."""
        return self.access.principal if self.access is not None else ""


CALL: Final[ContextVar[CallInfo | None]] = ContextVar("oncelog_call", default=None)


def asked_on(*, client_listener: bool) -> str:
    """The listener whose addresses the caller of the running handler can use.

    `client_listener`: this process has a listener for clients; without one, clients come to the internal listener.
    """
    call = CALL.get()
    listener = call.listener if call is not None else INTERNAL
    return CLIENT if listener == INTERNAL and not client_listener else listener
