"""The audit log: one JSON line for each refusal and for each administrative call that was allowed.

Rule 1: a line has the principal, its address, the operation, the resource, and whether it was allowed or why not. It
        has no payload, token or password.
Rule 2: text chosen by a client is written as short, escaped ASCII: it can neither control a terminal nor forge a line.
Rule 3: lines are limited (`core/security/audit_limits.py`), metrics are not: each refusal is counted.

It is the logger `oncelog.audit`, on the stream of the process's own log.
"""

from __future__ import annotations

import logging
from typing import Final

from oncelog.ports import WallClock
from oncelog_runtime.core.security.access import Decided
from oncelog_runtime.core.security.audit_limits import AuditLimits
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import NodeMetrics

audit_log = logging.getLogger("oncelog.audit")
_SAME: Final = ("principal", "method", "operation", "resource_type", "resource", "allowed")
"""The fields that two decisions must share for the later one to count as a repetition."""
_CHARACTERS_MAX: Final = 256


class AuditTrail:
    """Implements `security.core.access.AuditLog`."""

    def __init__(self, clock: WallClock, metrics: NodeMetrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._limits = AuditLimits()

    def record(self, decided: Decided) -> None:
        """Records a decision of the rules."""
        if not decided.allowed:
            self._metrics.counter(names.AUTHORIZATION_DENIED, decided.operation, decided.resource_type).inc()
        line = decided._asdict()
        same = tuple(line[name] for name in _SAME)
        self._write(line.pop("allowed"), same, **line)

    def unauthenticated(self, *, peer: str, listener: str, code: str, reason: str) -> None:
        """Records that a caller's credentials were refused."""
        self._metrics.counter(names.AUTHENTICATION_FAILURES, code).inc()
        host = peer.rpartition(":")[0]
        self._write(False, (host, code, reason), peer=peer, listener=listener, operation="AUTHENTICATE", reason=reason)

    def _write(self, allowed: bool, same: tuple[object, ...], **line: str) -> None:
        repeated = self._limits.admit(same, self._clock.monotonic_ms(), allowed=allowed)
        if repeated is None:
            self._metrics.counter(names.AUDIT_LEFT_OUT).inc()
            return
        counts = {"repeated": repeated, "left_out": self._limits.told()}
        extra: dict[str, object] = {name: plain(value) for name, value in line.items() if value}
        extra.update({name: count for name, count in counts.items() if count})
        extra["result"] = "ALLOWED" if allowed else "DENIED"
        audit_log.log(logging.INFO if allowed else logging.WARNING, "audit", extra=extra)


def plain(text: str) -> str:
    """Returns printable ASCII for at most `_CHARACTERS_MAX` characters of the text."""
    return ascii(text[:_CHARACTERS_MAX])[1:-1]
