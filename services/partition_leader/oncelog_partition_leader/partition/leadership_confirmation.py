"""Lets callers wait until a leadership is confirmed; `core/replication/confirmations.py` decides when it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from oncelog.errors import OffsetNotAvailableError, OncelogError
from oncelog_partition_leader.core.replication.confirmations import Confirmations
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.core.replication.waiters import Waiters

CONFIRM_MS = 1_000
"""The longest wait of a caller. A dead follower is known to be gone, or leaves the ISR, soon after."""


class Confirming:
    """The questions of one leadership, and the callers that wait for them. `gone`: which of these brokers have ended."""

    def __init__(self, replicas: ReplicaSet, gone: Callable[[Iterable[int]], Collection[int]]) -> None:
        self._replicas = replicas
        self._gone = gone
        self._questions = Confirmations(replicas.followers)
        self._waiters: Waiters[asyncio.Future[None]] = Waiters()

    @property
    def asked(self) -> int:
        """Number of the newest question; each follower must be sent a message after it."""
        return self._questions.asked

    @property
    def is_waiting(self) -> bool:
        """True while callers wait."""
        return len(self._waiters) > 0

    def ask(self, now_ms: int) -> asyncio.Future[None] | None:
        """Asks a question; returns the future to await, or None when it is confirmed without any follower."""
        number = self._questions.ask()
        if self._confirmed() >= number:
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(number, now_ms + CONFIRM_MS, waiter)
        return waiter

    def announce(self) -> None:
        """Has every follower sent a message, and waits for no answer."""
        self._questions.ask()

    def answered(self, broker_id: int, number: int) -> None:
        """Notes that a follower has accepted a message of this epoch, sent after question `number`."""
        self._questions.answered(broker_id, number)
        if len(self._waiters):
            self.look()

    def look(self) -> None:
        """Checks again, since the ISR, the minimum or the registrations may have changed."""
        if len(self._waiters):
            for waiter in self._waiters.advance(self._confirmed()):
                if not waiter.done():
                    waiter.set_result(None)

    def expire(self, now_ms: int) -> None:
        """Refuses the callers that have waited too long."""
        if not len(self._waiters):
            return
        self.look()
        self._fail(
            self._waiters.expire(now_ms),
            OffsetNotAvailableError("too few replicas confirm that this broker still leads; try again"),
        )

    def end(self, error: OncelogError) -> None:
        """Refuses all callers, since the leadership has ended."""
        self._fail(self._waiters.drain(), error)

    def _confirmed(self) -> int:
        replicas = self._replicas
        electable = {ref.broker_id for ref in (*replicas.maximal(), *replicas.eligible) if ref != replicas.me}
        return self._questions.confirmed(electable, replicas.min_insync_replicas, self._gone(replicas.followers))

    @staticmethod
    def _fail(waiters: list[asyncio.Future[None]], error: OncelogError) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
