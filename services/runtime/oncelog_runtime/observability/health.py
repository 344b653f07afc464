"""What this process says about itself to Kubernetes: started, alive, ready.

Rule 1: three names, because they have three consequences: `startup` not served delays the other two, `liveness` not
        served kills the process, `readiness` not served only takes it out of service.
Rule 2: draining clears `readiness` alone; a draining process that says it is dead is killed before it is drained.
Rule 3: each answer is the conjunction of named conditions, so that two parts of a process cannot overrule each other.
        `liveness` has one: nothing that etcd or a peer does may make the kubelet kill this process. A loop that hangs
        answers no probe at all, since the probe is served by that loop.
Rule 4: this object holds the truth and tells listeners; `adapters.health_server` serves it over gRPC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STARTUP: Final = "startup"
LIVENESS: Final = "liveness"
READINESS: Final = "readiness"
NAMES: Final = (STARTUP, LIVENESS, READINESS)

STARTED: Final = "started"
RECOVERED: Final = "recovered"
IN_SYNC: Final = "in sync"
NOT_DRAINING: Final = "not draining"
DISK_ANSWERS: Final = "disk answers"
_STOPPING: Final = "not stopping"
_SOUND: Final = "sound"


class HealthState:
    """The three answers. Begins alive, not started, not ready."""

    def __init__(self) -> None:
        self._conditions: dict[str, dict[str, bool]] = {
            STARTUP: {STARTED: False},
            LIVENESS: {_SOUND: True},
            READINESS: {STARTED: False},
        }
        self._listeners: list[Callable[[str, bool], None]] = []

    def serving(self, name: str) -> bool:
        """The answer of one of `NAMES`: every condition of it holds."""
        return all(self._conditions[name].values())

    def failing(self, name: str) -> list[str]:
        """The conditions that do not hold, for people."""
        return [condition for condition, holds in self._conditions[name].items() if not holds]

    def set(self, name: str, holds: bool, condition: str) -> None:
        """One condition of an answer. A condition that nobody has set does not count."""
        before = self.serving(name)
        self._conditions[name][condition] = holds
        after = self.serving(name)
        if before != after:
            for listener in self._listeners:
                listener(name, after)

    def started(self) -> None:
        """Start-up is over, and the process takes work."""
        self.set(STARTUP, True, STARTED)
        self.set(READINESS, True, STARTED)

    def draining(self) -> None:
        """The process takes no new work, for good: it is about to end."""
        self.set(READINESS, False, _STOPPING)

    def failed(self) -> None:
        """The process cannot recover by itself: kill it."""
        self.set(LIVENESS, False, _SOUND)

    def subscribe(self, listener: Callable[[str, bool], None]) -> None:
        """`listener(name, serving)` at each change from now on."""
        self._listeners.append(listener)
