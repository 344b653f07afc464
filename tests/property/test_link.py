"""Two ends of a link, whatever happens to it: each call gets one answer, or one named error, and nobody else's.

Envelopes are split and joined anywhere between frames, both directions run at their own pace, answers come in any order, calls
are cancelled and time out, the server says goodbye, and the link is cut with anything under way.
"""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.client_core import Call, ClientBounds, ClientCore, Ended, Left
from oncelog.link.link_codec import Frame
from oncelog.link.link_states import LinkState
from oncelog.link.protocol import KnownCluster
from oncelog.link.server_core import Asked, Breached, Greeted, OpenRequest, ServerCore
from tests.unit.sdk.link.link_ends import ADDRESS, PING, Pending, Terms, note

OFTEN = ("call", "send", "arrive_up", "arrive_down", "answer")
RARELY = ("cancel", "refuse", "tick", "goodbye", "cut")
STEPS = st.lists(
    st.tuples(st.sampled_from(3 * OFTEN + RARELY), st.integers(0, 300), st.booleans()), min_size=10, max_size=60
)
"""What happens, a number, and a choice."""


class World:
    """Two cores, and what is on the wire between them, a frame for each piece."""

    def __init__(self, is_open: bool = True) -> None:
        self.now_ms = 0.0
        self.client: ClientCore[Pending] = ClientCore(ADDRESS, KnownCluster(), ClientBounds(3, 400, 700))
        self.server: ServerCore[OpenRequest] = ServerCore(Terms(), OpenRequest, 700)
        self.to_server: deque[bytes] = deque()
        self.to_client: deque[bytes] = deque()
        self.calls: list[Call[Pending]] = []
        self.cancelled: list[Call[Pending]] = []
        self.running: list[tuple[OpenRequest, bytes]] = []
        self.executed: list[bytes] = []
        self.takes_calls = True
        self.client.greet("test", 0)
        if is_open:
            self.deliver()

    # ------------------------------------------------------------ what may happen

    def call(self, size: int, is_patient: bool) -> None:
        """A caller comes, if the link takes calls."""
        if self.takes_calls:
            name, timeout_ms = b"%d" % len(self.calls), 1_000 if is_patient else 1 + size % 50
            self.calls.append(self.client.request(Pending(), PING, name, bytes(size), timeout_ms, self.now_ms))

    def send(self, _: int, is_joined: bool) -> None:
        """Both ends put out what they have: as it is, or frame by frame."""
        for core, wire in ((self.client, self.to_server), (self.server, self.to_client)):
            while data := core.data_to_send():
                wire.extend([data] if is_joined else _split(data))
                if core is self.server:
                    self.server.sent()

    def arrive_up(self, count: int, is_much: bool) -> None:
        """Some of what is under way to the server arrives, as one message."""
        data = _some_of(self.to_server, count, is_much)
        if data and self.server.state is not LinkState.OVER:
            self._serve(data)

    def arrive_down(self, count: int, is_much: bool) -> None:
        """Some of what is under way to the caller arrives, as one message."""
        data = _some_of(self.to_client, count, is_much)
        if data:
            self.hear(self.client.receive(data))

    def cancel(self, which: int, _: bool) -> None:
        """A caller gives up."""
        open_calls = [call for call in self.calls if not call.waiter.done()]
        if open_calls:
            call = open_calls[which % len(open_calls)]
            call.waiter.is_done = True
            self.cancelled.append(call)
            self.hear(self.client.cancel(call))

    def answer(self, which: int, _: bool) -> None:
        """A handler is done."""
        if self.running:
            request, name = self.running.pop(which % len(self.running))
            if self.server.is_awaited(request):
                self.server.answer(request, Frame(request.correlation_id, link_codec.REPLY, header=name))
            else:
                self.server.forget(request)

    def refuse(self, which: int, _: bool) -> None:
        """A handler fails."""
        if self.running:
            request, _name = self.running.pop(which % len(self.running))
            if self.server.is_awaited(request):
                self.server.answer(request, errors.NotEnoughReplicasError())
            else:
                self.server.forget(request)

    def tick(self, ms: int, _: bool) -> None:
        """Time passes."""
        self.now_ms += ms / 5
        self.hear(self.client.tick(self.now_ms))
        self.server.tick(self.now_ms)

    def goodbye(self, *_: object) -> None:
        """The server goes away."""
        self.server.goodbye(errors.ShuttingDownError())

    def cut(self, *_: object) -> None:
        """The link breaks for the caller. What is under way to the server arrives there yet, or never."""
        self.hear(self.client.end(errors.NetworkError("cut")))
        self.to_client.clear()

    # ------------------------------------------------------------ what follows

    def hear(self, events: list[object]) -> None:
        """As the shell does it."""
        note(events)  # type: ignore[arg-type]
        self.takes_calls = self.takes_calls and not any(isinstance(event, Ended | Left) for event in events)

    def _serve(self, data: bytes) -> None:
        for event in self.server.receive(data, self.now_ms):
            assert not isinstance(event, Breached), "our own client never breaks the protocol"
            self._on(event)
        for event in self.server.early(self.now_ms):
            self._on(event)

    def _on(self, event: object) -> None:
        if isinstance(event, Greeted):
            self.server.welcome()
        elif isinstance(event, Asked):
            self.running.append((event.request, event.frame.header))
            self.executed.append(event.frame.header)

    def deliver(self) -> None:
        """All that waits to be said goes there, and all that this calls for comes back."""
        self.send(0, True)
        self.arrive_up(0, True)
        self.send(0, True)
        self.arrive_down(0, True)

    def finish(self) -> None:
        """Everything comes to its end without a fault."""
        for _ in range(3 * len(self.calls) + 5):
            self.deliver()
            while self.running:
                self.answer(0, True)


