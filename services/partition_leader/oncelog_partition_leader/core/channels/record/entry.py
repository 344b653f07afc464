"""One record that is not settled: its state, its owner, and when something is due.

Rule: `move` is the only writer of a state, and asserts that `TRANSITIONS` has the step.
"""

from __future__ import annotations

from oncelog_partition_leader.core.channels.key_order import NO_KEY
from oncelog_partition_leader.core.channels.record.record_states import TRANSITIONS, RecordState

_OWNED = (RecordState.IN_FLIGHT, RecordState.IN_TXN)


class Entry:
    """One record. There may be a million of them, so it has slots and no more than it needs."""

    __slots__ = ("ack_wait_ms", "deliveries", "due_ms", "key", "offset", "since_ms", "state", "worker")

    def __init__(
        self, offset: int, key: int = NO_KEY, deliveries: int = 0, state: RecordState = RecordState.AVAILABLE
    ) -> None:
        self.offset = offset
        self.key = key
        self.deliveries = deliveries
        """Deliveries that have begun."""
        self.state = state
        self.worker = ""
        """The worker that has it, or that settled it; empty = none, or one that has left or was of an earlier leadership."""
        self.since_ms: int | None = None
        """When it was last delivered; None = never in this leadership."""
        self.due_ms: int | None = None
        """The deadline, the end of the pause, or the next try of its letter; None = nothing is due."""
        self.ack_wait_ms = 0
        """The channel's at its last delivery: its worker counts with that one."""

    @property
    def ended_deliveries(self) -> int:
        """Deliveries that ended without a settlement: what is durable of it."""
        return self.deliveries - (self.state in _OWNED)

    @property
    def confirmed_ms(self) -> int:
        """When its worker was last told that it has it: by the delivery, or a touch."""
        assert self.due_ms is not None, "a worker has it"
        return self.due_ms - self.ack_wait_ms

    def is_held(self, worker_id: str, delivery: int) -> bool:
        """Returns True when the worker has it in this delivery."""
        return self.state is RecordState.IN_FLIGHT and self.deliveries == delivery and self.worker == worker_id

    def was_given(self, worker_id: str, delivery: int) -> bool:
        """Returns True when this was the worker's delivery, whatever the state is."""
        return self.deliveries == delivery and self.worker == worker_id

    def move(self, to: RecordState) -> None:
        """Takes one step of the table."""
        assert (self.state, to) in TRANSITIONS, f"no step leads from {self.state} to {to}"
        self.state = to
