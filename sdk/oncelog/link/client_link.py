"""One link of a `GrpcTransport`: its stream, the calls on it, and what ends it.

Rules 1 to 4 of `grpc_transport` are kept here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import grpc.aio
from google.protobuf.message import DecodeError

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.credentials import Credentials
from oncelog.link.grpc_reach import explain_connect
from oncelog.link.link_codec import Frame
from oncelog.link.protocol import ENVELOPE_BYTES, LINK_ITSELF, PROTOCOL_MAX, PROTOCOL_MIN
from oncelog.types import Buffer
from oncelog.v1 import errors_pb2, link_pb2
from oncelog.wire.wire_errors import from_detail

if TYPE_CHECKING:
    from oncelog.link.grpc_transport import GrpcTransport

_HELLO_TIMEOUT_S: Final = 10.0
_STATUS_WAIT_S: Final = 0.1


class Call:
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


class Link:
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
        self._open: dict[int, Call] = {}
        self._bytes = 0
        self._waiting: deque[Call] = deque()
        self._outbox: deque[Call | Frame] = deque()
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self.task = asyncio.get_running_loop().create_task(self._run(pause_s))

    # ------------------------------------------------------------ callers

    def submit(self, call: Call) -> None:
        """Takes a call; it starts now, or when the link is up and has room, after all earlier ones."""
        if self._ready and not self._waiting and self._has_room(call):
            self._admit(call)
        else:
            self._waiting.append(call)

    def abandon(self, call: Call) -> None:
        """The caller no longer waits."""
        if call.sent and call.correlation_id in self._open:
            self._outbox.append(Frame(call.correlation_id, link_codec.CANCEL))
            self._wake.set()
        call.frame = call.frame._replace(payload=b"")  # it may stay in a queue for a while; its bytes need not
        self._finish(call)

    def _has_room(self, call: Call) -> bool:
        if not self._open:
            return True
        options = self._options
        return len(self._open) < options.max_calls_in_flight and self._bytes + call.size <= options.max_bytes_in_flight

    def _admit(self, call: Call) -> None:
        call.admitted = True
        self._open[call.correlation_id] = call
        self._bytes += call.size
        self._outbox.append(call)
        self._wake.set()

    def _finish(self, call: Call) -> None:
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
            if self.task.cancelling():
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
        if self.task is not asyncio.current_task():
            self.task.cancel()

    async def closed(self) -> None:
        """Waits until both tasks have ended."""
        await asyncio.gather(*(t for t in (self.task, self._writer) if t is not None), return_exceptions=True)

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
            if isinstance(item, Call) and item.future.done():
                self._outbox.popleft()  # nobody waits for it any more, and the peer never heard of it
                continue
            frame = item if isinstance(item, Frame) else item.frame
            total += len(frame.header) + len(frame.payload) + link_codec.USUAL_OVERHEAD_BYTES
            if frames and total > self._envelope_bytes:
                break
            frames.append(frame)
            self._outbox.popleft()
            if isinstance(item, Call):
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
