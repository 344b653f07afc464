"""The server's end of a link, without any I/O: the hello, which requests are open, and what is said about each.

Rule 1: each request is answered by exactly one frame, unless the caller cancels it or the link ends: its answer, or its
        time-out. The answer of a handler that comes later is dropped.
Rule 2: a correlation id is taken until its answer has left, and one that timed out until its handler is done too: a request
        that is still worked on holds its place. Who uses an id twice breaks the protocol.
Rule 3: a goodbye drops nothing: what is open is still answered.
Rule 4: a peer that breaks the protocol gets the reason. Nothing more of it is looked at.

Who is let in, which requests are taken and when they start are questions for the shell. It looks at each event before it takes
the next one, and answers `Asked` by `refuse`, or later by `answer`. How else a shell uses it: see `link_core`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from oncelog import errors
from oncelog.link import link_codec, protocol
from oncelog.link.link_codec import Frame
from oncelog.link.link_core import NEVER_MS, ROUNDING_MS, LinkCore, error_frame
from oncelog.link.link_states import SERVER_TRANSITIONS, Incident, LinkState, Table
from oncelog.link.protocol import ENVELOPE_BYTES, LINK_ITSELF, PROTOCOL_MAX, PROTOCOL_MIN
from oncelog.v1 import link_pb2

_CALLER = "the caller"


class OpenRequest:
    """A request whose answer has not left. A shell adds what it needs in a class of its own."""

    __slots__ = ("correlation_id", "deadline_ms", "is_answered", "is_dropped", "is_expired", "size")

    def __init__(self, correlation_id: int, size: int, deadline_ms: float) -> None:
        self.correlation_id = correlation_id
        self.size = size
        self.deadline_ms = deadline_ms
        self.is_answered = False  # the handler is done
        self.is_dropped = False  # the caller does not wait for the answer
        self.is_expired = False  # the caller got the time-out; the handler still runs and holds its place


R = TypeVar("R", bound=OpenRequest)


class Greeted(NamedTuple):
    """A peer that speaks our protocol and is of our cluster: `challenge`, `welcome` or `refuse_link` it."""

    hello: link_pb2.Hello


class Proved(NamedTuple):
    """The peer's message of a password exchange; None when it sent something else."""

    message: bytes | None


class Asked(NamedTuple, Generic[R]):
    """A request."""

    request: R
    frame: Frame


class Cancelled(NamedTuple, Generic[R]):
    """The caller does not wait any more."""

    request: R


class Expired(NamedTuple, Generic[R]):
    """The caller's deadline has passed, and the caller gets that answer."""

    request: R


class Breached(NamedTuple):
    """The peer broke the protocol, and gets the reason: close the link when that has been sent. Before its hello:
    `refuse_link` it.
    """

    error: errors.InvalidRequestError


ServerEvent: TypeAlias = Greeted | Proved | Asked[R] | Cancelled[R] | Expired[R] | Breached


class ServerTerms(Protocol):
    """The hello and the bounds of all links of a server; read when needed, for the cluster may be learned late."""

    software: str
    cluster_id: str
    max_message_bytes: int
    default_timeout_ms: int
    """For requests that name none."""


