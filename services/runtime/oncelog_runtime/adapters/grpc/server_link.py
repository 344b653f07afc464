"""The server's end of a link: one reader, one writer, a task per request.

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
from collections import deque
from typing import Any, Final

import grpc
import grpc.aio

from oncelog import errors
from oncelog.link import link_codec, protocol
from oncelog.link.link_codec import Frame
from oncelog.ports import Handler
from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.v1 import link_pb2
from oncelog.wire.wire_errors import to_detail
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
_DEADLINE_S: Final = 0.05
"""A caller whose time is over says CANCEL; our own timer runs a little later than the caller's."""
_TOO_MANY: Final = (
    "too many links from this address, or of this principal, to this process: share one client among your tasks"
)
SMALL_BYTES: Final = 4096
"""Requests and answers up to this size are bounded by their number alone."""


class _Request:
    """A request whose answer has not been written."""

    __slots__ = (
        *("admission", "answered", "correlation_id", "dropped", "expired", "quota", "reserved", "size", "span"),
        *("start", "timer"),
    )

    def __init__(self, correlation_id: int, size: int, reserved: int, admission: Admission) -> None:
        self.correlation_id = correlation_id
        self.size = size
        self.reserved = reserved  # of the budget of requests
        self.admission = admission
        self.answered = False  # the handler is done
        self.dropped = False  # nobody waits for the answer
        self.expired = False  # the caller was told of the time-out; the handler still runs and holds its place
        self.timer: asyncio.TimerHandle | None = None
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
        self._requests: dict[int, _Request] = {}
        self._running_bytes = 0
        self._outbox: deque[Frame] = deque()
        self._outbox_bytes = 0
        self._wake = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._over = False
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
                tasks.append(asyncio.get_running_loop().create_task(self._write()))
                if self._caller.expires_ms:
                    tasks.append(asyncio.get_running_loop().create_task(self._end_with_token()))
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
            self._over = True
            self._host.remove(self)
            self._let_go()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # gRPC may cancel this task here a second time

    def _let_go(self) -> None:
        """Nobody gets the answers any more. A handler that still runs gives back at its end what it holds."""
        for request in list(self._requests.values()):
            if request.timer is not None:
                request.timer.cancel()
            _nobody_waits(request)
            if request.start is not None:
                self._give_up(request)
            elif request.answered:
                self._release(request)
        self._outbox.clear()
        if self._share is not None:
            self._host.shares.leave(self.peer, self._caller.peer, is_internal=self.listener == INTERNAL)

    def say_goodbye(self, error: errors.OncelogError) -> None:
        """Tells the peer to use another link; the peer closes this one when it has all its answers."""
        self._queue(protocol.LINK_ITSELF, error)

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
                first, *rest = link_codec.decode_envelope(data) or [Frame(0, 0)]
                try:
                    self._check_hello(first.hello)
                    assert first.hello is not None
                    answer = await self._authenticate(first.hello)
                    self._let_in()
                except errors.OncelogError as error:
                    await self._refuse(error)
                    return False
                await self._context.write(link_codec.hello_envelope(answer))
        except TimeoutError:
            return False
        CALL.set(self._caller)
        for frame in rest:
            self._on_frame(frame)
        return True

    def _hello(self, proof: bytes = b"") -> link_pb2.Hello:
        return link_pb2.Hello(
            protocol_min=protocol.PROTOCOL_MIN,
            protocol_max=protocol.PROTOCOL_MAX,
            software=self._host.software,
            cluster_id=self._host.cluster_id,
            authentication=proof,
        )

    async def _authenticate(self, hello: link_pb2.Hello) -> link_pb2.Hello:
        """Learns who the caller is; returns the hello that lets it in. Raises what refuses it."""
        authentication = self._host.authentication
        if authentication is None:
            return self._hello()
        if not hello.mechanism:
            self._caller = await authentication.caller(self._context, self._caller)
            return self._hello()
        if not authentication.wants_password(self._caller):
            return self._hello()
        caller = await authentication.caller(self._context, self._caller)
        self._caller, proof = await authentication.by_password(
            hello.mechanism, hello.authentication, caller, self._challenge
        )
        return self._hello(proof)

    async def _challenge(self, message: bytes) -> bytes:
        """Sends the server's message of a password exchange, returns the caller's. Raises `AuthenticationError`."""
        await self._context.write(link_codec.hello_envelope(self._hello(message)))
        data = await self._context.read()
        frames = [] if data is grpc.aio.EOF else link_codec.decode_envelope(data)
        if len(frames) != 1 or frames[0].hello is None:
            raise errors.AuthenticationError("the password exchange was broken off")
        return bytes(frames[0].hello.authentication)

    def _check_hello(self, hello: link_pb2.Hello | None) -> None:
        if hello is None:
            raise errors.InvalidRequestError("a link begins with a hello")
        protocol.check_versions(hello, "the caller")
        protocol.check_cluster(self._host.cluster_id, hello.cluster_id, "the caller")
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
        await self._context.write(link_codec.encode_envelope([_error_frame(protocol.LINK_ITSELF, error)]))
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
            self.say_goodbye(error)
            async with asyncio.timeout(_LINGER_S):
                await self._drained.wait()
                await self._context.read()

    # ------------------------------------------------------------ in

    async def _read(self) -> None:
        """The one reader of the stream."""
        while True:
            data = await self._context.read()
            if data is grpc.aio.EOF:
                return
            self._meter.messages += 1
            self._meter.delivered_bytes += len(data)
            self._on_envelope(data)
            del data  # the next message may be long in coming
            if self._above_quota:
                self._above_quota = False
                await asyncio.sleep(_REFUSED_PAUSE_S)
            crowded = len(self._outbox) > self._host.max_requests_per_link
            if crowded or self._outbox_bytes > self._host.max_bytes_per_link:
                await self._drained.wait()

    def _on_envelope(self, data: bytes) -> None:
        for frame in link_codec.decode_envelope(data):
            self._on_frame(frame)

    def _on_frame(self, frame: Frame) -> None:
        if frame.kind == link_codec.REQUEST:
            self._on_request(frame)
        elif frame.kind == link_codec.CANCEL:
            request = self._requests.get(frame.correlation_id)
            if request is not None:
                request.dropped = True
                _nobody_waits(request)

    def _on_request(self, frame: Frame) -> None:
        if frame.correlation_id in self._requests or frame.correlation_id == protocol.LINK_ITSELF:
            raise errors.InvalidRequestError("a correlation id is used twice", correlation_id=frame.correlation_id)
        size = len(frame.header) + len(frame.payload)
        handler = self._host.handlers.get(frame.method)
        if (refusal := self._refusal(frame, handler, size)) is not None:
            self._queue(frame.correlation_id, refusal)
            return
        try:
            quota = self._within_quotas(frame, size) if self._quotas.is_active else None
        except errors.ThrottlingQuotaExceededError as error:
            self._above_quota = True
            self._queue(frame.correlation_id, error, error.retry_after_ms)
            return
        assert handler is not None
        assert self._share is not None
        reserved = size if size > SMALL_BYTES else 0
        if reserved:
            self._share.requests.reserve(reserved)  # `_refusal` has seen that there is room
        admission = Admission(self._share.answers)
        request = _Request(frame.correlation_id, size, reserved, admission)
        if quota is not None:
            request.quota, admission.answer_bytes_max = quota, quota.answer_bytes_max
        self._requests[frame.correlation_id] = request
        self._running_bytes += size
        self._idle.clear()
        loop = asyncio.get_running_loop()
        timeout_ms = frame.timeout_ms or self._host.default_timeout_ms
        request.timer = loop.call_later(timeout_ms / 1000, self._expire, request)
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
        task = asyncio.get_running_loop().create_task(self._serve(request, handler, frame))
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
        loop = asyncio.get_running_loop()
        count, last_s = self._held.get(frame.method, (0, 0.0))
        start_s = max(loop.time() + quota.delay_ms / 1000, last_s + _BEHIND_S)
        self._held[frame.method] = (count + 1, start_s)
        request.start = loop.call_at(start_s, self._start_now, request, handler, frame)

    def _start_now(self, request: _Request, handler: Handler, frame: Frame) -> None:
        request.start = None
        count, last_s = self._held.pop(frame.method)
        if count > 1:
            self._held[frame.method] = (count - 1, last_s)
        if request.dropped:
            self._give_up(request)
        else:
            self._start(request, handler, frame)

    def _give_up(self, request: _Request) -> None:
        """Nobody waits any more for a request that has not started: it never will."""
        for timer in (request.start, request.timer):
            if timer is not None:
                timer.cancel()
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
        if len(self._requests) >= self._host.max_requests_per_link:
            return errors.ResourceExhaustedError("too many requests on this link", retry_after_ms=_RETRY_AFTER_MS)
        if self._requests and self._running_bytes + size > self._host.max_bytes_per_link:
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
        if request.timer is not None:
            request.timer.cancel()
        request.answered = True
        size = len(answer.header) + len(answer.payload) if isinstance(answer, Frame) else 0
        throttle_ms = request.quota.answered(size) if request.quota is not None else 0
        if request.dropped or self._over:
            self._release(request)
        else:
            if size > SMALL_BYTES or request.admission.held_bytes:
                answer = self._admitted(request.admission, answer, size)
            self._queue(request.correlation_id, answer, throttle_ms)

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

    def _expire(self, request: _Request) -> None:
        if not request.dropped:
            request.dropped = request.expired = True
            if request.span is not None:
                end_call_span(request.span, errors.RequestTimedOutError())
            self._queue(request.correlation_id, errors.RequestTimedOutError())

    # ------------------------------------------------------------ out

    def _queue(self, correlation_id: int, answer: Frame | errors.OncelogError, throttle_ms: int = 0) -> None:
        frame = answer if isinstance(answer, Frame) else _error_frame(correlation_id, answer)
        if throttle_ms:
            frame = frame._replace(throttle_ms=throttle_ms)
        size = len(frame.header) + len(frame.payload)
        if size + link_codec.FRAME_OVERHEAD_BYTES > self._host.max_message_bytes:
            too_large = errors.MessageTooLargeError("the answer does not fit into one message", bytes=size)
            frame = _error_frame(correlation_id, too_large)
            size = len(frame.header)
        self._outbox.append(frame)
        self._outbox_bytes += size
        self._drained.clear()
        self._wake.set()

    async def _write(self) -> None:
        """The one writer of the stream."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while frames := self._gather():
                    envelope = link_codec.encode_envelope(frames)
                    sizes = [(frame.correlation_id, len(frame.header) + len(frame.payload)) for frame in frames]
                    frames.clear()  # the envelope has their bytes; both together would be twice the budget
                    await self._context.write(envelope)
                    self._meter.answered_bytes += len(envelope)
                    for correlation_id, size in sizes:
                        self._outbox_bytes -= size
                        self._written(correlation_id)
                    del envelope
                self._drained.set()
        finally:
            self._over = True
            self._idle.set()
            self._drained.set()

    def _written(self, correlation_id: int) -> None:
        request = self._requests.get(correlation_id)
        if request is not None and not request.expired:
            self._release(request)

    def _release(self, request: _Request) -> None:
        self._requests.pop(request.correlation_id, None)
        if request.admission.held_bytes:
            request.admission.close()
        if not self._requests:
            self._idle.set()

    def _gather(self) -> list[Frame]:
        """What waits, up to 1 MiB, or one larger frame."""
        envelope_bytes = min(protocol.ENVELOPE_BYTES, self._host.max_message_bytes)
        frames: list[Frame] = []
        total = 0
        while self._outbox:
            frame = self._outbox[0]
            total += len(frame.header) + len(frame.payload) + link_codec.USUAL_OVERHEAD_BYTES
            if frames and total > envelope_bytes:
                break
            frames.append(self._outbox.popleft())
        return frames


def _nobody_waits(request: _Request) -> None:
    """The caller went away. Its handler works on, but what the caller asked for ends here."""
    if request.span is None:
        return
    timer = request.timer
    if timer is not None and not timer.cancelled() and timer.when() - asyncio.get_running_loop().time() < _DEADLINE_S:
        end_call_span(request.span, errors.RequestTimedOutError())
    else:
        tracing.end_server_call(request.span, span_names.CANCELLED, span_names.CANCELLED)


def _error_frame(correlation_id: int, error: errors.OncelogError) -> Frame:
    return Frame(correlation_id, link_codec.ERROR, header=to_detail(error).SerializeToString())


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
