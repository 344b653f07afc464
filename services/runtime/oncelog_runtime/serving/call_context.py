"""The caller of the request that a handler serves.

Rule: a server sets `CALL` before it starts a handler; tasks started by that handler inherit it. No code may depend on
it being set: the simulated network does not authenticate.
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
    """The network address, for logs."""
    principals: tuple[str, ...] = ()
    """Subject alternative names of a verified client certificate; empty without mutual TLS."""
    listener: str = "internal"
    """The listener that accepted the call, one of `oncelog_runtime.core.listeners.NAMES`."""
    access: Access | None = None
    """The caller's principal and rights; None: access rules are off, or it is one of the cluster's services."""
    access_of: Callable[[str, str], Access] | None = None
    """For one of the cluster's services: returns the rights of the client for which it calls, by principal and host.
    None: access rules are off, or the caller is a client.
    """
    methods: frozenset[str] | None = None
    """The methods that a service with this certificate may call, if rules limit them; None = all."""
    expires_ms: int = 0
    """Wall-clock time at which the caller's token expires; 0 = never."""
    over: Callable[[], OncelogError | None] | None = None
    """Returns an error once the credentials are invalid (a changed password, an expired token); None: they cannot expire."""

    @property
    def principal(self) -> str:
        """The caller's principal, for logs and quotas; empty without access rules."""
        return self.access.principal if self.access is not None else ""


CALL: Final[ContextVar[CallInfo | None]] = ContextVar("oncelog_call", default=None)


def asked_on(*, client_listener: bool) -> str:
    """Returns the listener whose addresses the caller of the running handler can use.

    `client_listener`: this process has a listener for clients; without one, clients use the internal listener.
    """
    call = CALL.get()
    listener = call.listener if call is not None else INTERNAL
    return CLIENT if listener == INTERNAL and not client_listener else listener
