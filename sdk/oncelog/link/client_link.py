"""One link of a `GrpcTransport`: the shell of `client_core.ClientCore`. Its stream, its tasks and its timer are here.

Rules 1 to 3 of `grpc_transport` are kept here, rules 4 and 5 by the core and the transport. Nothing here decides anything of
the protocol: what the core says is done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NotRequired, Protocol, TypeAlias, TypedDict

import grpc.aio

from oncelog import errors
from oncelog.core.scram import ScramClient
from oncelog.link import client_core
from oncelog.link.client_core import Answered, Challenged, ClientBounds, ClientCore, Ended, Failed, Left, Throttled
from oncelog.link.credentials import Credentials
from oncelog.link.grpc_reach import explain_connect
from oncelog.link.grpc_tls import SDK_HINTS, HandshakeFailure, TlsHints
from oncelog.link.link_core import NEVER_MS
from oncelog.link.link_states import LinkState
from oncelog.link.protocol import ENVELOPE_BYTES, KnownCluster
from oncelog.types import Buffer

_STATUS_WAIT_S: Final = 0.1
_TICK_MIN_S: Final = 0.001
"""uvloop rounds to milliseconds: a timer of less would run again and again until its time has come."""

Answer: TypeAlias = asyncio.Future[tuple[bytes, Buffer]]
Call: TypeAlias = client_core.Call[Answer]
Event: TypeAlias = client_core.ClientEvent[Answer]


class _Where(TypedDict):
    """The context of an error that ends a stream."""

    address: str
    status: str
    tls: NotRequired[str]


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


class Links(Protocol):
    """The part of a transport that its links need."""

    @property
    def options(self) -> GrpcOptions:
        """The bounds of each link."""
        ...

    @property
    def cluster(self) -> KnownCluster:
        """The one cluster whose peers are spoken to."""
        ...

    @property
    def credentials(self) -> Credentials | None:
        """They say who this process is; None: it says nothing."""
        ...

    def open_channel(self, address: str, connect_timeout_ms: int) -> grpc.aio.Channel:
        """A channel of the link's own."""
        ...

    async def link_metadata(self, address: str) -> tuple[tuple[str, str | bytes], ...]:
        """Returns the metadata of a new link. Raises `AuthenticationError`."""
        ...

    def explain_handshake(self, address: str, details: str) -> HandshakeFailure | None:
        """Explains gRPC's details of a connection that never came up, if they are about TLS."""
        ...

    def throttled(self, address: str, method: str, throttle_ms: int) -> None:
        """The peer asks to be left alone with this method for a while."""
        ...

    def forget(self, link: Link, *, failed: bool, refused: bool) -> None:
        """The link takes no new calls. `failed`: it never came up."""
        ...


