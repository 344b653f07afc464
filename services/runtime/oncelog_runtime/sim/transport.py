"""The caller's end of the simulated network: a `Transport`, whose links are shells of the SDK's `ClientCore`.

Rule: all that happens to a link happens as an event of the caller's life: it waits while the process is paused, and never comes
to a dead one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from oncelog import errors
from oncelog.core.throttles import Throttles
from oncelog.link.client_core import (
    Answered,
    Call,
    Challenged,
    ClientBounds,
    ClientCore,
    ClientEvent,
    Ended,
    Failed,
    Left,
    Throttled,
)
from oncelog.link.link_core import NEVER_MS
from oncelog.link.link_states import LinkState
from oncelog.link.protocol import KnownCluster
from oncelog.types import Buffer
from oncelog_runtime.sim.loop import Life, SimFuture, SimHandle, SimLoop

Reply = tuple[bytes, Buffer]


class Link(Protocol):
    """The wire below the caller's end of a link, which takes calls and carries envelopes."""

    @property
    def address(self) -> str:
        """The address that the link goes to."""
        ...

    def request(self, call: SimCall) -> None:
        """Takes a call."""
        ...

    def carry_up(self, data: bytes) -> None:
        """Sends an envelope to the server."""
        ...

    def take_down(self) -> bytes | None:
        """The next envelope of the server; None when it was lost."""
        ...

    def forget(self) -> None:
        """It takes no more calls."""
        ...

    def hang_up(self) -> None:
        """The caller is done with it."""
        ...


class Network(Protocol):
    """The network below a transport."""

    @property
    def loop(self) -> SimLoop:
        """The loop of the world."""
        ...

    @property
    def bounds(self) -> ClientBounds:
        """The bounds of each link."""
        ...

    def send(self, client: SimTransport, address: str, call: SimCall) -> None:
        """Puts a request on its link."""
        ...

    def forget(self, call: SimCall) -> None:
        """The caller has its answer, or waits no more."""
        ...

    def hang_up_all(self, client: SimTransport) -> None:
        """The caller's process closes its transport."""
        ...


class SimCall:
    """One call, as the simulation sees it. `link` is None until it is on one."""

    __slots__ = ("deadline_s", "future", "header", "host", "link", "method", "on_link", "payload")

    def __init__(self, host: str, method: str, header: bytes, payload: bytes, deadline_s: float) -> None:
        self.host = host
        self.method = method
        self.header = header
        self.payload = payload
        self.deadline_s = deadline_s
        self.future: SimFuture[Reply]
        self.link: Link | None = None
        self.on_link: Call[SimFuture[Reply]] | None = None


class SimTransport:
    """Implements `oncelog.ports.Transport` for one life of one node."""

    def __init__(self, network: Network, host: str, life: Life | None) -> None:
        self._network = network
        self._loop = network.loop
        self.host = host
        self.life = life
        self.context = life.context if life is not None else network.loop.world
        self.cluster = KnownCluster()
        self.links: dict[tuple[str, str], Link] = {}
        """By address and service: those that take calls."""
        self.throttles = Throttles()
        self._closed = False

    async def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        """See `oncelog.ports.Transport.call`."""
        if self.life is not None and self.life.dead:
            raise asyncio.CancelledError  # unplugged: only code that is being cancelled gets here
        if self._closed:
            raise errors.NetworkError("the transport is closed", refused="true")
        call = SimCall(self.host, method, checked(header), bytes(payload), self._loop.time() + timeout_ms / 1000)
        call.future = future = self._loop.create_future()
        self._network.send(self, address, call)
        held = None
        if call.link is None:  # a test holds it back on its way to the link, whose core would keep its time
            held = self._loop.call_at(call.deadline_s, _expire, future, method, address, timeout_ms)
        try:
            reply: Reply = await future
            return reply
        finally:
            if held is not None:
                held.cancel()
            self._network.forget(call)

    async def close(self) -> None:
        """Ends all links; open calls fail with `NetworkError`."""
        self._closed = True
        self._network.hang_up_all(self)


