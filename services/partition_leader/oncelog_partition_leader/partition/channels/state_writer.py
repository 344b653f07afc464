"""Has the coordinator write what was settled: one call at a time for each channel and partition.

Rule 1: what is settled while a call is under way goes with the next one, so any number of settlements share a call.
Rule 2: after an unknown outcome the same call is made again, until it is confirmed or the leadership ends.
        A definite refusal ends this delivery, and the host opens another one: the coordinator remembers other things than were
        written.
Rule 3: a confirmation that comes after the end of this writer confirms nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush

from oncelog.errors import CoordinatorNotAvailableError, ErrorCode, OncelogError, RequestTimedOutError
from oncelog.ports import WallClock
from oncelog.trace.tracing import work_for
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.stored_state import Write
from oncelog_partition_leader.partition.channels.coordinator_calls import ChannelCoordinators, is_refusal, pause_ms
from oncelog_partition_leader.partition.channels.wire_state import ChannelPlace, write_request

Spawn = Callable[[Coroutine[object, None, None], str], None]
_log = logging.getLogger(__name__)


class StateWriter:
    """Writes for one delivery. `look` after each change; `wait` for its durability; `end` once."""

    def __init__(
        self,
        place: ChannelPlace,
        delivery: Delivery,
        coordinators: ChannelCoordinators,
        clock: WallClock,
        spawn: Spawn,
        fenced: Callable[[OncelogError], None],
        confirmed: Callable[[], None],
    ) -> None:
        self._place = place
        self._delivery = delivery
        self._coordinators = coordinators
        self._clock = clock
        self._spawn = spawn
        self._fenced = fenced
        self._confirmed = confirmed
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = 0
        self._running = False
        self._ended: OncelogError | None = None

    def look(self) -> None:
        """Begins to write when there is something to write. What is settled in this turn of the loop goes with it."""
        if not self._running and self._ended is None:
            self._running = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        write = None if self._ended is not None else self._delivery.next_write(self._clock.monotonic_ms())
        if write is None:
            self._running = False
        else:
            self._spawn(self._run(write), "write")

    async def wait(self, timeout_ms: float) -> None:
        """Returns when everything that is settled now is durable.

        Raises `RequestTimedOutError`, after which it may be or become durable, or why this leadership ended.
        """
        if self._ended is not None:
            raise self._ended
        number = self._delivery.written_with
        if number <= self._delivery.confirmed_write_no:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._numbers += 1
        heappush(self._waiting, (number, self._numbers, done))
        self.look()
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                await done
        except TimeoutError:
            raise RequestTimedOutError("the coordinator has not confirmed it yet; it goes on") from None

    def end(self, error: OncelogError) -> None:
        """Stops, and fails all that wait: whether theirs became durable is not known."""
        self._ended = error
        waiting, self._waiting = self._waiting, []
        for _, _, done in waiting:
            if not done.done():
                done.set_exception(error)
                done.exception()  # a caller that has gone does not look

    async def _run(self, first: Write) -> None:
        write: Write | None = first
        try:
            while write is not None and await self._write(write):
                self._delivery.written(write.write_no)
                self._wake()
                self._confirmed()
                work_for(())  # the next one is for settlements of other calls: it is no part of the first one's trace
                write = self._delivery.next_write(self._clock.monotonic_ms())
        finally:
            self._running = False

    async def _write(self, write: Write) -> bool:
        """Returns True when it is durable, False when this leadership has ended."""
        request = write_request(self._place, write, self._clock.now_ms())
        tries = 0
        while self._ended is None:
            try:
                await self._coordinators.write(request)
            except OncelogError as error:
                if error.code == ErrorCode.FENCED_LEADER_EPOCH:
                    self._fenced(error)
                    return False
                if is_refusal(error):
                    _log.error("the state of channel %s cannot be written, and is read again: %s", self._place, error)
                    self._fenced(CoordinatorNotAvailableError("the channel is opened again here", cause=error.message))
                    return False
                tries += 1
                if tries in (5, 50):
                    _log.warning("the state of channel %s cannot be written yet: %s", self._place, error)
                await asyncio.sleep(pause_ms(tries) / 1000)
            else:
                return self._ended is None
        return False

    def _wake(self) -> None:
        durable = self._delivery.confirmed_write_no
        while self._waiting and self._waiting[0][0] <= durable:
            done = heappop(self._waiting)[2]
            if not done.done():
                done.set_result(None)
