"""A simulated network: the `Transport` and `RpcServer` of every simulated process.

Rule 1: only bytes travel; errors are taken apart and built anew, so no object is ever shared between two nodes.
Rule 2: a link (one client, one address) hands requests to handlers in the order of the calls: handler n+1 takes its
        first step after handler n has taken its first. Answers come in any order.
Rule 3: a link that loses one message delivers nothing more until it breaks, as TCP would. Copies of requests
        (duplicates, replays) travel outside of any link, as if an older connection had delivered them late.
Rule 4: a reply travels as an event of the *caller's* life: it waits while the caller is paused, and vanishes when
        it is dead. Everything else on the wire belongs to the world.
Rule 5: `refused="true"` is only said when no request of the link can have been executed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from random import Random
from typing import Any
from zlib import crc32

from oncelog import errors
from oncelog.core.throttles import Throttles
from oncelog.ports import Handler
from oncelog.types import Buffer
from oncelog_runtime.config.startup_error import AddressInUseError
from oncelog_runtime.core.budget import Budget
from oncelog_runtime.core.listeners import INTERNAL
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.admission import ADMISSION, Admission
from oncelog_runtime.serving.audience import refusal
from oncelog_runtime.serving.call_context import CALL, CallInfo
from oncelog_runtime.serving.quotas import Quotas, subject_of
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.loop import Life, SimFuture, SimLoop, SimTask

Reply = tuple[bytes, Buffer]
_PATIENCE_MS = 2_000
_ANSWER_BYTES = 64 << 20


def host_of(address: str) -> str:
    """The node's name in an address."""
    return address.rpartition(":")[0] or address


class _Call:
    """One call on its way. `link` is None for a copy, whose answer nobody awaits."""

    __slots__ = ("context", "future", "header", "host", "link", "method", "payload", "task", "throttle_ms")

    def __init__(self, host: str, method: str, header: bytes, payload: bytes) -> None:
        self.host = host
        self.method = method
        self.header = header
        self.payload = payload
        self.future: SimFuture[Reply] | None = None
        self.context: Context | None = None
        self.link: _Link | None = None
        self.task: SimTask[None] | None = None
        self.throttle_ms = 0  # what the answer says about the caller's quota


class _Link:
    """A connection from one process to one address."""

    __slots__ = (
        "address",
        "calls",
        "client",
        "due",
        "inbox",
        "is_open",
        "last_arrival",
        "server",
        "stalled",
        "starting",
    )

    def __init__(self, client: SimTransport, address: str, now: float) -> None:
        self.client = client
        self.address = address
        self.server: SimServer | None = None
        self.is_open = True
        self.stalled = False
        self.inbox: deque[_Call] = deque()
        self.calls: dict[_Call, None] = {}
        self.due = 0
        self.starting = False
        self.last_arrival = now


class SimTransport:
    """Implements `oncelog.ports.Transport` for one life of one node."""

    def __init__(self, network: SimNetwork, host: str, life: Life | None) -> None:
        self._network = network
        self._loop = network.loop
        self.host = host
        self.life = life
        self.links: dict[str, _Link] = {}
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
        call = _Call(self.host, method, _checked(header), bytes(payload))
        call.future = future = self._loop.create_future()
        call.context = copy_context()
        timer = self._loop.call_later(timeout_ms / 1000, _expire, future, method, address, timeout_ms)
        self._network.send(self, address, call)
        try:
            reply: Reply = await future
            return reply
        finally:
            timer.cancel()
            self._network.forget(call)

    async def close(self) -> None:
        """Ends all links; open calls fail with `NetworkError`."""
        self._closed = True
        for link in list(self.links.values()):
            self._network.break_link(link)


