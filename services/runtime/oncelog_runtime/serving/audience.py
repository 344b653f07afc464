"""Decides which methods each listener serves; gRPC and the simulation ask here before they start a handler."""

from __future__ import annotations

from oncelog.errors import ClusterAuthorizationError, OncelogError
from oncelog.wire import method_audience
from oncelog_runtime.core.listeners import INTERNAL
from oncelog_runtime.serving.call_context import CallInfo


def refusal(listener: str, method: str) -> ClusterAuthorizationError | None:
    """Returns the error when `method` (`Service.Method`) is not served at this listener; None when it is."""
    if listener == INTERNAL or method in method_audience.CLIENT:
        return None
    return ClusterAuthorizationError(
        f"{method} is for the cluster's own services, and this is the {listener} listener", listener=listener
    )


def refusal_of(call: CallInfo, method: str) -> OncelogError | None:
    """Also refuses a caller whose certificate may not call the method, or whose credentials have expired."""
    if call.listener != INTERNAL and (refused := refusal(call.listener, method)) is not None:
        return refused
    if call.methods is not None and method not in call.methods:
        return ClusterAuthorizationError(f"{method} is nothing that a service with this certificate calls")
    return None if call.over is None else call.over()