class ServerCore(LinkCore[Frame], Generic[R]):
    """See the module. `make(correlation_id, size, deadline_ms)` makes the shell's kind of request.

    It has 25 methods of a few lines: one for each thing that the peer, a handler or the clock does, and its parts.
    """

    TABLE: ClassVar[Table] = SERVER_TRANSITIONS

    def __init__(
        self, terms: ServerTerms, make: Callable[[int, int, float], R], envelope_bytes: int = ENVELOPE_BYTES
    ) -> None:
        super().__init__(min(envelope_bytes, terms.max_message_bytes))
        self._terms = terms
        self._make = make
        self._is_challenged = False
        self._said_goodbye = False
        self._early: list[Frame] = []
        self._last_envelope: list[tuple[int, int]] = []
        self.requests: dict[int, R] = {}
        """Those whose id is taken."""
        self.outbox_bytes = 0
        """The bytes of answers that have not left."""

    @property
    def outbox_frames(self) -> int:
        """Answers that wait for their envelope."""
        return len(self._outbox)

    # ------------------------------------------------------------ hello

    def challenge(self, message: bytes) -> None:
        """A message of the password exchange, for the peer; its answer comes as `Proved`."""
        self._move(Incident.CHALLENGE)
        self._is_challenged = True
        self._greeting = link_codec.hello_envelope(self._hello(message))

    def welcome(self, proof: bytes = b"") -> None:
        """The link is open. `early` holds the frames that came with the hello. `proof`: the end of a password exchange."""
        self._move(Incident.WELCOME)
        self._greeting = link_codec.hello_envelope(self._hello(proof))
        if self._said_goodbye:
            self._move(Incident.GOODBYE)

    def refuse_link(self, error: errors.OncelogError) -> None:
        """Refuses the peer, and sends the reason."""
        self._move(Incident.REFUSAL)
        self._greeting = link_codec.encode_envelope([error_frame(LINK_ITSELF, error)])
        self._outbox.clear()

    def _hello(self, proof: bytes) -> link_pb2.Hello:
        terms = self._terms
        return link_pb2.Hello(
            protocol_min=PROTOCOL_MIN,
            protocol_max=PROTOCOL_MAX,
            software=terms.software,
            cluster_id=terms.cluster_id,
            authentication=proof,
        )

    def _on_hello(self, frames: list[Frame]) -> ServerEvent[R]:
        """Raises what refuses the peer."""
        if self._is_challenged:
            self._is_challenged = False
            hello = frames[0].hello if len(frames) == 1 else None
            return Proved(bytes(hello.authentication) if hello is not None else None)
        self._move(Incident.HELLO)
        hello = frames[0].hello if frames else None
        if hello is None:
            raise errors.InvalidRequestError("a link begins with a hello")
        protocol.check_versions(hello, _CALLER)
        protocol.check_cluster(self._terms.cluster_id, hello.cluster_id, _CALLER)
        self._early = frames[1:]
        return Greeted(hello)

    # ------------------------------------------------------------ in

    def receive(self, data: bytes, now_ms: float) -> Iterator[ServerEvent[R]]:
        """One envelope of the peer. Raises the `OncelogError` that refuses its hello: say it with `refuse_link`."""
        if self.state is LinkState.OVER:
            return  # a write failed, and what had arrived before is read only now
        try:
            frames = link_codec.decode_envelope(data)
        except errors.InvalidRequestError as error:
            yield Breached(error) if self.state is LinkState.HELLO else self._breached(error)
            return
        if self.state is LinkState.HELLO:
            yield self._on_hello(frames)
        else:
            yield from self._on_frames(frames, now_ms)

    def early(self, now_ms: float) -> Iterator[ServerEvent[R]]:
        """The frames that came in one envelope with the hello."""
        frames, self._early = self._early, []
        yield from self._on_frames(frames, now_ms)

    def _on_frames(self, frames: list[Frame], now_ms: float) -> Iterator[ServerEvent[R]]:
        for frame in frames:
            if frame.kind == link_codec.REQUEST:
                self._move(Incident.REQUEST)
                if frame.correlation_id in self.requests or frame.correlation_id == LINK_ITSELF:
                    yield self._breached(_used_twice(frame.correlation_id))
                    return
                yield Asked(self._opened(frame, now_ms), frame)
            elif frame.kind == link_codec.CANCEL:
                self._move(Incident.CANCEL)
                request = self.requests.get(frame.correlation_id)
                if request is not None:
                    request.is_dropped = True
                    yield Cancelled(request)

    def _opened(self, frame: Frame, now_ms: float) -> R:
        deadline_ms = now_ms + (frame.timeout_ms or self._terms.default_timeout_ms)
        request = self._make(frame.correlation_id, len(frame.header) + len(frame.payload), deadline_ms)
        self.requests[frame.correlation_id] = request
        self._wake_by(deadline_ms)
        return request

    def _breached(self, error: errors.InvalidRequestError) -> Breached:
        """Rule 4. The peer gets the reason after the answers that wait already."""
        self._move(Incident.BREACH)
        self._queue(error_frame(LINK_ITSELF, error))
        return Breached(error)

    def half_close(self) -> None:
        """The peer sends nothing more; it still takes answers, unless the link has ended."""
        if self.state is not LinkState.OVER:
            self._move(Incident.HALF_CLOSE)

    # ------------------------------------------------------------ answers

    def refuse(self, request: R, error: errors.OncelogError, throttle_ms: int = 0) -> None:
        """Instead of taking it: its id is free at once."""
        self._move(Incident.ANSWER)
        del self.requests[request.correlation_id]
        self._say(request.correlation_id, error, throttle_ms)

    def is_awaited(self, request: R) -> bool:
        """The handler is done. True: the caller waits for its `answer`; else `forget` the request."""
        request.is_answered = True
        return not (request.is_dropped or self.state is LinkState.OVER)

    def answer(self, request: R, answer: Frame | errors.OncelogError, throttle_ms: int = 0) -> None:
        """Sends the answer of the handler. `throttle_ms`: the caller is above a quota."""
        self._move(Incident.ANSWER)
        self._say(request.correlation_id, answer, throttle_ms)

    def forget(self, request: R) -> None:
        """Nothing will be said about the request: its id is free."""
        self.requests.pop(request.correlation_id, None)

    def goodbye(self, error: errors.OncelogError) -> None:
        """The peer is to use another link. It closes this one when it has all its answers."""
        self._move(Incident.GOODBYE)
        if self.state is not LinkState.OVER:
            self._said_goodbye = True
            self._say(LINK_ITSELF, error, 0)

    def _say(self, correlation_id: int, answer: Frame | errors.OncelogError, throttle_ms: int) -> None:
        if isinstance(answer, errors.OncelogError):
            frame = error_frame(correlation_id, answer, throttle_ms)
        else:
            frame = answer._replace(throttle_ms=throttle_ms) if throttle_ms else answer
        size = len(frame.header) + len(frame.payload)
        if size + link_codec.FRAME_OVERHEAD_BYTES > self._terms.max_message_bytes:
            frame = error_frame(
                correlation_id, errors.MessageTooLargeError("the answer does not fit into one message", bytes=size)
            )
        self._queue(frame)

    def _queue(self, frame: Frame) -> None:
        self._outbox.append(frame)
        self.outbox_bytes += len(frame.header) + len(frame.payload)

    # ------------------------------------------------------------ time and end

    def tick(self, now_ms: float) -> list[ServerEvent[R]]:
        """Times out requests, and returns the events of that. The shell calls it at `wake_at_ms`, or later."""
        if now_ms + ROUNDING_MS < self.wake_at_ms or self.state is LinkState.OVER:
            return []
        waited_for = [r for r in self.requests.values() if not (r.is_answered or r.is_dropped)]
        due = [request for request in waited_for if request.deadline_ms <= now_ms + ROUNDING_MS]
        for request in due:
            self._move(Incident.TIME_OUT)
            request.is_dropped = request.is_expired = True
            self._say(request.correlation_id, errors.RequestTimedOutError(), 0)
        left = (request.deadline_ms for request in waited_for if not request.is_dropped)
        self.wake_at_ms = min(left, default=NEVER_MS)
        return [Expired(request) for request in due]

    def end(self) -> None:
        """The stream has ended, so no answer can be sent. May be called any number of times."""
        self._move(Incident.END)
        self._outbox.clear()
        self._greeting = b""

    # ------------------------------------------------------------ out

    def data_to_send(self) -> bytes:
        """The next envelope; empty when nothing waits. `sent` comes when the stream has taken it."""
        if self._greeting:
            greeting, self._greeting = self._greeting, b""
            return greeting
        frames = self._gather()
        if not frames:
            return b""
        self._last_envelope = [(frame.correlation_id, len(frame.header) + len(frame.payload)) for frame in frames]
        return link_codec.encode_envelope(frames)

    def sent(self) -> list[R]:
        """The stream has taken the last envelope: requests that are done with it, whose ids are free now."""
        done: list[R] = []
        for correlation_id, size in self._last_envelope:
            self.outbox_bytes -= size
            request = self.requests.get(correlation_id)
            if request is not None and not request.is_expired:
                del self.requests[correlation_id]
                done.append(request)
        self._last_envelope = []
        return done

    def _frame_of(self, item: Frame) -> Frame | None:
        return item


def _used_twice(correlation_id: int) -> errors.InvalidRequestError:
    return errors.InvalidRequestError("a correlation id is used twice", correlation_id=correlation_id)
