"""The server's end of the simulated network: an `RpcServer`, whose links are shells of the SDK's `ServerCore`.

Rule 1: all that happens to a link happens as an event of the server's life: it waits while the process is paused.
Rule 2: a link hands requests to handlers in their order: handler n+1 takes its first step after handler n has taken its first.
Rule 3: an end that broke the protocol fails the run: both ends are ours.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol
from zlib import crc32

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.client_core import ClientBounds
from oncelog.link.link_codec import Frame
from oncelog.link.link_core import NEVER_MS
from oncelog.link.link_states import LinkState
from oncelog.link.server_core import Asked, Breached, Greeted, OpenRequest, Proved, ServerCore, ServerEvent
from oncelog.ports import Handler
from oncelog_runtime.core.budget import Budget
from oncelog_runtime.core.listeners import INTERNAL
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.admission import ADMISSION, Admission
from oncelog_runtime.serving.audience import refusal
from oncelog_runtime.serving.call_context import CALL, CallInfo
from oncelog_runtime.serving.quotas import Quotas, subject_of
from oncelog_runtime.sim.loop import Life, SimFuture, SimHandle, SimLoop, SimTask
from oncelog_runtime.sim.transport import Reply, SimPassword, checked

_PATIENCE_MS = 2_000
_ANSWER_BYTES = 64 << 20
_HANG_UP_S = 0.5
"""How long a server that stops waits until its callers have hung up."""


class Link(Protocol):
    """The wire below the server's end of a link."""

    @property
    def is_open(self) -> bool:
        """False once it broke or was closed."""
        ...

    def carry_down(self, data: bytes) -> None:
        """Sends an envelope to the caller."""
        ...

    def future_of(self, correlation_id: int) -> SimFuture[Reply]:
        """The caller's future of a request; a cancelled one when the caller has given up."""
        ...


class Network(Protocol):
    """The network below a server."""

    principal_of: Callable[[str], str]
    """Makes a principal of a client's host."""

    @property
    def loop(self) -> SimLoop:
        """The loop of the world."""
        ...

    @property
    def bounds(self) -> ClientBounds:
        """The bounds of each link."""
        ...

    def listen(self, server: SimServer) -> None:
        """Raises `AddressInUseError` when the address is taken."""
        ...

    def unlisten(self, server: SimServer, *, refuse: bool) -> None:
        """Ends listening; `refuse`: links to the server break at once, else they fall silent."""
        ...

    def damaged(self, method: str, payload: bytes) -> bytes:
        """A request's payload as it arrives."""
        ...

    def answer(self, server: SimServer, request: Served, result: Reply | errors.OncelogError) -> None:
        """Takes the result of a handler."""
        ...


class Served(OpenRequest):
    """One request at a server, and what a test on the wire sees of it."""

    __slots__ = ("end", "header", "method", "payload", "task", "throttle_ms")

    end: ServerEnd
    header: bytes
    method: str
    payload: bytes

    def __init__(self, correlation_id: int, size: int, deadline_ms: float) -> None:
        super().__init__(correlation_id, size, deadline_ms)
        self.task: SimTask[None] | None = None
        self.throttle_ms = 0  # what the answer says about the caller's quota

    @property
    def link(self) -> Link | None:
        """None for a copy, whose answer is not awaited."""
        return self.end.link

    @property
    def future(self) -> SimFuture[Reply]:
        """The caller's."""
        assert self.end.link is not None
        return self.end.link.future_of(self.correlation_id)