class SimServer:
    """Implements `oncelog_runtime.ports.RpcServer` for one life of one node; `listening` as it will be after `start`."""

    def __init__(self, network: SimNetwork, address: str, life: Life | None, more: Mapping[str, str]) -> None:
        self._network = network
        self._loop = network.loop
        self.address = address
        self.listening = {INTERNAL: address, **more}
        self._doors = {door: name for name, door in self.listening.items()}
        self.life = life
        self.security: Authorizer | None = None
        """Where access rules are on: a client is the principal that `SimNetwork.principal_of` makes of its host."""
        self.quotas = Quotas()
        self._context = life.context if life is not None else network.loop.world
        self._handlers: dict[str, Handler] = {}
        self._running: dict[SimTask[None], None] = {}
        self._stopping = False
        self._idle: SimFuture[None] | None = None

    def register(self, method: str, handler: Handler) -> None:
        """`method` is `Service.Method`. Before `start` only."""
        if method in self._handlers:
            raise ValueError(f"{method} is registered twice")
        self._handlers[method] = handler

    async def start(self) -> str:
        """Begins to listen; raises `AddressInUseError` when somebody listens at the address."""
        self._network.listen(self)
        return self.address

    async def stop(self, grace_ms: int) -> None:
        """Refuses new calls, lets running ones finish for `grace_ms`, then ends them and the links."""
        self._stopping = True
        if self._running and grace_ms > 0:
            self._idle = self._loop.create_future()
            await asyncio.wait([self._idle], timeout=grace_ms / 1000)
        for task in list(self._running):
            task.cancel()
        self._network.unlisten(self, refuse=True)

    def begin(self, call: _Call, address: str, on_started: Callable[[], None]) -> None:
        """Starts the handler of a call that came to `address`; `on_started` is called as its first step."""
        call.task = None
        serving = self._serve(call, self._doors[address], on_started)
        self._loop.create_task(serving, name=call.method, context=self._context.copy())

    async def _serve(self, call: _Call, listener: str, on_started: Callable[[], None]) -> None:
        on_started()
        CALL.set(self._caller(call, listener))
        task: Any = asyncio.current_task()
        call.task = task  # from here on it may be cancelled: its first step is taken
        self._running[task] = None
        try:
            result = await self._within_quotas(call, listener)
        finally:
            del self._running[task]
            call.task = None
            if self._idle is not None and not self._running and not self._idle.done():
                self._idle.set_result(None)
        if self.life is None or not self.life.dead:
            self._network.answer(self, call, result)

    async def _within_quotas(self, call: _Call, listener: str) -> Reply | errors.OncelogError:
        caller = CALL.get()
        assert caller is not None
        subject = subject_of(caller) if self.quotas.is_active else ""
        if not subject:
            return await self._handle(call, listener)
        size = len(call.header) + len(call.payload)
        try:
            quota = self.quotas.admit(subject, call.method, size, _PATIENCE_MS)
        except errors.ThrottlingQuotaExceededError as error:
            call.throttle_ms = error.retry_after_ms
            return error
        admission = Admission(Budget("simulated", _ANSWER_BYTES))
        admission.answer_bytes_max = quota.answer_bytes_max
        ADMISSION.set(admission)
        try:
            if quota.delay_ms > 0:
                await asyncio.sleep(quota.delay_ms / 1000)
            result = await self._handle(call, listener)
            size = 0 if isinstance(result, errors.OncelogError) else len(result[0]) + len(result[1])
            call.throttle_ms = quota.answered(size)
            return result
        finally:
            quota.close()

    def _caller(self, call: _Call, listener: str) -> CallInfo:
        if self.security is None:
            return CallInfo("simulated", listener=listener)
        if listener == INTERNAL:
            return CallInfo("simulated", listener=listener, access_of=self.security.access)
        access = self.security.policy.access(self._network.principal_of(call.host), "10.0.0.1")
        return CallInfo(f"simulated:{call.host}", listener=listener, access=access)

    async def _handle(self, call: _Call, listener: str) -> Reply | errors.OncelogError:
        if self._stopping:
            return errors.ShuttingDownError()
        if (refused := refusal(listener, call.method)) is not None:
            return refused
        if self.security is not None and listener != INTERNAL and not self.security.is_loaded:
            return errors.MetadataUnavailableError("this process has not read its access rules yet")
        handler = self._handlers.get(call.method)
        if handler is None:
            return errors.InvalidRequestError(f"this server has no method {call.method}")
        try:
            header, payload = await handler(call.header, call.payload)
            return _checked(header), bytes(payload)
        except errors.OncelogError as error:
            return errors.error_for(int(error.code), error.message, error.retry_after_ms, dict(error.context))
        except asyncio.CancelledError:
            if call.link is not None and call.link.is_open:
                return errors.NetworkError("the handler was cancelled")
            raise
        except Exception as error:  # a handler's own bug: the test must fail, the caller gets what gRPC would say
            if self.life is None or not self.life.dead:
                self._loop.errors.append(error)
            return errors.UnknownServerError(f"{type(error).__name__}: {error}")


