"""The caller's end of a link, without any I/O: its hello, its calls, and their outcomes when it ends.

Rule 1: each call has one outcome, in one event: `Answered` or `Failed`. A cancelled call has none.
Rule 2: a call that may have reached the peer when it fails has an unknown outcome. One that certainly did not says
        `unsent="true"`.
Rule 3: calls and their bytes in flight are bounded. A later call waits for room, in order. One that is larger than the bound
        goes when nothing else is in flight.
Rule 4: a goodbye of the peer ends no call that is open: their answers are due. Calls that wait for room fail as unsent,
        and with the last answer the link ends.
Rule 5: a correlation id names one call for as long as the link lives, so that a late answer never meets another call.

How a shell uses it: see `link_core`. The slow step of a password, the salting, is the shell's: it gets `Challenged` and
answers with `prove`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.link_codec import Frame
from oncelog.link.link_core import NEVER_MS, ROUNDING_MS, LinkCore, error_in
from oncelog.link.link_states import CLIENT_TRANSITIONS, Incident, LinkState, Table
from oncelog.link.protocol import ENVELOPE_BYTES, LINK_ITSELF, PROTOCOL_MAX, PROTOCOL_MIN, KnownCluster
from oncelog.types import Buffer
from oncelog.v1 import link_pb2

HELLO_TIMEOUT_MS: Final = 10_000


class Waiter(Protocol):
    """The waiting caller, for example a future. The core asks it only this."""

    def done(self) -> bool:
        """True when the caller does not wait any more."""
        ...


class PasswordExchange(Protocol):
    """The caller's side of a password exchange, but for its slow step."""

    def first(self) -> bytes:
        """The message of the first hello."""
        ...

    def check(self, server_final: bytes) -> None:
        """Raises `AuthenticationError` when the server does not prove that it knows the user."""
        ...


W = TypeVar("W", bound=Waiter)


class Call(Generic[W]):
    """One request, from `request` to its outcome."""

    __slots__ = (
        *("correlation_id", "deadline_ms", "frame", "holds_room", "is_over", "sent", "size", "timeout_ms"),
        "waiter",
    )

    def __init__(self, waiter: W, frame: Frame, timeout_ms: int, deadline_ms: float) -> None:
        self.waiter = waiter
        self.frame = frame
        self.correlation_id = frame.correlation_id
        self.size = len(frame.header) + len(frame.payload)
        self.timeout_ms = timeout_ms
        self.deadline_ms = deadline_ms
        self.holds_room = False
        self.sent = False  # the peer may have executed it
        self.is_over = False  # it has its outcome, or was cancelled


class Answered(NamedTuple, Generic[W]):
    """The peer's answer."""

    call: Call[W]
    header: bytes
    payload: Buffer


class Failed(NamedTuple, Generic[W]):
    """The peer's error, a time-out, or the end of the link. Each call gets an error object of its own."""

    call: Call[W]
    error: errors.OncelogError


class Throttled(NamedTuple):
    """The caller is above a quota: nothing more of this method for so long."""

    method: str
    throttle_ms: int


class Challenged(NamedTuple):
    """The server's message of a password exchange; `prove` takes the answer."""

    message: bytes


class Left(NamedTuple):
    """The peer goes away: new calls use another link."""


class Ended(NamedTuple):
    """The link has ended, and its stream can be closed. `was_up`: it had been open."""

    error: errors.OncelogError
    was_up: bool


ClientEvent: TypeAlias = Answered[W] | Failed[W] | Throttled | Challenged | Left | Ended


@dataclass(frozen=True, slots=True)
class ClientBounds:
    """The bounds of one link."""

    max_calls: int = 4096
    max_bytes: int = 64 << 20
    envelope_bytes: int = ENVELOPE_BYTES