class ServerEnd:
    """The server's end of one link; of none for a copy or a stranger, who come by a stream whose answers go nowhere.

    `is_stranger`: the peer is not ours, and may break the protocol.
    """

    is_stranger = False

    def __init__(self, server: SimServer, network: Network, address: str, host: str, link: Link | None) -> None:
        self.server = server
        self.link = link
        self.address = address
        self.host = host
        self._network = network
        self._loop = network.loop
        self.core: ServerCore[Served] = ServerCore(server, Served, network.bounds.envelope_bytes)
        self._arrived: deque[bytes] = deque()
        self._to_start: deque[Served] = deque()
        self._is_starting = False
        self._is_writing = False
        self._is_closing = False
        self._user = b""
        self._timer: SimHandle | None = None
        self._timer_ms = NEVER_MS
        if link is not None:
            server.ends[self] = None

    # ------------------------------------------------------------ in

    def arrive(self, data: bytes) -> None:
        """An envelope is here; the process reads it when it runs."""
        self._arrived.append(data)
        self._loop.call_soon(self._read, context=self.server.context)

    def arrive_end(self, *, is_peaceful: bool) -> None:
        """The stream has ended, `is_peaceful`: the caller closed it. The process notices when it runs."""
        self._loop.call_soon(self._ended, is_peaceful, context=self.server.context)

    def _read(self) -> None:
        data = self._arrived.popleft()
        if self.core.state is LinkState.OVER or self._is_closing or self.server.is_dead:
            return
        try:
            self._do(self.core.receive(data, self._now_ms()))
        except errors.OncelogError as error:
            self.core.refuse_link(error)
            self._after_a_step()

    def _ended(self, is_peaceful: bool) -> None:
        if is_peaceful and self.core.state in (LinkState.OPEN, LinkState.LEAVING):
            self.core.half_close()
        self.core.end()
        self.server.forget_end(self)
        if self._timer is not None:
            self._timer.cancel()

    def _do(self, events: Iterable[ServerEvent[Served]]) -> None:
        for event in events:
            if isinstance(event, Asked):
                self._ask(event.request, event.frame)
            elif isinstance(event, Greeted):
                self._greeted(event)
            elif isinstance(event, Proved):
                self._proved(event)
            elif isinstance(event, Breached):
                self._breached(event)
        self._after_a_step()

    def _greeted(self, event: Greeted) -> None:
        if self.server.is_stopping:
            self.core.refuse_link(errors.ShuttingDownError())
        elif event.hello.mechanism:
            self._user = event.hello.authentication
            self.core.challenge(b"challenge for " + self._user)
        else:
            self._welcome()

    def _proved(self, event: Proved) -> None:
        if event.message == SimPassword.proof(b"challenge for " + self._user):
            self._welcome(SimPassword.verdict(self._user))
        else:
            self.core.refuse_link(errors.AuthenticationError())

    def _welcome(self, proof: bytes = b"") -> None:
        self.core.welcome(proof)
        self._do(self.core.early(self._now_ms()))

    def _breached(self, event: Breached) -> None:
        """Rule 3."""
        if not self.is_stranger:
            self._loop.errors.append(AssertionError(f"{self.host} broke the protocol of a link: {event.error}"))
        elif self.core.state is LinkState.HELLO:
            self.core.refuse_link(event.error)
        else:
            self._is_closing = True

    def _ask(self, request: Served, frame: Frame) -> None:
        request.end, request.method, request.header = self, frame.method, frame.header
        request.payload = self._network.damaged(frame.method, bytes(frame.payload))
        refused = self.server.refusal(frame.method, self.address)
        if refused is not None:
            self.core.refuse(request, refused)
            return
        self._to_start.append(request)
        self._start_next()

    def _start_next(self) -> None:
        """Starts the next handler, unless the one before has not taken its first step yet."""
        if self._is_starting or not self._to_start or self.server.is_dead:
            return
        request = self._to_start.popleft()
        self._is_starting = True
        digest = crc32(request.payload, crc32(request.header))
        self._loop.trace(f"{self.host}>{self.address} {request.method} {digest}")
        self.server.begin(request, self._on_started)

    def _on_started(self) -> None:
        self._is_starting = False
        if self._to_start:
            self._loop.call_soon(self._start_next, context=self.server.context)

    # ------------------------------------------------------------ out

    def answer(self, request: Served, result: Reply | errors.OncelogError) -> None:
        """Takes the answer of the handler."""
        if not self.core.is_awaited(request):
            self.core.forget(request)
            return
        if isinstance(result, errors.OncelogError):
            self.core.answer(request, result, request.throttle_ms)
        else:
            reply = Frame(request.correlation_id, link_codec.REPLY, header=result[0], payload=result[1])
            self.core.answer(request, reply, request.throttle_ms)
        self._after_a_step()

    def goodbye(self) -> None:
        """The server stops."""
        self.core.goodbye(errors.ShuttingDownError())
        self._after_a_step()

    def _after_a_step(self) -> None:
        """Has what waits written in a later step of this instant, and sets the timer."""
        core = self.core
        if core.has_output and not self._is_writing:
            self._is_writing = True
            self._loop.call_soon(self._write, context=self.server.context)
        if core.wake_at_ms < self._timer_ms and core.state is not LinkState.OVER:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = core.wake_at_ms
            self._timer = self._loop.call_at(self._timer_ms / 1000, self._tick, context=self.server.context)

    def _write(self) -> None:
        self._is_writing = False
        while not self.server.is_dead and (data := self.core.data_to_send()):
            if self.link is not None:
                self.link.carry_down(data)
            self.core.sent()

    def _tick(self) -> None:
        self._timer, self._timer_ms = None, NEVER_MS
        self._do(self.core.tick(self._now_ms()))

    def _now_ms(self) -> float:
        return self._loop.time() * 1000