class SimPassword:
    """The exchange of a user's password, as far as a link is concerned. Services prove nothing: they have certificates."""

    MECHANISM = "SIMULATED"

    def __init__(self, user: str) -> None:
        self._user = user.encode()

    def first(self) -> bytes:
        """See `PasswordExchange`."""
        return self._user

    def check(self, server_final: bytes) -> None:
        """See `PasswordExchange`."""
        if server_final != self.verdict(self._user):
            raise errors.AuthenticationError("the server does not know this user")

    @staticmethod
    def proof(challenge: bytes) -> bytes:
        """The proof of a user who knows the password."""
        return b"proof of " + challenge

    @staticmethod
    def verdict(user: bytes) -> bytes:
        """The proof of a server that knows the user."""
        return b"welcome " + user


class ClientEnd:
    """The caller's end of one link."""

    def __init__(self, client: SimTransport, link: Link, network: Network) -> None:
        self.client = client
        self._link = link
        self._loop = network.loop
        self.core: ClientCore[SimFuture[Reply]] = ClientCore(link.address, client.cluster, network.bounds)
        self._is_writing = False
        self._timer: SimHandle | None = None
        self._timer_ms = NEVER_MS
        if client.life is None:
            self.core.greet(client.host, self._now_ms(), SimPassword.MECHANISM, SimPassword(client.host))
        else:
            self.core.greet(client.host, self._now_ms())
        self._after_a_step()

    def request(self, call: SimCall) -> None:
        """Takes a call."""
        left_ms = max(1, round((call.deadline_s - self._loop.time()) * 1000))
        call.on_link = self.core.request(call.future, call.method, call.header, call.payload, left_ms, self._now_ms())
        self._after_a_step()

    def abandon(self, call: SimCall) -> None:
        """Its caller waits no more, be it for it has its answer."""
        if call.on_link is not None:
            self._do(self.core.cancel(call.on_link))

    def hear(self) -> None:
        """The next envelope of the server is here."""
        data = self._link.take_down()
        if data is not None:
            self._do(self.core.receive(data))

    def ended(self, error: errors.OncelogError) -> None:
        """The stream broke."""
        self._do(self.core.end(error))

    def future_of(self, correlation_id: int) -> SimFuture[Reply]:
        """Returns the future that waits for this answer; a cancelled one when no caller does."""
        call = self.core.open_call(correlation_id)
        if call is not None:
            return call.waiter
        nobody: SimFuture[Reply] = self._loop.create_future()
        nobody.cancel()
        return nobody

    def _do(self, events: Iterable[ClientEvent[SimFuture[Reply]]]) -> None:
        client, address = self.client, self._link.address
        for event in events:
            if isinstance(event, Answered):
                if not event.call.waiter.done():
                    event.call.waiter.set_result((event.header, bytes(event.payload)))
            elif isinstance(event, Failed):
                if not event.call.waiter.done():
                    event.call.waiter.set_exception(event.error)
            elif isinstance(event, Throttled):
                client.throttles.told(address, event.method, event.throttle_ms, int(self._loop.time() * 1000))
            elif isinstance(event, Challenged):
                self.core.prove(SimPassword.proof(event.message))
            elif isinstance(event, Left):
                self._link.forget()
            elif isinstance(event, Ended):
                self._hang_up()
        self._after_a_step()

    def _hang_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._link.hang_up()

    def _after_a_step(self) -> None:
        """Has what waits written in a later step of this instant, and sets the timer."""
        core = self.core
        if core.has_output and not self._is_writing:
            self._is_writing = True
            self._loop.call_soon(self._write, context=self.client.context)
        if core.wake_at_ms < self._timer_ms and core.state is not LinkState.OVER:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = core.wake_at_ms
            self._timer = self._loop.call_at(self._timer_ms / 1000, self._tick, context=self.client.context)

    def _write(self) -> None:
        self._is_writing = False
        if self.client.life is not None and self.client.life.dead:
            return
        while data := self.core.data_to_send():
            self._link.carry_up(data)

    def _tick(self) -> None:
        self._timer, self._timer_ms = None, NEVER_MS
        self._do(self.core.tick(self._now_ms()))

    def _now_ms(self) -> float:
        return self._loop.time() * 1000


def checked(header: bytes) -> bytes:
    """Raises `TypeError` for what no wire would take."""
    if not isinstance(header, bytes):
        raise TypeError(f"a header is bytes, not {type(header).__name__}")
    return header


def _expire(future: SimFuture[Reply], method: str, address: str, timeout_ms: int) -> None:
    if not future.done():
        future.set_exception(errors.RequestTimedOutError(method=method, address=address, timeout_ms=timeout_ms))
