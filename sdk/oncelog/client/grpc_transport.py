"""Calls to other processes over gRPC: one link per address and service.

Rule 1: a link is one `Connect` stream. Exactly one task reads it and one task writes it; callers wait on futures, and
        their time-outs are timers (a cancelled `read` would end the whole stream, concurrent `write`s lose messages).
Rule 2: all frames that wait travel in one envelope; nothing ever waits for more to come.
Rule 3: any exception of the stream means that the link is gone. What was sent has an unknown outcome; what was not
        sent says `unsent="true"`; the next call makes a new link, with a new channel, so that neither gRPC's back-off
        nor its cached name look-ups stand between a caller and a peer that has come back.
Rule 4: calls and bytes in flight are bounded per link; who comes later waits for room, in order, until its time-out.
Rule 5: a channel does not survive a fork. The child's use of it, or of a new one, raises `ForkedClientError`.

This module imports grpc, so nothing that `import oncelog` loads may import it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import weakref
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from oncelog import errors, link_codec, tracing
from oncelog.client.credentials import Credentials, check_way
from oncelog.client.grpc_reach import explain_connect
from oncelog.client.grpc_tls import SDK_HINTS, ClientTls, HandshakeFailure, TlsHints, explain_handshake
from oncelog.core.throttles import Throttles
from oncelog.link_codec import Frame
from oncelog.trace_context import LINKS, TRACEPARENT
from oncelog.types import Buffer
from oncelog.v1 import errors_pb2, link_pb2
from oncelog.wire_errors import from_detail

log = logging.getLogger(__name__)

PROTOCOL_MIN: Final = 1
PROTOCOL_MAX: Final = 1
ENVELOPE_BYTES: Final = 1 << 20
LINK_ITSELF: Final = 0
"""The correlation id of an ERROR frame that is about the link: a refused hello, or a server that goes away."""

_FIRST_CONNECT_TIMEOUT_MS: Final = 200
_LAST_CONNECT_TIMEOUT_MS: Final = 5_000
_HELLO_TIMEOUT_S: Final = 10.0
_RECONNECT_PAUSE_S: Final = 0.05
_STATUS_WAIT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class GrpcOptions:
    """Bounds of a `GrpcTransport`."""

    max_message_bytes: int = 64 << 20
    """Largest envelope sent or received; header and payload of a call must fit in with 1 KiB to spare."""
    max_calls_in_flight: int = 4096
    """Per link; a further call waits."""
    max_bytes_in_flight: int = 64 << 20
    """Per link, requests only; a call larger than this goes when nothing else is in flight."""
    software: str = "oncelog-python"
    """Named in the hello, for the peer's logs."""
    tls_hints: TlsHints = SDK_HINTS
    """How to switch TLS, for errors."""


# ---------------------------------------------------------------- fork


_live_channels: weakref.WeakSet[Any] = weakref.WeakSet()
_fork_count = 0
_forked_with_channels = False


def _after_fork_in_child() -> None:
    global _fork_count, _forked_with_channels
    _fork_count += 1
    _forked_with_channels = _forked_with_channels or len(_live_channels) > 0


os.register_at_fork(after_in_child=_after_fork_in_child)


def _refuse_if_forked(born_in: int) -> None:
    if born_in != _fork_count:
        raise errors.ForkedClientError.inherited()
    if _forked_with_channels:
        raise errors.ForkedClientError(
            "this process was forked while a client was connected, and gRPC cannot work in it: start processes with spawn or"
            " forkserver, as multiprocessing.get_context('spawn') does, or close all clients before the fork (gunicorn:"
            " without --preload)"
        )


# ---------------------------------------------------------------- one call


class _Call:
    """A request, from `call` until its future is done."""

    __slots__ = ("admitted", "correlation_id", "frame", "future", "sent", "size", "timer")

    def __init__(self, frame: Frame, future: asyncio.Future[tuple[bytes, Buffer]]) -> None:
        self.frame = frame
        self.correlation_id = frame.correlation_id
        self.size = len(frame.header) + len(frame.payload)
        self.future = future
        self.timer: asyncio.TimerHandle | None = None
        self.admitted = False  # it holds credit
        self.sent = False  # the peer may have executed it

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