class ClientCore(LinkCore[Call[W] | Frame], Generic[W]):
    """See the module. `address` is the peer's, for errors; `cluster` learns its id from the first peer that names one.

    It has 28 methods of a few lines: one for each thing that a caller, the peer or the clock does, and its parts.
    """

    TABLE: ClassVar[Table] = CLIENT_TRANSITIONS

    def __init__(self, address: str, cluster: KnownCluster, bounds: ClientBounds) -> None:
        super().__init__(bounds.envelope_bytes)
        self.address = address
        self._cluster = cluster
        self._bounds = bounds
        self._exchange: PasswordExchange | None = None
        self._is_proving = False
        self._hello_by_ms = NEVER_MS
        self._last_id = LINK_ITSELF
        self._open: dict[int, Call[W]] = {}
        self._bytes = 0
        self._waiting: deque[Call[W]] = deque()
        self._events: list[ClientEvent[W]] = []

    @property
    def calls_open(self) -> int:
        """Calls that may be with the peer, and hold room."""
        return len(self._open)

    def open_call(self, correlation_id: int) -> Call[W] | None:
        """The call that has this id, if it is open."""
        return self._open.get(correlation_id)

    @property
    def bytes_open(self) -> int:
        """Their bytes."""
        return self._bytes

    @property
    def calls_waiting(self) -> int:
        """Calls that wait for room, or for the link to open."""
        return len(self._waiting)

    # ------------------------------------------------------------ hello

    def greet(
        self, software: str, now_ms: float, mechanism: str = "", exchange: PasswordExchange | None = None
    ) -> None:
        """The stream is there: the first thing. `exchange`: prove a password by `mechanism`."""
        self._move(Incident.HELLO)
        hello = link_pb2.Hello(
            protocol_min=PROTOCOL_MIN, protocol_max=PROTOCOL_MAX, software=software, cluster_id=self._cluster.id
        )
        if exchange is not None:
            self._exchange = exchange
            hello.mechanism, hello.authentication = mechanism, exchange.first()
        self._greeting = link_codec.hello_envelope(hello)
        self._hello_by_ms = now_ms + HELLO_TIMEOUT_MS
        self._wake_by(self._hello_by_ms)

    def prove(self, message: bytes) -> None:
        """The caller's answer to `Challenged`."""
        self._move(Incident.CHALLENGE)
        self._is_proving = True
        self._greeting = link_codec.hello_envelope(link_pb2.Hello(authentication=message))

    def _on_hello(self, first: Frame | None) -> None:
        if first is not None and first.kind == link_codec.ERROR:
            self._finish_link(Incident.REFUSAL, error_in(first, self.address))
            return
        try:
            self._judge(first.hello if first is not None else None)
        except errors.OncelogError as error:
            self._finish_link(Incident.BREACH, error)

    def _judge(self, hello: link_pb2.Hello | None) -> None:
        """Raises what makes the peer no peer for us."""
        said = bytes(hello.authentication) if hello is not None else b""
        if self._is_proving:
            assert self._exchange is not None
            self._exchange.check(said)
        else:
            self._cluster.check(hello, self.address)
            if self._exchange is not None:
                self._challenged(said)
                return
        self._move(Incident.WELCOME)
        self._hello_by_ms = NEVER_MS
        self._admit_waiting()

    def _challenged(self, message: bytes) -> None:
        if not message:
            raise errors.AuthenticationError(
                f"{self.address} asks for no password: its cluster has no access rules, or this is not the listener for "
                "clients",
                address=self.address,
            )
        self._move(Incident.CHALLENGE)
        self._events.append(Challenged(message))

    # ------------------------------------------------------------ calls

    def request(
        self,
        waiter: W,
        method: str,
        header: bytes,
        payload: Buffer,
        timeout_ms: int,
        now_ms: float,
        traceparent: str = "",
    ) -> Call[W]:
        """Takes a call: it goes out now, or when the link is open and has room, after all earlier ones."""
        self._move(Incident.REQUEST)
        self._last_id += 1
        told_ms = max(1, min(timeout_ms, link_codec.MAX_TIMEOUT_MS))
        frame = Frame(self._last_id, link_codec.REQUEST, method, told_ms, traceparent, header, payload)
        call = Call(waiter, frame, timeout_ms, now_ms + timeout_ms)
        self._wake_by(call.deadline_ms)
        if self.state is LinkState.OPEN and not self._waiting and self._has_room(call):
            self._admit(call)
        else:
            self._waiting.append(call)
        return call

    def cancel(self, call: Call[W]) -> list[ClientEvent[W]]:
        """The caller no longer waits. Nothing happens to a call that has its outcome."""
        self._move(Incident.CANCEL)
        self._abandon(call)
        return self._told()

    def _abandon(self, call: Call[W]) -> None:
        if call.is_over:
            return
        if call.sent:
            self._outbox.append(Frame(call.correlation_id, link_codec.CANCEL))
        call.frame = call.frame._replace(payload=b"")  # it may stay in a queue for a while; its bytes need not
        self._finish(call)

    def _has_room(self, call: Call[W]) -> bool:
        if not self._open:
            return True
        bounds = self._bounds
        return len(self._open) < bounds.max_calls and self._bytes + call.size <= bounds.max_bytes

    def _admit(self, call: Call[W]) -> None:
        call.holds_room = True
        self._open[call.correlation_id] = call
        self._bytes += call.size
        self._outbox.append(call)

    def _admit_waiting(self) -> None:
        while self._waiting:
            call = self._waiting[0]
            if call.is_over or call.waiter.done():
                self._waiting.popleft()
            elif self._has_room(call):
                self._admit(self._waiting.popleft())
            else:
                return

    def _finish(self, call: Call[W]) -> None:
        """The call has its outcome: its room is for the next one."""
        call.is_over = True
        if call.holds_room:
            del self._open[call.correlation_id]
            self._bytes -= call.size
        if self._waiting and self.state is LinkState.OPEN:
            self._admit_waiting()
        if not self._open and self.state is LinkState.LEAVING:
            closed = errors.NetworkError(f"the link to {self.address} was closed", address=self.address)
            self._finish_link(Incident.LAST_ANSWER, closed)

    # ------------------------------------------------------------ in

    def receive(self, data: bytes) -> list[ClientEvent[W]]:
        """One envelope of the peer."""
        if self.state is LinkState.OVER:
            return []
        try:
            frames: Iterable[Frame] = link_codec.decode_envelope(data)
        except errors.InvalidRequestError:
            broken = errors.InvalidResponseError(f"{self.address} sent what cannot be parsed", address=self.address)
            self._finish_link(Incident.BREACH, broken)
            return self._told()
        if self.state is LinkState.HELLO:
            frames = iter(frames)
            self._on_hello(next(frames, None))
        if self.state is not LinkState.HELLO:  # else it is our turn to prove a password: what else came is no answer
            for frame in frames:
                self._on_frame(frame)
        return self._told()

    def _on_frame(self, frame: Frame) -> None:
        if frame.kind == link_codec.ERROR and frame.correlation_id == LINK_ITSELF:
            if self.state is not LinkState.OVER:
                self._leave(error_in(frame, self.address))
            return
        call = self._open.get(frame.correlation_id)
        if call is None:
            return  # it timed out or was cancelled here
        self._move(Incident.ANSWER)
        if frame.throttle_ms:
            self._events.append(Throttled(call.frame.method, frame.throttle_ms))
        if frame.kind == link_codec.REPLY:
            self._events.append(Answered(call, frame.header, frame.payload))
        elif frame.kind == link_codec.ERROR:
            self._events.append(Failed(call, error_in(frame, self.address)))
        else:
            return
        self._finish(call)

    def _leave(self, error: errors.OncelogError) -> None:
        """Rule 4."""
        self._move(Incident.GOODBYE)
        self._events.append(Left())
        for call in self._waiting:
            self._fail(call, error)
        self._waiting.clear()
        if not self._open:
            self._finish_link(Incident.LAST_ANSWER, error)

    # ------------------------------------------------------------ time and end

    def tick(self, now_ms: float) -> list[ClientEvent[W]]:
        """Times out calls and the hello, and returns the events. The shell calls it at `wake_at_ms`, or later."""
        if now_ms + ROUNDING_MS < self.wake_at_ms:
            return []
        if self._hello_by_ms <= now_ms + ROUNDING_MS and self.state is LinkState.HELLO:
            self._finish_link(
                Incident.SILENCE,
                errors.NetworkError(f"{self.address} did not answer the hello", address=self.address),
            )
        for call in [*self._open.values(), *self._waiting]:
            if call.deadline_ms <= now_ms + ROUNDING_MS and not (call.is_over or call.waiter.done()):
                self._time_out(call)
        deadlines = [call.deadline_ms for call in (*self._open.values(), *self._waiting) if not call.is_over]
        self.wake_at_ms = min(deadlines, default=NEVER_MS)
        if self.state is LinkState.HELLO:
            self._wake_by(self._hello_by_ms)
        return self._told()

    def _time_out(self, call: Call[W]) -> None:
        self._move(Incident.TIME_OUT)
        context: dict[str, Any] = {} if call.sent else {"unsent": "true"}
        text = f"{self.address} did not answer {call.frame.method} in {call.timeout_ms} ms"
        self._events.append(Failed(call, errors.RequestTimedOutError(text, address=self.address, **context)))
        self._abandon(call)

    def end(self, error: errors.OncelogError) -> list[ClientEvent[W]]:
        """The stream is gone, or is to go: every call fails with this error. Any number of times."""
        if self.state is LinkState.OVER:
            return []
        self._finish_link(Incident.END, error)
        return self._told()

    def _finish_link(self, incident: Incident, error: errors.OncelogError) -> None:
        was_up = self.state is not LinkState.HELLO
        self._move(incident)
        self._events.append(Ended(error, was_up))
        for call in [*self._open.values(), *self._waiting]:
            self._fail(call, error)
        self._open.clear()
        self._bytes = 0
        self._waiting.clear()
        self._outbox.clear()
        self._greeting = b""

    def _fail(self, call: Call[W], error: errors.OncelogError) -> None:
        """Without its room, which is given back for all at once."""
        if not call.is_over:
            call.is_over = True
            self._events.append(Failed(call, _for_one_call(error, call.sent)))

    def _told(self) -> list[ClientEvent[W]]:
        told, self._events = self._events, []
        return told

    # ------------------------------------------------------------ out

    def data_to_send(self) -> bytes:
        """The next envelope; empty when nothing waits. From here on the peer may execute what is in it."""
        if self._greeting:
            greeting, self._greeting = self._greeting, b""
            return greeting
        frames = self._gather()
        for frame in frames:
            if frame.kind == link_codec.REQUEST:
                self._open[frame.correlation_id].sent = True
        return link_codec.encode_envelope(frames) if frames else b""

    def _frame_of(self, item: Call[W] | Frame) -> Frame | None:
        if isinstance(item, Frame):
            return item
        if item.is_over or item.waiter.done():
            return None  # its caller has gone, and the peer never got it
        return item.frame


def _for_one_call(error: errors.OncelogError, sent: bool) -> errors.OncelogError:
    """An error object for one call: a traceback grows on each. `unsent` stands in it unless the peer may have executed it."""
    context = {**error.context} if sent else {**error.context, "unsent": "true"}
    return type(error)(error.message, retry_after_ms=error.retry_after_ms, **context)
