"""Hands on the wire of a simulated cluster: hold a message, lose its answer, or deliver a copy of it again later.

Rule 1: a tap matches by method and, if given, by the host that calls, the host that is called, and the request itself.
Rule 2: a held message has left its sender and waits in the network; `release` delivers it as the caller's own call,
        `deliver_late` as a copy of which nobody hears the answer. What nobody releases is lost.
Rule 3: everything that matched is kept, so a script can wait for it and send the very same bytes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oncelog import errors
from oncelog.wire.methods import MethodSpec
from oncelog_runtime.sim.network import SimNetwork, host_of
from oncelog_runtime.sim.server import SimServer
from oncelog_runtime.sim.transport import SimTransport

Match = Callable[[Any, bytes], bool]


@dataclass(eq=False)
class Message:
    """A request that a tap has seen."""

    network: SimNetwork
    client: SimTransport
    address: str
    call: Any
    spec: MethodSpec[Any, Any]

    @property
    def request(self) -> Any:
        """What was asked."""
        return self.spec.request.FromString(self.call.header)

    def release(self) -> None:
        """The request goes on, and the caller hears the answer if it still waits."""
        if self.call.future.done():
            self.deliver_late()
        else:
            SimNetwork.send(self.network, self.client, self.address, self.call)

    def fail(self) -> None:
        """The caller hears that its link broke; the request may still arrive one day."""
        if not self.call.future.done():
            self.call.future.set_exception(errors.NetworkError(address=self.address))

    def deliver_late(self) -> None:
        """A copy arrives now; its answer goes nowhere."""
        self.network._deliver_copy(self.address, self.call.method, self.call.header, self.call.payload)


@dataclass(eq=False)
class Answer:
    """An answer that a tap holds back."""

    network: SimNetwork
    server: SimServer
    call: Any
    result: Any

    def release(self) -> None:
        """It arrives now, if somebody still waits."""
        SimNetwork.answer(self.network, self.server, self.call, self.result)


@dataclass(eq=False)
class Tap:
    """What to do with each matching message, while `is_open`."""

    spec: MethodSpec[Any, Any]
    action: str
    source: str
    target: str
    match: Match | None
    is_open: bool = True
    seen: list[Message | Answer] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def wants(self, host: str, address: str, call: Any) -> bool:
        """True when this message is for the tap."""
        if not self.is_open or call.method != self.spec.name:
            return False
        if (self.source and host != self.source) or (self.target and host_of(address) != self.target):
            return False
        return self.match is None or self.match(self.spec.request.FromString(call.header), call.payload)

    async def caught(self, count: int = 1, within_s: float = 30) -> Any:
        """Waits until so many messages were seen; the last of them."""
        async with asyncio.timeout(within_s):
            while len(self.seen) < count:
                self.news.clear()
                await self.news.wait()
        return self.seen[count - 1]

    def close(self) -> None:
        """Later messages pass."""
        self.is_open = False

    def release(self) -> None:
        """Later messages pass, and so do those that were held, in their order."""
        self.close()
        for message in self.seen:
            message.release()


class Wire:
    """The taps of one network."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network
        self._taps: list[Tap] = []
        network.send = self._send  # type: ignore[method-assign]
        network.answer = self._answer  # type: ignore[method-assign]

    def tap(
        self, spec: MethodSpec[Any, Any], action: str, source: str = "", target: str = "", match: Match | None = None
    ) -> Tap:
        """`action`: "hold" stops requests, "lose" executes them and loses their answers, "delay" executes them and holds
        their answers, "watch" only keeps them.
        """
        tap = Tap(spec, action, source, target, match)
        self._taps.append(tap)
        return tap

    def _find(self, host: str, address: str, call: Any, *actions: str) -> Tap | None:
        wanted = (tap for tap in self._taps if tap.action in actions and tap.wants(host, address, call))
        return next(wanted, None)

    def _send(self, client: SimTransport, address: str, call: Any) -> None:
        tap = self._find(client.host, address, call, "hold", "watch")
        if tap is not None:
            tap.seen.append(Message(self._network, client, address, call, tap.spec))
            tap.news.set()
            if tap.action == "hold":
                return
        SimNetwork.send(self._network, client, address, call)

    def _answer(self, server: SimServer, call: Any, result: Any) -> None:
        link = call.link
        tap = None if link is None else self._find(link.client.host, server.address, call, "lose", "delay")
        if tap is None:
            SimNetwork.answer(self._network, server, call, result)
            return
        if tap.action == "delay":
            tap.seen.append(Answer(self._network, server, call, result))
            tap.news.set()
            return
        tap.seen.append(Message(self._network, link.client, server.address, call, tap.spec))
        tap.news.set()
        if not call.future.done():
            call.future.set_exception(errors.NetworkError("the answer was lost", address=server.address))