# ---------------------------------------------------------------- one link


class _Link:
    """One stream to one service of one peer. All methods run on the loop; none of them but `_run` waits."""

    def __init__(self, transport: GrpcTransport, address: str, service: str, pause_s: float, timeout_ms: int) -> None:
        self.transport = transport
        self.address = address
        self.service = service
        self._options = transport.options
        self._envelope_bytes = min(ENVELOPE_BYTES, self._options.max_message_bytes)
        self._connect_timeout_ms = timeout_ms
        self._ready = False
        self._leaving = False  # the peer goes away: nothing new, wait for what is open
        self._over = False
        self._open: dict[int, _Call] = {}
        self._bytes = 0
        self._waiting: deque[_Call] = deque()
        self._outbox: deque[_Call | Frame] = deque()
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(pause_s))

    # ------------------------------------------------------------ callers

    def submit(self, call: _Call) -> None:
        """Takes a call; it starts now, or when the link is up and has room, after all earlier ones."""
        if self._ready and not self._waiting and self._has_room(call):
            self._admit(call)
        else:
            self._waiting.append(call)

    def abandon(self, call: _Call) -> None:
        """The caller no longer waits."""
        if call.sent and call.correlation_id in self._open:
            self._outbox.append(Frame(call.correlation_id, link_codec.CANCEL))
            self._wake.set()
        call.frame = call.frame._replace(payload=b"")  # it may stay in a queue for a while; its bytes need not
        self._finish(call)

    def _has_room(self, call: _Call) -> bool:
        if not self._open:
            return True
        options = self._options
        return len(self._open) < options.max_calls_in_flight and self._bytes + call.size <= options.max_bytes_in_flight

    def _admit(self, call: _Call) -> None:
        call.admitted = True
        self._open[call.correlation_id] = call
        self._bytes += call.size
        self._outbox.append(call)
        self._wake.set()

    def _finish(self, call: _Call) -> None:
        if call.timer is not None:
            call.timer.cancel()
        if call.admitted and self._open.pop(call.correlation_id, None) is not None:
            self._bytes -= call.size
        if self._waiting and self._ready:
            self._admit_waiting()
        if self._leaving and not self._open:
            self.end(errors.NetworkError(f"the link to {self.address} was closed", address=self.address))

    def _admit_waiting(self) -> None:
        while self._waiting:
            call = self._waiting[0]
            if call.future.done():
                self._waiting.popleft()
            elif self._has_room(call):
                self._admit(self._waiting.popleft())
            else:
                return

    # ------------------------------------------------------------ life

    async def _run(self, pause_s: float) -> None:
        """Connects, greets, reads until the end. The one reader of the stream."""
        channel = stream = None
        try:
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            channel = self.transport.open_channel(self.address, self._connect_timeout_ms)
            metadata = await self.transport.link_metadata(self.address)
            stream = channel.stream_stream(f"/oncelog.v1.{self.service}/Connect")(metadata=metadata)
            await self._greet(stream)
            self._writer = asyncio.get_running_loop().create_task(self._write(stream))
            await self._read(stream)
        except asyncio.CancelledError as error:
            self.end(await self._explain(stream, error))
            if self._task.cancelling():
                raise  # else it was the stream that was cancelled, by the peer
        except errors.OncelogError as error:
            self.end(error)
        except Exception as error:
            self.end(await self._explain(stream, error))
        finally:
            if self._writer is not None:
                self._writer.cancel()
            if stream is not None:
                stream.cancel()
            if channel is not None:
                await channel.close()

    async def _greet(self, stream: Any) -> None:
        hello = link_pb2.Hello(
            protocol_min=PROTOCOL_MIN,
            protocol_max=PROTOCOL_MAX,
            software=self._options.software,
            cluster_id=self.transport.cluster_id,
        )
        credentials = self.transport.credentials
        timer = asyncio.get_running_loop().call_later(_HELLO_TIMEOUT_S, self._silent)
        try:
            if credentials is not None and credentials.mechanism:
                await self._prove(stream, hello, credentials)
            else:
                self.transport.check_hello(self, await _say_hello(stream, hello, self.address))
        finally:
            timer.cancel()
        self._ready = True
        self._admit_waiting()

    async def _prove(self, stream: Any, hello: link_pb2.Hello, credentials: Credentials) -> None:
        """The hello with a password exchange. Raises `AuthenticationError`, also when the server proves nothing itself."""
        scram = credentials.exchange()
        hello.mechanism, hello.authentication = credentials.mechanism, scram.first()
        answer = await _say_hello(stream, hello, self.address)
        self.transport.check_hello(self, answer)
        challenge = answer.authentication if answer is not None else b""
        if not challenge:
            raise errors.AuthenticationError(
                f"{self.address} asks for no password: its cluster has no access rules, or this is not the listener for "
                "clients",
                address=self.address,
            )
        salt, iterations = scram.challenge(challenge)
        proof = scram.final(challenge, await credentials.salted(salt, iterations))
        answer = await _say_hello(stream, link_pb2.Hello(authentication=proof), self.address)
        scram.check(answer.authentication if answer is not None else b"")

    def _silent(self) -> None:
        self.end(errors.NetworkError(f"{self.address} did not answer the hello", address=self.address))

    async def _explain(self, stream: Any, error: BaseException) -> errors.OncelogError:
        """What ended the stream, as a `NetworkError`."""
        status, details = "", str(error)
        if stream is not None and not stream.done() and not self._ready and not self._over:
            await _status_of(stream)
        if stream is not None and stream.done():
            code = await stream.code()
            status, details = getattr(code, "name", str(code)), await stream.details() or ""
        context: dict[str, Any] = {"address": self.address, "status": status}
        if not self._ready and ("Connection refused" in details or "actively refused" in details):
            return errors.NetworkError(f"nobody listens at {self.address}", refused="true", **context)
        if not self._ready and (failure := self.transport.explain_handshake(self.address, details)) is not None:
            context["tls"] = "refused" if failure.certain else "maybe"
            return errors.NetworkError(failure.sentence, **context)
        if not self._ready and (failed := explain_connect(details)) is not None:
            return errors.NetworkError(failed.sentence, connect=failed.kind, **context)
        return errors.NetworkError(f"the link to {self.address} broke: {details or type(error).__name__}", **context)

    def end(self, error: errors.OncelogError) -> None:
        """The link is over: every call fails, the tasks stop. Any number of times."""
        if self._over:
            return
        self._over = True
        ready, self._ready = self._ready, False
        self.transport.forget(self, failed=not ready, refused="refused" in error.context)
        for call in [*self._open.values(), *self._waiting]:
            if call.timer is not None:
                call.timer.cancel()
            call.fail(_for_one_call(error, call.sent))
        self._open.clear()
        self._waiting.clear()
        self._outbox.clear()
        if self._task is not asyncio.current_task():
            self._task.cancel()

    async def closed(self) -> None:
        """Waits until both tasks have ended."""
        await asyncio.gather(*(t for t in (self._task, self._writer) if t is not None), return_exceptions=True)

    # ------------------------------------------------------------ frames

    async def _write(self, stream: Any) -> None:
        """The one writer of the stream."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while frames := self._gather():
                    await stream.write(link_codec.encode_envelope(frames))
        except (Exception, asyncio.CancelledError) as error:
            self.end(await self._explain(stream, error))
            if isinstance(error, asyncio.CancelledError):
                raise

    def _gather(self) -> list[Frame]:
        """What waits, up to 1 MiB, or one larger frame."""
        frames: list[Frame] = []
        total = 0
        while self._outbox:
            item = self._outbox[0]
            if isinstance(item, _Call) and item.future.done():
                self._outbox.popleft()  # nobody waits for it any more, and the peer never heard of it
                continue
            frame = item if isinstance(item, Frame) else item.frame
            total += len(frame.header) + len(frame.payload) + link_codec.USUAL_OVERHEAD_BYTES
            if frames and total > self._envelope_bytes:
                break
            frames.append(frame)
            self._outbox.popleft()
            if isinstance(item, _Call):
                item.sent = True
        return frames

    async def _read(self, stream: Any) -> None:
        while not self._over:
            data = await stream.read()
            if data is grpc.aio.EOF:
                raise EOFError
            for frame in _frames_of(data, self.address):
                self._on_frame(frame)

    def _on_frame(self, frame: Frame) -> None:
        if frame.kind == link_codec.ERROR and frame.correlation_id == LINK_ITSELF:
            self._leave(_error_of(frame, self.address))
            return
        call = self._open.get(frame.correlation_id)
        if call is None:
            return  # it timed out or was cancelled here
        if frame.throttle_ms:
            self.transport.throttled(self.address, call.frame.method, frame.throttle_ms)
        if frame.kind == link_codec.REPLY:
            if not call.future.done():
                call.future.set_result((frame.header, frame.payload))
        elif frame.kind == link_codec.ERROR:
            call.fail(_error_of(frame, self.address))
        else:
            return
        self._finish(call)

    def _leave(self, error: errors.OncelogError) -> None:
        """The peer goes away: open calls still get their answers, waiting ones fail, new ones use another link."""
        self._leaving = True
        self.transport.forget(self, failed=False, refused=False)
        for call in self._waiting:
            call.fail(_for_one_call(error, sent=False))
        self._waiting.clear()
        if not self._open:
            self.end(error)


async def _status_of(stream: Any) -> None:
    """Waits a moment: a failed write is known a little earlier than the status that explains it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STATUS_WAIT_S):
            await stream.code()


