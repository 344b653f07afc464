"""The server's end of a link: the shell of `server_core.ServerCore`. One reader, one writer, a task per request.

What a link is and what frames mean is the core's; who is let in is `Entrance`'s. Here: which requests are taken, and when they
run.

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
from typing import Final

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
    ServerCore,
    ServerEvent,
)
from oncelog.ports import Handler
from oncelog.trace.trace_context import TRACEPARENT
from oncelog_runtime.adapters.grpc.half_messages import connection_of
from oncelog_runtime.adapters.grpc.link.delayed_starts import DelayedStarts
from oncelog_runtime.adapters.grpc.link.handler_faults import unexpected
from oncelog_runtime.adapters.grpc.link.link_entrance import LINGER_S, Entrance
from oncelog_runtime.adapters.grpc.link.link_host import LinkHost, Visitor
from oncelog_runtime.adapters.grpc.link.link_observer import UNOBSERVED
from oncelog_runtime.adapters.grpc.server_context import ServerContext
from oncelog_runtime.serving.admission import ADMISSION, Admission
from oncelog_runtime.serving.audience import refusal_of
from oncelog_runtime.serving.call_context import CALL, CallInfo
from oncelog_runtime.serving.peer_key import peer_of
from oncelog_runtime.serving.quotas import Pass

log = logging.getLogger(__name__)

HELLO_TIMEOUT_S: Final = 10.0
_EXPIRED_LINGER_S: Final = 30.0
"""How long answers may still go out on a link whose token has expired."""
_RETRY_AFTER_MS: Final = 50
_REFUSED_PAUSE_S: Final = 0.05
"""How long nothing is read from a link on which a request was above a quota: who tries again at once gains nothing."""
_TRACEPARENT_MAX: Final = 256
"""Characters. It goes on into the calls of the handler, and would take the room of their messages."""
_TICK_MIN_S: Final = 0.001
"""uvloop rounds to milliseconds: a timer of less would run again and again until its time has come."""
_DEADLINE_MS: Final = 50
"""A caller whose time has passed says CANCEL; our own timer runs a little later than the caller's."""
SMALL_BYTES: Final = 4096
"""Requests and answers up to this size are bounded by their number alone."""


class _Request(OpenRequest):
    """A request whose answer has not been written, with what it holds."""

    __slots__ = ("admission", "observer", "quota", "reserved", "start")

    admission: Admission

    def __init__(self, correlation_id: int, size: int, deadline_ms: float) -> None:
        super().__init__(correlation_id, size, deadline_ms)
        self.reserved = 0  # of the budget of requests
        self.observer = UNOBSERVED
        self.quota: Pass | None = None
        self.start: asyncio.TimerHandle | None = None  # it waits for its start


