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
_ANYBODY = 1
"""The minimum in sync with which a single replica that has not heard could lead."""


class Confirming:
    """The questions of one leadership, and the callers that wait for them. `gone`: which of these brokers have ended."""

    def __init__(self, replicas: ReplicaSet, gone: Callable[[Iterable[int]], Collection[int]]) -> None:
        self._replicas = replicas
        self._gone = gone
        self._questions = Confirmations(replicas.followers)
        self._waiters: Waiters[asyncio.Future[None]] = Waiters()
        self._for_electable: Waiters[asyncio.Future[None]] = Waiters()

    @property
    def asked(self) -> int:
        """Number of the newest question; each follower must be sent a message after it."""
        return self._questions.asked

    @property
    def is_waiting(self) -> bool:
        """True while callers wait."""
        return len(self._waiters) + len(self._for_electable) > 0

    def ask(self, now_ms: int, *, all_electable: bool = False) -> asyncio.Future[None] | None:
        """Asks a question; returns the future to await, or None when it is confirmed without any follower.

        `all_electable`: it is confirmed when every replica that may be elected, and runs, has taken a message since, with what
        that says; otherwise when no other leader can have acknowledged anything.
        """
        number = self._questions.ask()
        if self._confirmed(all_electable=all_electable) >= number:
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._for_electable if all_electable else self._waiters
        waiters.add(number, now_ms + CONFIRM_MS, waiter)
        return waiter

    def announce(self) -> None:
        """Has every follower sent a message, and waits for no answer."""
        self._questions.ask()

    def answered(self, broker_id: int, number: int) -> None:
        """Notes that a follower has accepted a message of this epoch, sent after question `number`."""
        self._questions.answered(broker_id, number)
        self.look()

    def look(self) -> None:
        """Checks again, since the ISR, the minimum or the registrations may have changed."""
        for waiters in (self._waiters, self._for_electable):
            if len(waiters):
                for waiter in waiters.advance(self._confirmed(all_electable=waiters is self._for_electable)):
                    if not waiter.done():
                        waiter.set_result(None)

    def expire(self, now_ms: int) -> None:
        """Refuses the callers that have waited too long."""
        if not self.is_waiting:
            return
        self.look()
        self._fail(
            self._waiters.expire(now_ms),
            OffsetNotAvailableError("too few replicas confirm that this broker still leads; try again"),
        )
        self._fail(
            self._for_electable.expire(now_ms),
            OffsetNotAvailableError("a replica that may lead next has not answered; try again"),
        )

    def end(self, error: OncelogError) -> None:
        """Refuses all callers, since the leadership has ended."""
        self._fail([*self._waiters.drain(), *self._for_electable.drain()], error)

    def _confirmed(self, *, all_electable: bool) -> int:
        replicas = self._replicas
        minimum = _ANYBODY if all_electable else replicas.min_insync_replicas
        electable = {ref.broker_id for ref in (*replicas.maximal(), *replicas.eligible) if ref != replicas.me}
        return self._questions.confirmed(electable, minimum, self._gone(replicas.followers))

    @staticmethod
    def _fail(waiters: list[asyncio.Future[None]], error: OncelogError) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