class SimNetwork:
    """All links, listeners and cuts. `plan` may be replaced while running."""

    def __init__(self, loop: SimLoop, random: Random, plan: FaultPlan | None = None) -> None:
        self.loop = loop
        self.plan = plan or FaultPlan()
        self.never_copied: frozenset[str] = frozenset()
        """Methods that are exempt from duplicates and replays."""
        self.repeated: frozenset[str] = frozenset()
        """Methods whose requests are delivered again much later with the probability `repeat`, whatever the plan says."""
        self.repeat = 0.0
        self.damage: Callable[[str, bytes], bytes] = lambda method, payload: payload
        """What becomes of the payload of a request (method, payload) on its way."""
        self.principal_of: Callable[[str], str] = lambda host: f"User:{host}"
        self.delivered = 0
        self._copies: Counter[str] = Counter()
        self._random = random
        self._listeners: dict[str, SimServer] = {}
        self._links: dict[_Link, None] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._silent: dict[str, None] = {}

    def transport(self, host: str, life: Life | None = None) -> SimTransport:
        """A client's ports; tests use one with `life` None."""
        return SimTransport(self, host, life)

    def server(self, address: str, life: Life | None = None, more: Mapping[str, str] | None = None) -> SimServer:
        """A server that will listen at `address` (host:port; the host is the node's name).

        `more`: listener name to address, of the same node.
        """
        return SimServer(self, address, life, more or {})

    # ------------------------------------------------------------ faults on command

    def partition(self, left: Sequence[str], right: Sequence[str], *, one_way: bool = False) -> None:
        """Nothing gets from `left` to `right`, nor back unless `one_way`. Links break after `silent_break_ms`."""
        for a in left:
            for b in right:
                self._cuts[a, b] = None
                if not one_way:
                    self._cuts[b, a] = None
        self.loop.trace(f"partition {left} {right} {one_way}")

    def heal(self) -> None:
        """Ends all partitions; links that stalled meanwhile still have to break first."""
        self._cuts.clear()

    def is_connected(self, a: str, b: str) -> bool:
        """No partition is between these hosts, in neither direction."""
        return (a, b) not in self._cuts and (b, a) not in self._cuts

    def break_links(self, a: str, b: str | None = None) -> None:
        """Breaks all links of host `a` (with host `b`)."""
        for link in list(self._links):
            ends = {link.client.host, host_of(link.address)}
            if a in ends and (b is None or b in ends):
                self.break_link(link)

    def unplug(self, host: str, life: Life, *, silent: bool) -> None:
        """The process died: with it its host (`silent`: nobody is told), or alone (its peers' links break now)."""
        for server in [s for s in self._listeners.values() if s.life is life]:
            self.unlisten(server, refuse=not silent)
        for link in list(self._links):
            if link.client.life is life:
                self.break_link(link)
        if silent:
            self._silent[host] = None

    def plug(self, host: str) -> None:
        """The host is there again: connections to it are refused or accepted, not swallowed."""
        self._silent.pop(host, None)

    # ------------------------------------------------------------ listening

    def listen(self, server: SimServer) -> None:
        """Raises `AddressInUseError` when the address is taken."""
        for address in server.listening.values():
            if address in self._listeners:
                raise AddressInUseError("the address is in use", address=address)
        for address in server.listening.values():
            self._listeners[address] = server

    def unlisten(self, server: SimServer, *, refuse: bool) -> None:
        """Nobody listens at the address any more; `refuse`: links to it break at once, else they fall silent."""
        if self._listeners.get(server.address) is not server:
            return
        for address in server.listening.values():
            del self._listeners[address]
        for link in list(self._links):
            if link.server is server:
                if refuse:
                    self._later(self._random.random() / 1000, self.break_link, link)
                    link.stalled = True
                else:
                    self._stall(link)

    # ------------------------------------------------------------ requests

    def send(self, client: SimTransport, address: str, call: _Call) -> None:
        """Puts a request on the link, which is opened if there is none."""
        link = client.links.get(address)
        delay = self._delay()
        if link is None:
            client.links[address] = link = _Link(client, address, self.loop.time())
            self._links[link] = None
            delay += self._delay() + self._delay()
        call.link = link
        link.calls[call] = None
        if self._hits("break_link"):
            self._later(0.0, self.break_link, link)
        elif self._is_cut(client.host, address) or self._hits("stall_link"):
            self._stall(link)
        if link.stalled:
            return
        link.inbox.append(call)
        link.last_arrival = max(link.last_arrival, self.loop.time() + delay)
        self.loop.call_at(link.last_arrival, self._arrive, link, context=self.loop.world)
        self._copy(address, call)

    def forget(self, call: _Call) -> None:
        """The caller has its answer, or waits no more."""
        link, call.link = call.link, None
        if link is not None:
            link.calls.pop(call, None)
            self._cancel_handler(call)

    def _cancel_handler(self, call: _Call) -> None:
        if call.task is not None and self._hits("cancel_handler"):
            call.task.cancel()

    def _arrive(self, link: _Link) -> None:
        if not link.is_open or link.stalled:
            return
        if self._is_cut(link.client.host, link.address):
            self._stall(link)
            return
        link.due += 1
        self._pump(link)

    def _pump(self, link: _Link) -> None:
        """Starts the next handler, unless the one before has not taken its first step yet."""
        if link.starting or not link.due or not link.is_open or link.stalled:
            return
        if link.server is None:
            link.server = self._listeners.get(link.address)
            if link.server is None:
                self.break_link(link, refused=True)
                return
        call = link.inbox.popleft()
        link.due -= 1
        link.starting = True
        call.payload = self.damage(call.method, call.payload)
        self.delivered += 1
        self.loop.trace(f"{link.client.host}>{link.address} {call.method} {crc32(call.payload, crc32(call.header))}")

        def on_started() -> None:
            link.starting = False
            if link.due:
                self.loop.call_soon(self._pump, link, context=self.loop.world)

        link.server.begin(call, link.address, on_started)

    def _copy(self, address: str, call: _Call) -> None:
        """Sometimes the same request is delivered twice, or again much later."""
        plan = self.plan
        if self.repeat and call.method in self.repeated and self._random.random() < self.repeat:
            self.loop.note_fault("repeat_admin")
            self._deliver_later(address, call)
        if not (plan.duplicate_request or plan.replay_request) or call.method in self.never_copied:
            return
        if self._hits("duplicate_request"):
            self._copy_later(3 * self._delay(), address, call)
        if self._hits("replay_request"):
            self._deliver_later(address, call)

    def copies_under_way(self, method: str) -> int:
        """Copies of its requests that are still to be delivered."""
        return self._copies[method]

    def _deliver_later(self, address: str, call: _Call) -> None:
        self._copy_later(self._random.random() * self.plan.replay_max_ms / 1000, address, call)

    def _copy_later(self, delay_s: float, address: str, call: _Call) -> None:
        self._copies[call.method] += 1
        self._later(delay_s, self._deliver_copy, address, call.method, call.header, call.payload, call.host)

    def _deliver_copy(self, address: str, method: str, header: bytes, payload: bytes, host: str = "") -> None:
        self._copies[method] -= 1
        server = self._listeners.get(address)
        if server is not None:
            self.loop.trace(f"copy>{address} {method} {crc32(payload, crc32(header))}")
            server.begin(_Call(host, method, header, payload), address, _nothing)

    # ------------------------------------------------------------ answers

    def answer(self, server: SimServer, call: _Call, result: Reply | errors.OncelogError) -> None:
        """Sends an answer back on the call's link, if anyone still waits there."""
        link = call.link
        if link is None or not link.is_open or link.stalled:
            return
        if (host_of(server.address), link.client.host) in self._cuts:
            self._stall(link)
        elif not self._hits("lose_reply"):
            self.loop.call_later(self._delay(), self._deliver_answer, call, result, context=call.context)

    def _deliver_answer(self, call: _Call, result: Reply | errors.OncelogError) -> None:
        link, future = call.link, call.future
        if link is None or not link.is_open or future is None or future.done():
            return
        if call.throttle_ms:
            link.client.throttles.told(link.address, call.method, call.throttle_ms, int(self.loop.time() * 1000))
        if isinstance(result, errors.OncelogError):
            future.set_exception(result)
        else:
            future.set_result(result)

    # ------------------------------------------------------------ links that end

    def break_link(self, link: _Link, refused: bool = False) -> None:
        """Open calls fail with `NetworkError`; requests that have not arrived never will."""
        if not link.is_open:
            return
        link.is_open = False
        self._links.pop(link, None)
        if link.client.links.get(link.address) is link:
            del link.client.links[link.address]
        self.loop.trace(f"break {link.client.host}>{link.address} {refused}")
        for call in list(link.calls):
            self.loop.call_soon(_fail, call.future, link.address, refused, context=call.context)
            self._cancel_handler(call)
        link.inbox.clear()

    def _stall(self, link: _Link) -> None:
        """Nothing more gets through; somebody notices later."""
        if not link.stalled and link.is_open:
            link.stalled = True
            link.inbox.clear()
            late = (0.2 + 0.8 * self._random.random()) * self.plan.silent_break_ms / 1000
            self._later(late, self.break_link, link)

    # ------------------------------------------------------------ small tools

    def _is_cut(self, source: str, address: str) -> bool:
        if not self._cuts and not self._silent:
            return False
        target = host_of(address)
        return (source, target) in self._cuts or target in self._silent

    def _delay(self) -> float:
        plan = self.plan
        delay = plan.delay_min_ms + (plan.delay_max_ms - plan.delay_min_ms) * self._random.random()
        if self._hits("slow_message"):
            delay += plan.slow_ms * self._random.random()
        return delay / 1000

    def _hits(self, name: str) -> bool:
        probability: float = getattr(self.plan, name)
        if probability <= 0 or self._random.random() >= probability:
            return False
        self.loop.note_fault(name)
        return True

    def _later(self, delay: float, callback: Callable[..., object], *args: Any) -> None:
        self.loop.call_later(delay, callback, *args, context=self.loop.world)


def _checked(header: bytes) -> bytes:
    if not isinstance(header, bytes):
        raise TypeError(f"a header is bytes, not {type(header).__name__}")
    return header


def _expire(future: SimFuture[Reply], method: str, address: str, timeout_ms: int) -> None:
    if not future.done():
        future.set_exception(
            errors.RequestTimedOutError(method=method, address=address, timeout_ms=timeout_ms),
        )


def _fail(future: SimFuture[Reply], address: str, refused: bool) -> None:
    if not future.done():
        if refused:
            future.set_exception(errors.NetworkError("nobody listens there", address=address, refused="true"))
        else:
            future.set_exception(errors.NetworkError(address=address))


def _nothing() -> None:
    return None
