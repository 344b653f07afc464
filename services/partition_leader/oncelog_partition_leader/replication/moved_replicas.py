"""Bounds the bytes per second that this broker sends to replicas that are being moved.

Rule 1: a replica counts as moved while a move adds it and the ISR does not have it. All other replicas, those that come back
        after a restart included, are sent everything at once: a bound on them would hold up `acks=all`, or keep partitions
        short of replicas.
Rule 2: one bound for all moves from this broker, however many partitions and followers they are of. New records count, too.
Rule 3: only data waits. The questions that begin a session are sent at once, and a message takes a tenth of a second's worth
        at most, or a single batch.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from oncelog.ports import WallClock
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_runtime.core.quota import TokenBucket
from oncelog_runtime.metadata.cluster_view import ClusterView

_SECOND_MS: Final = 1_000
_MESSAGES_PER_S: Final = 10


class Allowance(NamedTuple):
    """The bytes that may be sent to one replica now."""

    room: int
    """Most bytes of the next message."""
    wait_ms: int = 0
    """Above 0: nothing may be sent before this time has passed."""
    is_bounded: bool = False
    """True when these bytes count, see `MovedReplicas.sent`."""


class MovedReplicas:
    """The bound of one broker. `bytes_per_s` 0: there is none."""

    def __init__(self, bytes_per_s: int, clock: WallClock, view: ClusterView) -> None:
        self._clock = clock
        self._view = view
        self._message_bytes = max(bytes_per_s // _MESSAGES_PER_S, 1)
        self._bucket = TokenBucket(bytes_per_s, _SECOND_MS, clock.monotonic_ms()) if bytes_per_s else None

    def allowance(self, leadership: Leadership, broker_id: int, room: int) -> Allowance:
        """Returns what may be sent to the replica on this broker, of the `room` that the next request has."""
        if self._bucket is None or not self._is_moved(leadership, broker_id):
            return Allowance(room)
        wait_ms = math.ceil(self._bucket.delay_ms(self._clock.monotonic_ms()))
        return Allowance(min(room, self._message_bytes), wait_ms, is_bounded=True)

    def sent(self, size: int) -> None:
        """Counts bytes that were sent within an allowance that is bounded."""
        assert self._bucket is not None, "without a bound nothing is counted"
        self._bucket.take(size, self._clock.monotonic_ms())

    def _is_moved(self, leadership: Leadership, broker_id: int) -> bool:
        move = self._view.reassignments.get(leadership.partition)
        if move is None or broker_id not in move.value.adding:
            return False
        return all(ref.broker_id != broker_id for ref in leadership.replicas.committed)