async def _say_hello(stream: Any, hello: link_pb2.Hello, address: str) -> link_pb2.Hello | None:
    """Sends a hello, returns the peer's. Raises the peer's refusal."""
    await stream.write(link_codec.hello_envelope(hello))
    data = await stream.read()
    if data is grpc.aio.EOF:
        raise EOFError
    frames = _frames_of(data, address)
    if frames and frames[0].kind == link_codec.ERROR:
        raise _error_of(frames[0], address)
    return frames[0].hello if frames else None


def _frames_of(data: bytes, address: str) -> list[Frame]:
    """Raises `InvalidResponseError`: what was sent on this link has an unknown outcome."""
    try:
        return link_codec.decode_envelope(data)
    except errors.InvalidRequestError as error:
        raise errors.InvalidResponseError(f"{address} sent what cannot be parsed", address=address) from error


def _error_of(frame: Frame, address: str) -> errors.OncelogError:
    try:
        return from_detail(errors_pb2.ErrorDetail.FromString(frame.header))
    except DecodeError:
        return errors.InvalidResponseError(f"{address} sent an error that cannot be parsed", address=address)


def _for_one_call(error: errors.OncelogError, sent: bool) -> errors.OncelogError:
    """Each future needs an error object of its own: a traceback grows on it."""
    context: dict[str, Any] = {**error.context} if sent else {**error.context, "unsent": "true"}
    return type(error)(error.message, retry_after_ms=error.retry_after_ms, **context)


