"""The common parts of one client: ports, configuration, time, and the event loop in which it lives (`Home`)."""

from __future__ import annotations

import asyncio
from random import Random

from oncelog.client.home.home import Home
from oncelog.config import ClientConfig
from oncelog.core.backoff import Backoff
from oncelog.core.throttles import Throttles
from oncelog.ports import TellsThrottles, Transport, WallClock
from oncelog.trace.tracing import Tracer


class Context:
    """Ports and configuration of one client. Deadlines are milliseconds of the running loop's clock."""

    __slots__ = ("_end", "backoff", "clock", "config", "home", "random", "throttles", "tracer", "transport")

    def __init__(
        self,
        config: ClientConfig,
        transport: Transport,
        clock: WallClock,
        random: Random,
        tracer: Tracer | None = None,
        of: Context | None = None,
    ) -> None:
        """`of`: another part of the same client, with options of its own; both have one end of all calls."""
        self.config = config
        self.transport = transport
        self.clock = clock
        self.random = random
        self.tracer = tracer
        self.throttles = transport.throttles if isinstance(transport, TellsThrottles) else Throttles()
        self._end: list[int | None] = of._end if of is not None else [None]
        self.home: Home = of.home if of is not None else Home()
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    @property
    def ends_ms(self) -> int | None:
        """No deadline lies behind this; None: each call has its own time (`Client.give_up_after`)."""
        return self._end[0]

    @ends_ms.setter
    def ends_ms(self, ends_ms: int | None) -> None:
        self._end[0] = ends_ms

    def deadline_ms(self, timeout_ms: int | None = None) -> int:
        """The point in time this far away; None = `default_api_timeout_ms`. Raises as `now_ms`."""
        deadline_ms = self.now_ms() + (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)
        return deadline_ms if self.ends_ms is None else min(deadline_ms, self.ends_ms)

    def now_ms(self) -> int:
        """As `now_ms()`, for what a caller begins.

        Raises `IllegalStateError` when the client is closed, or in another event loop than its own: the times of two loops do
        not compare.
        """
        loop = asyncio.get_running_loop()
        if loop is not self.home.loop:
            self.home.check()
        return int(loop.time() * 1000)

    def delay_ms(self, attempt: int, at_least_ms: int = 0) -> int:
        """Wait before the next try."""
        return self.backoff.delay_ms(attempt, self.random.random(), at_least_ms)

    async def pause(self, attempt: int, deadline_ms: int, at_least_ms: int = 0) -> bool:
        """Waits before the next try. False: that would pass the deadline, so it did not wait."""
        delay = self.delay_ms(attempt, at_least_ms)
        if now_ms() + delay >= deadline_ms:
            return False
        await asyncio.sleep(delay / 1000)
        return True

    def call_timeout_ms(self, deadline_ms: int) -> int:
        """For one call: `request_timeout_ms`, but not past the deadline."""
        return max(1, min(self.config.request_timeout_ms, deadline_ms - now_ms()))

    def nonce(self) -> str:
        """128 random bits as 32 hex digits."""
        return f"{self.random.getrandbits(128):032x}"


def now_ms() -> int:
    """The running loop's monotonic clock in milliseconds; virtual in the simulation."""
    return int(asyncio.get_running_loop().time() * 1000)
