"""What is served at which listener: both worlds, gRPC and the simulation, ask here before they start a handler."""

from __future__ import annotations

from oncelog import method_audience
from oncelog.errors import ClusterAuthorizationError
from oncelog_runtime.listeners import INTERNAL


def refusal(listener: str, method: str) -> ClusterAuthorizationError | None:
    """Why `method` (`Service.Method`) is not served at this listener; None when it is."""
    if listener == INTERNAL or method in method_audience.CLIENT:
        return None
    return ClusterAuthorizationError(
        f"{method} is for the cluster's own services, and this is the {listener} listener", listener=listener
    )