# ---------------------------------------------------------------- all links


class GrpcTransport:
    """Implements `oncelog.ports.Transport`. Belongs to the event loop of its first call.

    `cluster_id` empty = taken from the first peer that names one; from then on another cluster's peer is refused with
    `WrongClusterError`. `tls` None = plaintext. `metadata` is sent once per link. `credentials` say who this process is.

    Raises `ForkedClientError` when this process was forked while a channel was open.
    """

    def __init__(
        self,
        cluster_id: str = "",
        options: GrpcOptions | None = None,
        tls: ClientTls | None = None,
        metadata: Sequence[tuple[str, str | bytes]] = (),
        tracer: tracing.Tracer | None = None,
        credentials: Credentials | None = None,
        throttles: Throttles | None = None,
    ) -> None:
        self._born_in = _fork_count
        _refuse_if_forked(self._born_in)
        self._tracer = tracer
        self.cluster_id = cluster_id
        self.options = options or GrpcOptions()
        self._metadata = tuple(metadata)
        self.credentials = credentials
        self.throttles = throttles or Throttles()
        self._tls = tls
        self._links: dict[tuple[str, str], _Link] = {}
        self._ending: dict[int, _Link] = {}
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}  # count in a row, time of the last
        self._next_id = 1
        self._closed = False

    def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> Coroutine[Any, Any, tuple[bytes, Buffer]]:
        """See `oncelog.ports.Transport.call`.

        `NetworkError` carries `unsent="true"` when the request certainly never left, and `refused="true"` too when
        nobody listens. Raises `MessageTooLargeError` for more than `max_message_bytes`, `IllegalStateError` after
        `close`, `ForkedClientError` in a forked child.
        """
        context = TRACEPARENT.get()
        if self._tracer is None or (context[-3:] == tracing.UNRECORDED and self._tracer.follows_parents):
            return self._call(address, method, header, payload, timeout_ms, context)
        parent = self._tracer.current()
        unrecorded = tracing.unrecorded_call(self._tracer, method, parent)
        if unrecorded is not None:
            return self._call(address, method, header, payload, timeout_ms, unrecorded)
        return self._recorded(self._tracer, parent, address, method, header, payload, timeout_ms)

    async def _recorded(
        self,
        tracer: tracing.Tracer,
        parent: str,
        address: str,
        method: str,
        header: bytes,
        payload: Buffer,
        timeout_ms: int,
    ) -> tuple[bytes, Buffer]:
        """The call inside of a span, which ends however the call ends."""
        span = tracing.record_client_call(tracer, method, address, parent, LINKS.get())
        try:
            answer = await self._call(address, method, header, payload, timeout_ms, span.traceparent)
        except BaseException as error:
            tracing.end_with(span, error)
            raise
        span.end()
        return answer

    async def _call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int, traceparent: str
    ) -> tuple[bytes, Buffer]:
        self._check(header, payload)
        loop = asyncio.get_running_loop()
        frame = Frame(
            self._next_id,
            link_codec.REQUEST,
            method,
            max(1, min(timeout_ms, link_codec.MAX_TIMEOUT_MS)),
            traceparent,
            header,
            payload,
        )
        self._next_id += 1
        call = _Call(frame, loop.create_future())
        link = self._link(address, method.partition(".")[0])
        call.timer = loop.call_later(timeout_ms / 1000, _time_out, link, call, timeout_ms)
        link.submit(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            link.abandon(call)
            if call.future.done() and not call.future.cancelled():
                call.future.exception()  # answered and cancelled in the same moment: nobody else will look at it
            raise

    async def close(self) -> None:
        """Ends all links; open calls fail with `NetworkError`. Any number of times."""
        self._closed = True
        links = [*self._links.values(), *self._ending.values()]
        for link in links:
            link.end(errors.NetworkError("this client was closed", address=link.address))
        for link in links:
            await link.closed()

    def _check(self, header: bytes, payload: Buffer) -> None:
        if self._born_in != _fork_count or _forked_with_channels:
            _refuse_if_forked(self._born_in)
        if self._closed:
            raise errors.IllegalStateError("this transport is closed")
        size = len(header) + len(payload)
        if size + link_codec.FRAME_OVERHEAD_BYTES > self.options.max_message_bytes:
            raise errors.MessageTooLargeError(
                "the request does not fit into one message",
                bytes=size,
                max_message_bytes=self.options.max_message_bytes,
            )

    # ------------------------------------------------------------ what links need

    def _link(self, address: str, service: str) -> _Link:
        key = (address, service)
        link = self._links.get(key)
        if link is None:
            failures, last = self._failures.get(key, (0, 0.0))
            pause_s = last + _RECONNECT_PAUSE_S - asyncio.get_running_loop().time() if failures else 0.0
            timeout_ms = min(_FIRST_CONNECT_TIMEOUT_MS << min(failures, 8), _LAST_CONNECT_TIMEOUT_MS)
            link = self._links[key] = _Link(self, address, service, pause_s, timeout_ms)
        return link

    def forget(self, link: _Link, *, failed: bool, refused: bool) -> None:
        """The link takes no new calls. `failed`: it never came up."""
        key = (link.address, link.service)
        if self._links.get(key) is link:
            del self._links[key]
            self._ending[id(link)] = link
            link._task.add_done_callback(lambda _: self._ending.pop(id(link), None))
        if failed:
            count = 1 if refused else self._failures.get(key, (0, 0.0))[0] + 1
            self._failures[key] = (count, asyncio.get_running_loop().time())
        else:
            self._failures.pop(key, None)

    def throttled(self, address: str, method: str, throttle_ms: int) -> None:
        """The peer asks to be left alone with this method for a while."""
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        if self.throttles.told(address, method, throttle_ms, now_ms):
            log.info("%s throttles %s: above a quota, waiting %d ms", address, method, throttle_ms)

    def check_hello(self, link: _Link, hello: link_pb2.Hello | None) -> None:
        """Raises `UnsupportedVersionError`, `WrongClusterError`, or `NetworkError` for no hello at all."""
        if hello is None:
            raise errors.NetworkError(f"{link.address} did not begin with a hello", address=link.address)
        check_versions(hello, link.address)
        check_cluster(self.cluster_id, hello.cluster_id, link.address)
        self.cluster_id = self.cluster_id or hello.cluster_id

    async def link_metadata(self, address: str) -> tuple[tuple[str, str | bytes], ...]:
        """Of a new link. Raises `AuthenticationError`: there is no token, or the way to the peer is no place for one."""
        if self.credentials is None:
            return self._metadata
        check_way(address, is_tls=self._tls is not None)
        return (*self._metadata, *await self.credentials.metadata())

    def explain_handshake(self, address: str, details: str) -> HandshakeFailure | None:
        """What gRPC's details of a connection that never came up mean, if they are about TLS."""
        return explain_handshake(
            address, details, self._tls.paths if self._tls is not None else None, self.options.tls_hints
        )

    def open_channel(self, address: str, connect_timeout_ms: int) -> grpc.aio.Channel:
        """A channel of its own for each link."""
        options = [
            ("grpc.max_send_message_length", self.options.max_message_bytes),
            ("grpc.max_receive_message_length", self.options.max_message_bytes),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", connect_timeout_ms),  # gRPC's name for the connect time-out
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),  # peers are inside the cluster
        ]
        if self._tls is None:
            channel = grpc.aio.insecure_channel(address, options=options)
        else:
            channel = grpc.aio.secure_channel(address, self._tls.credentials(), options=options)
        with contextlib.suppress(TypeError):  # should a grpcio's channels ever refuse weak references
            _live_channels.add(channel)
        return channel


def _time_out(link: _Link, call: _Call, timeout_ms: int) -> None:
    call.timer = None
    context: dict[str, Any] = {} if call.sent else {"unsent": "true"}
    call.fail(
        errors.RequestTimedOutError(
            f"{link.address} did not answer {call.frame.method} in {timeout_ms} ms", address=link.address, **context
        )
    )
    link.abandon(call)


def check_versions(hello: link_pb2.Hello, address: str) -> None:
    """Raises `UnsupportedVersionError` when the peer and this process have no protocol version in common."""
    if hello.protocol_min > PROTOCOL_MAX or hello.protocol_max < PROTOCOL_MIN:
        raise errors.UnsupportedVersionError(
            f"{address} speaks protocol {hello.protocol_min} to {hello.protocol_max}, this side {PROTOCOL_MIN} to "
            f"{PROTOCOL_MAX}: upgrade the older one",
            address=address,
            software=hello.software,
        )


def check_cluster(ours: str, theirs: str, address: str) -> None:
    """Raises `WrongClusterError` when both sides know their cluster, and not the same one."""
    if ours and theirs and ours != theirs:
        raise errors.WrongClusterError(
            f"{address} belongs to another cluster", address=address, expected=ours, found=theirs
        )
