"""The health of this process as reported to Kubernetes: started, alive, ready.

Rule 1: three names, because they have three consequences: `startup` not served delays the other two, `liveness` not
        served kills the process, `readiness` not served only removes it from its services.
Rule 2: draining clears `readiness` only; a draining process that reported itself dead would be killed before it is
        drained.
Rule 3: each answer is the conjunction of named conditions, so that two parts of a process cannot overrule each other.
        `liveness` has one: nothing that etcd or a peer does may make the kubelet kill this process. A loop that hangs
        answers no probe at all, since the probe is served by that loop.
Rule 4: this object holds the state and calls listeners; `adapters.health_server` serves it over gRPC.
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
    """The three answers. At first: alive, not started, not ready."""

    def __init__(self) -> None:
        self._conditions: dict[str, dict[str, bool]] = {
            STARTUP: {STARTED: False},
            LIVENESS: {_SOUND: True},
            READINESS: {STARTED: False},
        }
        self._listeners: list[Callable[[str, bool], None]] = []

    def serving(self, name: str) -> bool:
        """True when every condition of one of `NAMES` holds."""
        return all(self._conditions[name].values())

    def failing(self, name: str) -> list[str]:
        """Returns the conditions that do not hold, for people."""
        return [condition for condition, holds in self._conditions[name].items() if not holds]

    def set(self, name: str, holds: bool, condition: str) -> None:
        """Sets one condition of an answer. A condition that was never set does not count."""
        before = self.serving(name)
        self._conditions[name][condition] = holds
        after = self.serving(name)
        if before != after:
            for listener in self._listeners:
                listener(name, after)

    def started(self) -> None:
        """Start-up is complete, and the process accepts work."""
        self.set(STARTUP, True, STARTED)
        self.set(READINESS, True, STARTED)

    def draining(self) -> None:
        """The process is about to end and accepts no new work."""
        self.set(READINESS, False, _STOPPING)

    def failed(self) -> None:
        """The process cannot recover by itself and should be killed."""
        self.set(LIVENESS, False, _SOUND)

    def subscribe(self, listener: Callable[[str, bool], None]) -> None:
        """Calls `listener(name, serving)` at each change from now on."""
        self._listeners.append(listener)