class ServerLink:
    """Serves one `Connect` stream of one service.

    Its methods are the steps of a request through the shell (read, admit, run, answer, release), its fields what they
    share.
    """

    def __init__(self, host: LinkHost, service: str, stream: ServerContext, caller: CallInfo) -> None:
        self._host = host
        self._observer = host.observer
        self._prefix = service + "."
        self._stream = stream
        self._core: ServerCore[_Request] = ServerCore(host, _Request)
        self._visitor = Visitor(caller.listener, connection_of(caller.peer), peer_of(caller), self.say_goodbye)
        self._entrance = Entrance(host, self._core, stream, caller, self._visitor)
        self._meter = host.meter(self._visitor.connection)
        self._quotas = host.quotas
        self._above_quota = False
        self._running_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._delayed = DelayedStarts(self._loop)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER_MS
        self._wake = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._shown_out = False

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """Until the peer closes the link or it breaks."""
        tasks: list[asyncio.Task[None]] = []
        self._host.add(self._visitor)
        try:
            if await self._greet():
                tasks.append(self._loop.create_task(self._write()))
                if self._entrance.caller.expires_ms:
                    tasks.append(self._loop.create_task(self._end_with_token()))
                await self._read()
                await self._idle.wait()
                await self._drained.wait()
        except errors.InvalidRequestError as error:
            log.warning(
                "closing a link whose peer breaks the protocol: %s", error, extra={"peer": self._entrance.caller.peer}
            )
            await self._accuse(error, has_writer=bool(tasks))
        except (grpc.aio.BaseError, grpc.aio.UsageError, asyncio.InvalidStateError):
            log.debug("a link broke", extra={"peer": self._entrance.caller.peer}, exc_info=True)
        except Exception:
            log.exception("a link failed", extra={"peer": self._entrance.caller.peer})
        finally:
            self._core.end()
            self._host.remove(self._visitor)
            self._let_go()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # gRPC may cancel this task here a second time

    def _let_go(self) -> None:
        """The peer gets no more answers. A handler that still runs gives back at its end what it holds."""
        if self._timer is not None:
            self._timer.cancel()
        for request in list(self._core.requests.values()):
            request.observer.abandoned(is_late=False)
            if request.start is not None:
                self._give_up(request)
            elif request.is_answered:
                self._release(request)
        self._entrance.leave()

    def say_goodbye(self, error: errors.OncelogError) -> None:
        """Tells the peer to use another link; the peer closes this one when it has all its answers."""
        self._core.goodbye(error)
        self._after_a_step()

    def _show_out(self, refused: errors.OncelogError) -> None:
        """Says goodbye when the peer's token, key or password no longer counts: it proves itself again on another link."""
        if not self._shown_out and isinstance(refused, errors.TokenExpiredError | errors.AuthenticationError):
            self._shown_out = True
            self.say_goodbye(refused)

    async def _end_with_token(self) -> None:
        """Sends the peer to a new link before its token expires. From then on `_refusal` refuses what it asks here."""
        assert self._host.authentication is not None
        await self._host.authentication.nearly_over(self._entrance.caller)
        self.say_goodbye(errors.TokenExpiredError())
        await asyncio.sleep(_EXPIRED_LINGER_S)
        with contextlib.suppress(grpc.aio.BaseError, grpc.aio.UsageError):
            await self._stream.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is over")

    async def _greet(self) -> bool:
        """The hello of both sides; False when the peer was refused."""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                data = await self._stream.read()
                if data is grpc.aio.EOF:
                    return False
                try:
                    event = self._entrance.first_of(data)
                    proof = await self._entrance.enter(event.hello) if isinstance(event, Greeted) else b""
                except errors.OncelogError as error:
                    await self._entrance.refuse(error)
                    return False
                if isinstance(event, Breached):
                    raise event.error
                self._core.welcome(proof)
                await self._stream.write(self._core.data_to_send())
        except TimeoutError:
            return False
        CALL.set(self._entrance.caller)
        self._do(self._core.early(self._now_ms()))
        return True

    async def _accuse(self, error: errors.OncelogError, *, has_writer: bool) -> None:
        """Says what ends the link, as `link.proto` promises; for a peer that takes it, and not for long."""
        ends = (grpc.aio.BaseError, grpc.aio.UsageError, asyncio.InvalidStateError, TimeoutError)
        with contextlib.suppress(*ends):
            if not has_writer:
                await self._entrance.refuse(error)
                return
            async with asyncio.timeout(LINGER_S):
                await self._drained.wait()
                await self._stream.read()

    # ------------------------------------------------------------ in

    async def _read(self) -> None:
        """The one reader of the stream."""
        while True:
            data = await self._stream.read()
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
        """Carries out the events of the core. Raises `InvalidRequestError` when the peer broke the protocol."""
        for event in events:
            if isinstance(event, Asked):
                self._on_request(event.request, event.frame)
            elif isinstance(event, Cancelled):
                self._abandoned(event.request)
            elif isinstance(event, Expired):
                event.request.observer.expired()
            elif isinstance(event, Breached):
                self._after_a_step()
                raise event.error
        self._after_a_step()

    def _abandoned(self, request: _Request) -> None:
        """The caller went away. Its handler works on, but what was asked for ends here."""
        is_late = request.deadline_ms - self._now_ms() < _DEADLINE_MS
        request.observer.abandoned(is_late=is_late and not request.is_answered)

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
        share = self._entrance.share
        assert share is not None
        if size > SMALL_BYTES:
            share.requests.reserve(size)  # `_refusal` has seen that there is room
            request.reserved = size
        request.admission = admission = Admission(share.answers)
        if quota is not None:
            request.quota, admission.answer_bytes_max = quota, quota.answer_bytes_max
        self._running_bytes += size
        self._idle.clear()
        traceparent = frame.traceparent if len(frame.traceparent) <= _TRACEPARENT_MAX else ""
        request.observer, traceparent = self._observer.asked(frame.method, traceparent)
        if TRACEPARENT.get() != traceparent:
            TRACEPARENT.set(traceparent)  # the task below copies this reader's context
        ADMISSION.set(admission)
        if quota is not None and (quota.delay_ms > 0 or self._delayed.waits(frame.method)):
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
        if not self._entrance.subject:
            return None
        return self._quotas.admit(
            self._entrance.subject, frame.method, size, frame.timeout_ms or self._host.default_timeout_ms
        )

    def _start_later(self, quota: Pass, request: _Request, handler: Handler, frame: Frame) -> None:
        """Behind those of its method that wait already. The timer keeps this reader's context of now."""
        request.start = self._delayed.start_later(
            frame.method, quota.delay_ms, self._start_now, request, handler, frame
        )

    def _start_now(self, request: _Request, handler: Handler, frame: Frame) -> None:
        request.start = None
        self._delayed.started(frame.method)
        if request.is_dropped:
            self._give_up(request)
        else:
            self._start(request, handler, frame)

    def _give_up(self, request: _Request) -> None:
        """Drops a request that has not started and that its caller no longer waits for."""
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
        if (refused := refusal_of(self._entrance.caller, frame.method)) is not None:
            self._show_out(refused)
            return refused
        if len(self._core.requests) > self._host.max_requests_per_link:
            return errors.ResourceExhaustedError("too many requests on this link", retry_after_ms=_RETRY_AFTER_MS)
        if len(self._core.requests) > 1 and self._running_bytes + size > self._host.max_bytes_per_link:
            return errors.ResourceExhaustedError(
                "too many bytes in flight on this link", retry_after_ms=_RETRY_AFTER_MS
            )
        share = self._entrance.share
        assert share is not None
        if size > SMALL_BYTES and size > share.requests.available_bytes:
            return share.requests.refusal(size)
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
                request.observer.answered(errors.ShuttingDownError())
                request.admission.close()
                if request.quota is not None:
                    request.quota.close()
                raise  # `stop` ran out of patience
            answer = unexpected(error, frame.method)
        finally:
            self._handled(request)
        request.observer.answered(answer if isinstance(answer, errors.OncelogError) else None)
        self._answer(request, answer)

    def _handled(self, request: _Request) -> None:
        """Its handler is done, or never begins."""
        if request.reserved and self._entrance.share is not None:
            self._entrance.share.requests.release(request.reserved)
        self._running_bytes -= request.size

    def _answer(self, request: _Request, answer: Frame | errors.OncelogError) -> None:
        is_awaited = self._core.is_awaited(request)
        size = len(answer.header) + len(answer.payload) if isinstance(answer, Frame) else 0
        throttle_ms = request.quota.answered(size) if request.quota is not None else 0
        if not is_awaited:
            self._release(request)
            return
        if size > SMALL_BYTES or request.admission.held_bytes:
            answer = _admitted(request.admission, answer, size, self._host.max_message_bytes)
        self._core.answer(request, answer, throttle_ms)
        self._after_a_step()

    # ------------------------------------------------------------ out

    async def _write(self) -> None:
        """The one writer of the stream."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while envelope := self._core.data_to_send():
                    await self._stream.write(envelope)
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


def _admitted(
    admission: Admission, answer: Frame | errors.OncelogError, size: int, max_message_bytes: int
) -> Frame | errors.OncelogError:
    """The answer, paid for until it has left; or why there is no room for it."""
    try:
        if admission.held_bytes + SMALL_BYTES < size < max_message_bytes:
            admission.take(size - admission.held_bytes)
    except errors.ResourceExhaustedError as error:
        size, answer = 0, error
    admission.keep(size)
    return answer
