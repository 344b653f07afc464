"""What this process says about itself to Kubernetes: started, alive, ready.

Rule 1: three names, because they have three consequences: `startup` not served delays the other two, `liveness` not
        served kills the process, `readiness` not served only takes it out of service.
Rule 2: draining clears `readiness` alone; a draining process that says it is dead is killed before it is drained.
Rule 3: this object holds the truth and tells listeners; `adapters.health_server` serves it over gRPC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STARTUP: Final = "startup"
LIVENESS: Final = "liveness"
READINESS: Final = "readiness"
NAMES: Final = (STARTUP, LIVENESS, READINESS)


class HealthState:
    """The three answers. Begins alive, not started, not ready."""

    def __init__(self) -> None:
        self._serving = {STARTUP: False, LIVENESS: True, READINESS: False}
        self._draining = False
        self._listeners: list[Callable[[str, bool], None]] = []

    def serving(self, name: str) -> bool:
        """The answer of one of `NAMES`."""
        return self._serving[name]

    def set(self, name: str, serving: bool) -> None:
        """Changes an answer. `readiness` stays False once the process drains."""
        assert name in NAMES
        if name == READINESS and self._draining:
            serving = False
        if self._serving[name] != serving:
            self._serving[name] = serving
            for listener in self._listeners:
                listener(name, serving)

    def started(self) -> None:
        """Start-up is over, and the process takes work."""
        self.set(STARTUP, True)
        self.set(READINESS, True)

    def draining(self) -> None:
        """The process takes no new work, for good."""
        self.set(READINESS, False)
        self._draining = True

    def failed(self) -> None:
        """The process cannot recover by itself: kill it."""
        self.set(LIVENESS, False)

    def subscribe(self, listener: Callable[[str, bool], None]) -> None:
        """`listener(name, serving)` at each change from now on."""
        self._listeners.append(listener)