class Link:
    """One stream to one service of one peer. All methods run on the loop; none of them but `_run` waits."""

    def __init__(self, transport: Links, address: str, service: str, pause_s: float, timeout_ms: int) -> None:
        self.transport = transport
        self.address = address
        self.service = service
        options = transport.options
        envelope_bytes = min(ENVELOPE_BYTES, options.max_message_bytes)
        bounds = ClientBounds(options.max_calls_in_flight, options.max_bytes_in_flight, envelope_bytes)
        self.core: ClientCore[Answer] = ClientCore(address, transport.cluster, bounds)
        self._connect_timeout_ms = timeout_ms
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER_MS
        self.task = self._loop.create_task(self._run(pause_s))

    # ------------------------------------------------------------ callers

    def request(
        self, answer: Answer, method: str, header: bytes, payload: Buffer, timeout_ms: int, traceparent: str
    ) -> Call:
        """Takes a call; it goes out when the link is up and has room, after all earlier ones."""
        core = self.core
        call = core.request(answer, method, header, payload, timeout_ms, self._loop.time() * 1000, traceparent)
        self._after_a_step()
        return call

    def abandon(self, call: Call) -> None:
        """The caller no longer waits."""
        self._do(self.core.cancel(call))

    def _do(self, events: Iterable[Event]) -> None:
        """Handles the events of the core."""
        for event in events:
            if isinstance(event, Answered):
                if not event.call.waiter.done():
                    event.call.waiter.set_result((event.header, event.payload))
            elif isinstance(event, Failed):
                if not event.call.waiter.done():
                    event.call.waiter.set_exception(event.error)
            elif isinstance(event, Throttled):
                self.transport.throttled(self.address, event.method, event.throttle_ms)
            elif isinstance(event, Left):
                self.transport.forget(self, failed=False, refused=False)
            elif isinstance(event, Ended):
                self._hang_up(event)
        self._after_a_step()

    def _after_a_step(self) -> None:
        """Wakes the writer, and sets the timer, if there is a reason to."""
        if self.core.has_output:
            self._wake.set()
        if self.core.wake_at_ms < self._timer_ms and self.core.state is not LinkState.OVER:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = self.core.wake_at_ms
            wait_s = max(self._timer_ms / 1000 - self._loop.time(), _TICK_MIN_S)
            self._timer = self._loop.call_later(wait_s, self._tick)

    def _tick(self) -> None:
        self._timer, self._timer_ms = None, NEVER_MS
        self._do(self.core.tick(self._loop.time() * 1000))

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
            self._writer = self._loop.create_task(self._write(stream))
            while self.core.state is not LinkState.OVER:
                data = await _read(stream)  # kept until the next one is there: freed at once, it costs 15 % at 64 KiB
                self._do(self.core.receive(data))
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

    async def _greet(self, stream: grpc.aio.StreamStreamCall) -> None:
        credentials, now_ms = self.transport.credentials, self._loop.time() * 1000
        scram = None
        if credentials is not None and credentials.mechanism:
            scram = credentials.exchange()
            self.core.greet(self.transport.options.software, now_ms, credentials.mechanism, scram)
        else:
            self.core.greet(self.transport.options.software, now_ms)
        self._after_a_step()
        while self.core.state is LinkState.HELLO:
            await stream.write(self.core.data_to_send())
            events = self.core.receive(await _read(stream))
            self._do(events)
            for event in events:
                if isinstance(event, Challenged):
                    assert credentials is not None
                    assert scram is not None
                    self.core.prove(await _proof(credentials, scram, event.message))

    async def _explain(self, stream: grpc.aio.StreamStreamCall | None, error: BaseException) -> errors.OncelogError:
        """Returns the reason why the stream ended, as a `NetworkError`."""
        status, details = "", str(error)
        if stream is not None and not stream.done() and self.core.state is LinkState.HELLO:
            await _status_of(stream)
        if stream is not None and stream.done():
            code = await stream.code()
            status, details = getattr(code, "name", str(code)), await stream.details() or ""
        context: _Where = {"address": self.address, "status": status}
        is_new = self.core.state is LinkState.HELLO
        if is_new and ("Connection refused" in details or "actively refused" in details):
            return errors.NetworkError(f"no process listens at {self.address}", refused="true", **context)
        if is_new and (failure := self.transport.explain_handshake(self.address, details)) is not None:
            context["tls"] = "refused" if failure.certain else "maybe"
            return errors.NetworkError(failure.sentence, **context)
        if is_new and (failed := explain_connect(details)) is not None:
            return errors.NetworkError(failed.sentence, connect=failed.kind, **context)
        return errors.NetworkError(f"the link to {self.address} broke: {details or type(error).__name__}", **context)

    def end(self, error: errors.OncelogError) -> None:
        """Ends the link: every call fails, the tasks stop. May be called any number of times."""
        self._do(self.core.end(error))

    def _hang_up(self, ended: Ended) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.transport.forget(self, failed=not ended.was_up, refused="refused" in ended.error.context)
        if self.task is not asyncio.current_task():
            self.task.cancel()

    async def closed(self) -> None:
        """Waits until both tasks have ended."""
        await asyncio.gather(*(t for t in (self.task, self._writer) if t is not None), return_exceptions=True)

    async def _write(self, stream: grpc.aio.StreamStreamCall) -> None:
        """The one writer of the stream."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while data := self.core.data_to_send():
                    await stream.write(data)
        except (Exception, asyncio.CancelledError) as error:
            self.end(await self._explain(stream, error))
            if isinstance(error, asyncio.CancelledError):
                raise


async def _status_of(stream: grpc.aio.StreamStreamCall) -> None:
    """Waits a moment: a failed write is known a little earlier than the status that explains it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STATUS_WAIT_S):
            await stream.code()


async def _read(stream: grpc.aio.StreamStreamCall) -> bytes:
    data: bytes = await stream.read()
    if data is grpc.aio.EOF:
        raise EOFError
    return data


async def _proof(credentials: Credentials, scram: ScramClient, challenge: bytes) -> bytes:
    """Raises `AuthenticationError`."""
    salt, iterations = scram.challenge(challenge)
    return scram.final(challenge, await credentials.salted(salt, iterations))
