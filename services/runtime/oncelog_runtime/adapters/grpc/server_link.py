"""The server's end of a link: the shell of `server_core.ServerCore`. One reader, one writer, a task per request.

What a link is and what frames mean is the core's. Here: who is let in, which requests are taken, and when they run.

Rule 1: requests start in the order of their frames. Each runs in a task of its own, so up to its first wait a handler
        sees the caller's order; answers leave in the order in which handlers finish.
Rule 2: nothing that comes from the network cancels a handler: it may be between an append and its bookkeeping. CANCEL
        and time-out drop the answer, a broken link drops them all.
Rule 3: requests, their bytes and the bytes of their answers are taken from budgets (`core.shares`); above them a request gets
        `ResourceExhaustedError`. While the peer does not take its answers, nothing more is read from it.
Rule 4: a request above a quota of its caller starts later, and behind those that wait already; one that would wait too long
        is refused (`quotas`), and then nothing is read for a moment.
Rule 5: every failure is an ERROR frame; the text never carries a stack or a path, those go to the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import Any, Final

import grpc
import grpc.aio

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.link_codec import Frame
from oncelog.link.link_core import NEVER_MS
from oncelog.link.link_states import LinkState
from oncelog.link.server_core import (
    Asked,
    Breached,
    Cancelled,
    Expired,
    Greeted,
    OpenRequest,
    Proved,
    ServerCore,
    ServerEvent,
)
from oncelog.ports import Handler
from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.v1 import link_pb2
from oncelog_runtime.adapters.grpc.grpc_status import end_call_span
from oncelog_runtime.adapters.grpc.half_messages import connection_of
from oncelog_runtime.adapters.grpc.link_host import LinkHost
from oncelog_runtime.core.listeners import INTERNAL
from oncelog_runtime.core.shares import Share
from oncelog_runtime.serving.admission import ADMISSION, Admission
from oncelog_runtime.serving.audience import refusal_of
from oncelog_runtime.serving.call_context import CALL, CallInfo
from oncelog_runtime.serving.peer_key import peer_of
from oncelog_runtime.serving.quotas import Pass, subject_of

log = logging.getLogger(__name__)

HELLO_TIMEOUT_S: Final = 10.0
_LINGER_S: Final = 1.0
_EXPIRED_LINGER_S: Final = 30.0
"""How long answers may still go out on a link whose token is over."""
_RETRY_AFTER_MS: Final = 50
_BEHIND_S: Final = 1e-6
"""Between the starts of two requests that waited: timers of the same moment have no order."""
_REFUSED_PAUSE_S: Final = 0.05
"""How long nothing is read from a link on which a request was above a quota: who tries again at once gains nothing."""
_TRACEPARENT_MAX: Final = 256
"""Characters. It goes on into the calls of the handler, and would take the room of their messages."""
_TICK_MIN_S: Final = 0.001
"""uvloop rounds to milliseconds: a timer of less would run again and again until its time has come."""
_DEADLINE_MS: Final = 50
"""A caller whose time is over says CANCEL; our own timer runs a little later than the caller's."""
_TOO_MANY: Final = (
    "too many links from this address, or of this principal, to this process: share one client among your tasks"
)
SMALL_BYTES: Final = 4096
"""Requests and answers up to this size are bounded by their number alone."""


class _Request(OpenRequest):
    """A request whose answer has not been written, with what it holds."""

    __slots__ = ("admission", "quota", "reserved", "span", "start")

    admission: Admission

    def __init__(self, correlation_id: int, size: int, deadline_ms: float) -> None:
        super().__init__(correlation_id, size, deadline_ms)
        self.reserved = 0  # of the budget of requests
        self.span: tracing.Span | None = None
        self.quota: Pass | None = None
        self.start: asyncio.TimerHandle | None = None  # it waits for its start