class SimServer:
    """Implements `oncelog_runtime.ports.RpcServer` for one life of one node; `listening` as it will be after `start`.

    Its fields are the bounds of `GrpcServer`, which services ask for, and what runs at the moment.
    """

    def __init__(self, network: Network, address: str, life: Life | None, more: Mapping[str, str]) -> None:
        self._network = network
        self._loop = network.loop
        self.address = address
        self.listening = {INTERNAL: address, **more}
        self._doors = {door: name for name, door in self.listening.items()}
        self.life = life
        self.security: Authorizer | None = None
        """Where access rules are on: a client is the principal that `SimNetwork.principal_of` makes of its host."""
        self.quotas = Quotas()
        self.context = life.context if life is not None else network.loop.world
        self.is_stopping = False
        self.ends: dict[ServerEnd, None] = {}
        self.software = "simulated"
        self.cluster_id = "simulated"
        self.max_message_bytes = 64 << 20
        self.default_timeout_ms = 30_000
        self._handlers: dict[str, Handler] = {}
        self._running: dict[SimTask[None], None] = {}
        self._idle: SimFuture[None] | None = None
        self._no_ends: SimFuture[None] | None = None

    @property
    def is_dead(self) -> bool:
        """Its process is gone."""
        return self.life is not None and self.life.dead

    def register(self, method: str, handler: Handler) -> None:
        """`method` is `Service.Method`. Before `start` only."""
        if method in self._handlers:
            raise ValueError(f"{method} is registered twice")
        self._handlers[method] = handler

    async def start(self) -> str:
        """Begins to listen; raises `AddressInUseError` when a process listens at the address."""
        self._network.listen(self)
        return self.address

    async def stop(self, grace_ms: int) -> None:
        """Refuses new calls, lets running ones finish for `grace_ms`, says goodbye, then ends calls and links."""
        self.is_stopping = True
        if self._running and grace_ms > 0:
            self._idle = self._loop.create_future()
            await asyncio.wait([self._idle], timeout=grace_ms / 1000)
        for end in list(self.ends):
            end.goodbye()
        if self.ends:
            self._no_ends = self._loop.create_future()
            await asyncio.wait([self._no_ends], timeout=_HANG_UP_S)
        for task in list(self._running):
            task.cancel()
        self._network.unlisten(self, refuse=True)

    def forget_end(self, end: ServerEnd) -> None:
        """The link has ended."""
        self.ends.pop(end, None)
        if not self.ends and self._no_ends is not None and not self._no_ends.done():
            self._no_ends.set_result(None)

    def refusal(self, method: str, address: str) -> errors.OncelogError | None:
        """Why a request is not even begun; None: it is."""
        if self.is_stopping:
            return errors.ShuttingDownError()
        if (refused := refusal(self._doors[address], method)) is not None:
            return refused
        if method not in self._handlers:
            return errors.InvalidRequestError(f"this server has no method {method}")
        return None

    def begin(self, request: Served, on_started: Callable[[], None]) -> None:
        """Starts the handler of a request; `on_started` is called as its first step."""
        serving = self._serve(request, self._doors[request.end.address], on_started)
        self._loop.create_task(serving, name=request.method, context=self.context.copy())

    async def _serve(self, request: Served, listener: str, on_started: Callable[[], None]) -> None:
        on_started()
        CALL.set(self._caller(request.end.host, listener))
        task = asyncio.current_task()
        assert isinstance(task, SimTask)
        request.task = task  # from here on it may be cancelled: its first step is taken
        self._running[task] = None
        try:
            result = await self._within_quotas(request, listener)
        finally:
            del self._running[task]
            request.task = None
            if self._idle is not None and not self._running and not self._idle.done():
                self._idle.set_result(None)
        if not self.is_dead:
            self._network.answer(self, request, result)

    async def _within_quotas(self, request: Served, listener: str) -> Reply | errors.OncelogError:
        caller = CALL.get()
        assert caller is not None
        subject = subject_of(caller) if self.quotas.is_active else ""
        if not subject:
            return await self._handle(request, listener)
        try:
            quota = self.quotas.admit(subject, request.method, request.size, _PATIENCE_MS)
        except errors.ThrottlingQuotaExceededError as error:
            request.throttle_ms = error.retry_after_ms
            return error
        admission = Admission(Budget("simulated", _ANSWER_BYTES))
        admission.answer_bytes_max = quota.answer_bytes_max
        ADMISSION.set(admission)
        try:
            if quota.delay_ms > 0:
                await asyncio.sleep(quota.delay_ms / 1000)
            result = await self._handle(request, listener)
            size = 0 if isinstance(result, errors.OncelogError) else len(result[0]) + len(result[1])
            request.throttle_ms = quota.answered(size)
            return result
        finally:
            quota.close()

    def _caller(self, host: str, listener: str) -> CallInfo:
        if self.security is None:
            return CallInfo("simulated", listener=listener)
        if listener == INTERNAL:
            return CallInfo("simulated", listener=listener, access_of=self.security.access)
        access = self.security.policy.access(self._network.principal_of(host), "10.0.0.1")
        return CallInfo(f"simulated:{host}", listener=listener, access=access)

    async def _handle(self, request: Served, listener: str) -> Reply | errors.OncelogError:
        if self.security is not None and listener != INTERNAL and not self.security.is_loaded:
            return errors.MetadataUnavailableError("this process has not read its access rules yet")
        handler = self._handlers[request.method]
        try:
            header, payload = await handler(request.header, request.payload)
            return checked(header), bytes(payload)
        except errors.OncelogError as error:
            return error
        except asyncio.CancelledError:
            if request.link is not None and request.link.is_open:
                return errors.NetworkError("the handler was cancelled")
            raise
        except Exception as error:  # a handler's own bug: the test must fail, the caller gets what gRPC would say
            if not self.is_dead:
                self._loop.errors.append(error)
            return errors.UnknownServerError(f"{type(error).__name__}: {error}")