def _some_of(wire: deque[bytes], count: int, is_much: bool) -> bytes:
    taken = len(wire) if is_much else min(1 + count % 5, len(wire))
    return b"".join(wire.popleft() for _ in range(taken))


def _split(data: bytes) -> list[bytes]:
    """An envelope is a list of frames: each of them alone is one too, and joined they are the first again."""
    pieces = []
    while data:
        size, at = link_codec._read_varint(data, 1)
        pieces.append(data[: at + size])
        data = data[at + size :]
    return pieces


@settings(max_examples=300, deadline=None)
@given(STEPS, st.booleans())
def test_each_call_gets_one_answer_of_its_own_or_one_named_error(
    steps: list[tuple[str, int, bool]], is_open: bool
) -> None:
    world = World(is_open)
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
    world.finish()
    assert len(world.executed) == len(set(world.executed)), "a request runs once"
    for number, call in enumerate(world.calls):
        name = b"%d" % number
        if call in world.cancelled:
            assert call.waiter.outcomes == []
            continue
        [found] = call.waiter.outcomes
        if isinstance(found, bytes):
            assert found == name
            assert name in world.executed
        elif found.context.get("unsent") == "true":
            assert name not in world.executed, "what certainly was not sent was not executed"
    if world.client.state is not LinkState.OVER:
        assert (world.client.calls_open, world.client.bytes_open, world.client.calls_waiting) == (0, 0, 0)
        assert world.server.requests == {}


@settings(max_examples=50, deadline=None)
@given(STEPS, STEPS)
def test_a_server_that_says_goodbye_loses_no_answer(
    steps: list[tuple[str, int, bool]], later: list[tuple[str, int, bool]]
) -> None:
    """Without cuts and time-outs, each call is answered, refused, or was never sent."""
    world = World()
    for name, *arguments in [*steps, ("goodbye", 0, False), *later]:
        if name not in ("cut", "tick"):
            getattr(world, name)(*arguments)
    world.finish()
    for call in world.calls:
        if call not in world.cancelled:
            [found] = call.waiter.outcomes
            assert isinstance(found, bytes | errors.NotEnoughReplicasError) or found.context["unsent"] == "true"
