"""What a load's recording says: anomalies, failed calls, and how long callers waited in each phase.

Rule 1: a call failed when an error reached its caller that is neither retriable nor cured by aborting the transaction.
Rule 2: the final read is the truth for the checker; the copy is judged against its source.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.e2e.kubernetes.load import COPY, COPY_OF, TOPICS
from tests.e2e.kubernetes.recording import Recording
from tests.simulation.checker import check

_CALLS = ("txn", "send")


def anomalies(recording: Recording) -> list[str]:
    """One sentence each, with Jepsen's names; `copy-differs` for the consume-transform-produce loop."""
    final = {key: records for key, records in recording.final.items() if key[0] in TOPICS}
    found = [str(anomaly) for anomaly in check(recording.history, final)]
    for p in range(TOPICS[COPY_OF]):
        source = [value for _, value in recording.final[COPY_OF, p]]
        copied = [value for _, value in recording.final[COPY, p]]
        if source != copied:
            found.append(f"copy-differs: partition {p} has {len(source)} values, its copy {len(copied)}")
    return found


def failed_calls(recording: Recording) -> list[dict[str, Any]]:
    """Errors by rule 1."""
    return [error for error in recording.errors if not (error["retriable"] or error["requires_abort"])]


def error_names(recording: Recording) -> str:
    """All errors that callers saw, counted by name."""
    counted = Counter(f"{error['kind']} {error['name']}" for error in recording.errors)
    return ", ".join(f"{name} x {count}" for name, count in sorted(counted.items())) or "none"


def slowest_call_ms(recording: Recording, begin_ms: int, end_ms: int) -> float:
    """The longest send or transaction that was under way in this time; 0 = none was."""
    durations = [
        o.completed_ms - o.invoked_ms
        for o in recording.history.operations
        if o.kind in _CALLS and o.completed_ms >= begin_ms and o.invoked_ms <= end_ms
    ]
    return float(max(durations, default=0))


def calls(recording: Recording, begin_ms: int, end_ms: int) -> int:
    """Sends and transactions that ended in this time."""
    return sum(1 for o in recording.history.operations if o.kind in _CALLS and begin_ms <= o.completed_ms <= end_ms)
