"""The ports of the client to the outside world. Implementations live in `adapters` and in the simulation.

Rule: code above these ports runs unchanged in production and in the deterministic simulation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from oncelog.core.throttles import Throttles
from oncelog.types import Buffer


class Transport(Protocol):
    """Calls to other processes."""

    async def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        """Sends one request and waits for its answer.

        `method` is `Service.Method` of `oncelog.wire.methods`; `header` is the encoded request message without its
        bulk bytes, `payload` the bulk bytes.  Calls made one after the other to one address are handed to the peer's
        handler in that order while the link lives; answers may come out of order.

        Raises the peer's `OncelogError`, `RequestTimedOutError` after `timeout_ms`, or `NetworkError` when the link
        broke: in the last two cases the outcome is unknown.  `NetworkError` carries context `refused="true"` when no
        process listens at the address (the request was certainly not executed), and `tls="refused"` when both sides
        cannot agree on TLS: the message says what to change.
        """
        ...

    async def close(self) -> None:
        """Ends all links; open calls fail with `NetworkError`."""
        ...


@runtime_checkable
class TellsThrottles(Protocol):
    """A transport that notes what servers say about quotas."""

    throttles: Throttles


class WallClock(Protocol):
    """Time. Durations come from `monotonic_ms`, timestamps in records from `now_ms`."""

    def now_ms(self) -> int:
        """Milliseconds since 1970; may step back."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some start; never steps back."""
        ...


Handler = Callable[[bytes, Buffer], Awaitable[tuple[bytes, Buffer]]]
"""Server side of a method: (header, payload) -> (header, payload); raises `OncelogError` to refuse."""