class ServerLink:
    """Serves one `Connect` stream of one service."""

    def __init__(self, host: LinkHost, service: str, context: Any, caller: CallInfo) -> None:
        self._host = host
        self._prefix = service + "."
        self._context = context
        self._caller = caller
        self.peer = peer_of(caller)
        self.is_let_in = False
        self._share: Share | None = None
        self.connection = connection_of(caller.peer)
        self._meter = host.meter(self.connection)
        self._quotas = host.quotas
        self._subject = ""  # whose quotas count
        self._held: dict[str, tuple[int, float]] = {}  # method -> how many wait for their start, when the last one's is
        self._above_quota = False
        self._core: ServerCore[_Request] = ServerCore(host, _Request)
        self._running_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER_MS
        self._wake = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._shown_out = False

    @property
    def listener(self) -> str:
        """Where the peer came in."""
        return self._caller.listener

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """Until the peer closes the link or it breaks."""
        tasks: list[asyncio.Task[None]] = []
        self._host.add(self)
        try:
            if await self._greet():
                tasks.append(self._loop.create_task(self._write()))
                if self._caller.expires_ms:
                    tasks.append(self._loop.create_task(self._end_with_token()))
                await self._read()
                await self._idle.wait()
                await self._drained.wait()
        except errors.InvalidRequestError as error:
            log.warning("closing a link whose peer breaks the protocol: %s", error, extra={"peer": self._caller.peer})
            await self._accuse(error, has_writer=bool(tasks))
        except (grpc.aio.BaseError, grpc.aio.UsageError, asyncio.InvalidStateError):
            log.debug("a link broke", extra={"peer": self._caller.peer}, exc_info=True)
        except Exception:
            log.exception("a link failed", extra={"peer": self._caller.peer})
        finally:
            self._core.end()
            self._host.remove(self)
            self._let_go()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # gRPC may cancel this task here a second time

    def _let_go(self) -> None:
        """Nobody gets the answers any more. A handler that still runs gives back at its end what it holds."""
        if self._timer is not None:
            self._timer.cancel()
        for request in list(self._core.requests.values()):
            _nobody_waits(request, is_late=False)
            if request.start is not None:
                self._give_up(request)
            elif request.is_answered:
                self._release(request)
        if self._share is not None:
            self._host.shares.leave(self.peer, self._caller.peer, is_internal=self.listener == INTERNAL)

    def say_goodbye(self, error: errors.OncelogError) -> None:
        """Tells the peer to use another link; the peer closes this one when it has all its answers."""
        self._core.goodbye(error)
        self._after_a_step()

    def _show_out(self, refused: errors.OncelogError) -> None:
        """What let the peer in counts no more (a key or password that was changed): it proves itself anew on another link."""
        if not self._shown_out and isinstance(refused, errors.TokenExpiredError | errors.AuthenticationError):
            self._shown_out = True
            self.say_goodbye(refused)

    async def _end_with_token(self) -> None:
        """Sends the peer to a new link before its token is over. From then on `_refusal` refuses what it asks here."""
        assert self._host.authentication is not None
        await self._host.authentication.nearly_over(self._caller)
        self.say_goodbye(errors.TokenExpiredError())
        await asyncio.sleep(_EXPIRED_LINGER_S)
        with contextlib.suppress(grpc.aio.BaseError, grpc.aio.UsageError):
            await self._context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is over")

    async def _greet(self) -> bool:
        """The hello of both sides; False when the peer was refused."""
        if self._host.is_crowd(self):
            self._host.refused[errors.ErrorCode.RESOURCE_EXHAUSTED.name] += 1
            await self._context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _TOO_MANY)  # not worth waiting for its hello
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                data = await self._context.read()
                if data is grpc.aio.EOF:
                    return False
                try:
                    event = self._first_of(data)
                    proof = await self._enter(event.hello) if isinstance(event, Greeted) else b""
                except errors.OncelogError as error:
                    await self._refuse(error)
                    return False
                if isinstance(event, Breached):
                    raise event.error
                self._core.welcome(proof)
                await self._context.write(self._core.data_to_send())
        except TimeoutError:
            return False
        CALL.set(self._caller)
        self._do(self._core.early(self._now_ms()))
        return True

    def _first_of(self, data: bytes) -> ServerEvent[_Request]:
        """What the peer said while it is not let in. Raises what refuses it."""
        return next(self._core.receive(data, self._now_ms()))

    async def _enter(self, hello: link_pb2.Hello) -> bytes:
        """The peer is let in; returns the end of a password exchange. Raises what refuses the peer."""
        self._check_room()
        proof = await self._authenticate(hello)
        self._let_in()
        return proof

    async def _authenticate(self, hello: link_pb2.Hello) -> bytes:
        """Learns who the caller is; returns the end of a password exchange. Raises what refuses the caller."""
        authentication = self._host.authentication
        if authentication is None:
            return b""
        if not hello.mechanism:
            self._caller = await authentication.caller(self._context, self._caller)
            return b""
        if not authentication.wants_password(self._caller):
            return b""
        caller = await authentication.caller(self._context, self._caller)
        self._caller, proof = await authentication.by_password(
            hello.mechanism, hello.authentication, caller, self._challenge
        )
        return proof

    async def _challenge(self, message: bytes) -> bytes:
        """Sends the server's message of a password exchange, returns the caller's. Raises `AuthenticationError`."""
        self._core.challenge(message)
        await self._context.write(self._core.data_to_send())
        data = await self._context.read()
        event = self._first_of(data) if data is not grpc.aio.EOF else Proved(None)
        if isinstance(event, Breached):
            raise event.error
        if not isinstance(event, Proved) or event.message is None:
            raise errors.AuthenticationError("the password exchange was broken off")
        return event.message

    def _check_room(self) -> None:
        if self._host.stopping:
            raise errors.ShuttingDownError()
        if self._host.links_at[self.listener] > self._host.max_links:
            raise errors.ResourceExhaustedError("too many links to this process", retry_after_ms=1000)

    def _let_in(self) -> None:
        """From here on the link counts for whoever the caller proved to be. Raises `ResourceExhaustedError`."""
        host = self._host
        host.rename(self, peer_of(self._caller))
        if host.let_in[self.listener, self.peer] >= host.max_links_per_peer:
            raise errors.ResourceExhaustedError(_TOO_MANY, retry_after_ms=1000, limit=host.max_links_per_peer)
        self._subject = subject_of(self._caller)
        host.quotas.connect(self._subject, host.links_let_in(self.peer))
        self.is_let_in = True
        host.let_in[self.listener, self.peer] += 1
        self._share = host.shares.enter(self.peer, self._caller.peer, is_internal=self.listener == INTERNAL)

    async def _refuse(self, error: errors.OncelogError) -> None:
        """Says why, and lets the peer hang up first: the end of a stream can overtake its last message."""
        self._host.refused[error.code.name] += 1
        # Else what came with the hello broke the protocol, and the core has said so.
        if self._core.state is LinkState.HELLO:
            self._core.refuse_link(error)
        await self._context.write(self._core.data_to_send())
        try:
            async with asyncio.timeout(_LINGER_S):
                await self._context.read()
        except TimeoutError:
            pass

    async def _accuse(self, error: errors.OncelogError, *, has_writer: bool) -> None:
        """Says what ends the link, as `link.proto` promises; for a peer that takes it, and not for long."""
        ends = (grpc.aio.BaseError, grpc.aio.UsageError, asyncio.InvalidStateError, TimeoutError)
        with contextlib.suppress(*ends):
            if not has_writer:
                await self._refuse(error)
                return
            async with asyncio.timeout(_LINGER_S):
                await self._drained.wait()
                await self._context.read()

    # ------------------------------------------------------------ in

    async def _read(self) -> None:
        """The one reader of the stream."""
        while True:
            data = await self._context.read()
            if data is grpc.aio.EOF:
                self._core.half_close()
                return
            self._meter.messages += 1
            self._meter.delivered_bytes += len(data)
            self._do(self._core.receive(data, self._now_ms()))
            del data  # the next message may be long in coming
            if self._above_quota:
                self._above_quota = False
                await asyncio.sleep(_REFUSED_PAUSE_S)
            crowded = self._core.outbox_frames > self._host.max_requests_per_link
            if crowded or self._core.outbox_bytes > self._host.max_bytes_per_link:
                await self._drained.wait()

    def _do(self, events: Iterable[ServerEvent[_Request]]) -> None:
        """What the core says. Raises `InvalidRequestError` when the peer broke the protocol."""
        for event in events:
            if isinstance(event, Asked):
                self._on_request(event.request, event.frame)
            elif isinstance(event, Cancelled):
                request = event.request
                _nobody_waits(request, is_late=request.deadline_ms - self._now_ms() < _DEADLINE_MS)
            elif isinstance(event, Expired):
                if event.request.span is not None:
                    end_call_span(event.request.span, errors.RequestTimedOutError())
            elif isinstance(event, Breached):
                self._after_a_step()
                raise event.error
        self._after_a_step()

    def _after_a_step(self) -> None:
        """Wakes the writer, and sets the timer, if there is a reason to."""
        core = self._core
        if core.has_output:
            self._drained.clear()
            self._wake.set()
        if core.wake_at_ms < self._timer_ms and core.state is not LinkState.OVER:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = core.wake_at_ms
            wait_s = max(self._timer_ms / 1000 - self._loop.time(), _TICK_MIN_S)
            self._timer = self._loop.call_later(wait_s, self._tick)

    def _tick(self) -> None:
        self._timer, self._timer_ms = None, NEVER_MS
        self._do(self._core.tick(self._now_ms()))

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    def _on_request(self, request: _Request, frame: Frame) -> None:
        size = request.size
        handler = self._host.handlers.get(frame.method)
        if (refusal := self._refusal(frame, handler, size)) is not None:
            self._core.refuse(request, refusal)
            return
        try:
            quota = self._within_quotas(frame, size) if self._quotas.is_active else None
        except errors.ThrottlingQuotaExceededError as error:
            self._above_quota = True
            self._core.refuse(request, error, error.retry_after_ms)
            return
        assert handler is not None
        assert self._share is not None
        if size > SMALL_BYTES:
            self._share.requests.reserve(size)  # `_refusal` has seen that there is room
            request.reserved = size
        request.admission = admission = Admission(self._share.answers)
        if quota is not None:
            request.quota, admission.answer_bytes_max = quota, quota.answer_bytes_max
        self._running_bytes += size
        self._idle.clear()
        traceparent = frame.traceparent if len(frame.traceparent) <= _TRACEPARENT_MAX else ""
        tracer = self._host.tracer
        if tracer is not None and (traceparent[-3:] != tracing.UNRECORDED or not tracer.follows_parents):
            request.span, traceparent = tracing.start_server_call(tracer, frame.method, traceparent)
        if TRACEPARENT.get() != traceparent:
            TRACEPARENT.set(traceparent)  # the task below copies this reader's context
        ADMISSION.set(admission)
        if quota is not None and (quota.delay_ms > 0 or frame.method in self._held):
            self._start_later(quota, request, handler, frame)
        else:
            self._start(request, handler, frame)

    def _start(self, request: _Request, handler: Handler, frame: Frame) -> None:
        task = self._loop.create_task(self._serve(request, handler, frame))
        self._host.running.add(task)
        task.add_done_callback(self._host.running.discard)

    # ------------------------------------------------------------ quotas

    def _within_quotas(self, frame: Frame, size: int) -> Pass | None:
        """Raises `ThrottlingQuotaExceededError`."""
        if not self._subject:
            return None
        return self._quotas.admit(self._subject, frame.method, size, frame.timeout_ms or self._host.default_timeout_ms)

    def _start_later(self, quota: Pass, request: _Request, handler: Handler, frame: Frame) -> None:
        """Behind those of its method that wait already. The timer keeps this reader's context of now."""
        count, last_s = self._held.get(frame.method, (0, 0.0))
        start_s = max(self._loop.time() + quota.delay_ms / 1000, last_s + _BEHIND_S)
        self._held[frame.method] = (count + 1, start_s)
        request.start = self._loop.call_at(start_s, self._start_now, request, handler, frame)

    def _start_now(self, request: _Request, handler: Handler, frame: Frame) -> None:
        request.start = None
        count, last_s = self._held.pop(frame.method)
        if count > 1:
            self._held[frame.method] = (count - 1, last_s)
        if request.is_dropped:
            self._give_up(request)
        else:
            self._start(request, handler, frame)

    def _give_up(self, request: _Request) -> None:
        """Nobody waits any more for a request that has not started: it never will."""
        if request.start is not None:
            request.start.cancel()
        if request.quota is not None:
            request.quota.close()
        self._handled(request)
        self._release(request)

    def _refusal(self, frame: Frame, handler: Handler | None, size: int) -> errors.OncelogError | None:
        if self._host.stopping:
            return errors.ShuttingDownError()
        if handler is None or not frame.method.startswith(self._prefix):
            return errors.InvalidRequestError(f"this link does not serve {frame.method[:100]!r}")
        if (refused := refusal_of(self._caller, frame.method)) is not None:
            self._show_out(refused)
            return refused
        if len(self._core.requests) > self._host.max_requests_per_link:
            return errors.ResourceExhaustedError("too many requests on this link", retry_after_ms=_RETRY_AFTER_MS)
        if len(self._core.requests) > 1 and self._running_bytes + size > self._host.max_bytes_per_link:
            return errors.ResourceExhaustedError(
                "too many bytes in flight on this link", retry_after_ms=_RETRY_AFTER_MS
            )
        assert self._share is not None
        if size > SMALL_BYTES and size > self._share.requests.available_bytes:
            return self._share.requests.refusal(size)
        return None

    # ------------------------------------------------------------ handlers

    async def _serve(self, request: _Request, handler: Handler, frame: Frame) -> None:
        answer: Frame | errors.OncelogError
        try:
            header, payload = await handler(frame.header, frame.payload)
            answer = Frame(frame.correlation_id, link_codec.REPLY, header=header, payload=payload)
        except errors.OncelogError as error:
            answer = error
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                if request.span is not None:
                    end_call_span(request.span, errors.ShuttingDownError())
                request.admission.close()
                if request.quota is not None:
                    request.quota.close()
                raise  # `stop` ran out of patience
            answer = unexpected(error, frame.method)
        finally:
            self._handled(request)
        if request.span is not None:
            end_call_span(request.span, answer if isinstance(answer, errors.OncelogError) else None)
        self._answer(request, answer)

    def _handled(self, request: _Request) -> None:
        """Its handler is done, or never begins."""
        if request.reserved and self._share is not None:
            self._share.requests.release(request.reserved)
        self._running_bytes -= request.size

    def _answer(self, request: _Request, answer: Frame | errors.OncelogError) -> None:
        is_awaited = self._core.is_awaited(request)
        size = len(answer.header) + len(answer.payload) if isinstance(answer, Frame) else 0
        throttle_ms = request.quota.answered(size) if request.quota is not None else 0
        if not is_awaited:
            self._release(request)
            return
        if size > SMALL_BYTES or request.admission.held_bytes:
            answer = self._admitted(request.admission, answer, size)
        self._core.answer(request, answer, throttle_ms)
        self._after_a_step()

    def _admitted(
        self, admission: Admission, answer: Frame | errors.OncelogError, size: int
    ) -> Frame | errors.OncelogError:
        """The answer, paid for until it has left; or why there is no room for it."""
        try:
            if admission.held_bytes + SMALL_BYTES < size < self._host.max_message_bytes:
                admission.take(size - admission.held_bytes)
        except errors.ResourceExhaustedError as error:
            size, answer = 0, error
        admission.keep(size)
        return answer

    # ------------------------------------------------------------ out

    async def _write(self) -> None:
        """The one writer of the stream."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while envelope := self._core.data_to_send():
                    await self._context.write(envelope)
                    self._meter.answered_bytes += len(envelope)
                    for request in self._core.sent():
                        self._let_go_of(request)
                    del envelope
                self._drained.set()
        finally:
            self._core.end()
            self._idle.set()
            self._drained.set()

    def _release(self, request: _Request) -> None:
        self._core.forget(request)
        self._let_go_of(request)

    def _let_go_of(self, request: _Request) -> None:
        if request.admission.held_bytes:
            request.admission.close()
        if not self._core.requests:
            self._idle.set()


def _nobody_waits(request: _Request, *, is_late: bool) -> None:
    """The caller went away, `is_late`: since its time is over. Its handler works on, but what was asked for ends here."""
    if request.span is None:
        return
    if is_late and not request.is_answered:
        end_call_span(request.span, errors.RequestTimedOutError())
    else:
        tracing.end_server_call(request.span, span_names.CANCELLED, span_names.CANCELLED)


_REPORT_EVERY_S: Final = 60.0
_reported: dict[tuple[str, str], float] = {}
"""When a kind of fault was last reported; there are as many kinds as methods and types of exceptions."""


def unexpected(error: BaseException, method: str) -> errors.OncelogError:
    """What the caller is told of a fault of ours; the log gets the rest, of each kind once in a while.

    A broken invariant is no exception: a handler changes nothing itself, so no state is in doubt, and one request that
    meets a bug of ours must not end the process for everybody. The metric of requests counts each one.
    """
    kind, now_s = (method, type(error).__name__), asyncio.get_running_loop().time()
    if now_s - _reported.get(kind, -_REPORT_EVERY_S) >= _REPORT_EVERY_S:
        _reported[kind] = now_s
        log.error("a handler failed", extra={"method": method}, exc_info=error)
    return errors.UnknownServerError("the server failed on this request; its log says why", method=method)
