"""Both ends of a link without a loop, back to back: what the tests of the cores share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.client_core import Answered, Call, ClientBounds, ClientCore, ClientEvent, Failed
from oncelog.link.link_codec import Frame
from oncelog.link.protocol import KnownCluster
from oncelog.link.server_core import Asked, Greeted, OpenRequest, ServerCore, ServerEvent
from oncelog.v1 import link_pb2

PING = "Toy.Ping"
ADDRESS = "server:1"
HELLO = link_codec.hello_envelope(link_pb2.Hello(protocol_min=1, protocol_max=1, cluster_id="ours"))


class Pending:
    """Who waits for an answer."""

    def __init__(self) -> None:
        self.is_done = False
        self.outcomes: list[bytes | errors.OncelogError] = []

    def done(self) -> bool:
        return self.is_done


@dataclass
class Terms:
    """Of a server."""

    software: str = "test"
    cluster_id: str = "ours"
    max_message_bytes: int = 1 << 20
    default_timeout_ms: int = 1_000


Client = ClientCore[Pending]
Server = ServerCore[OpenRequest]


def client(cluster_id: str = "", **bounds: int) -> Client:
    """A caller's end that has said its hello, which is dropped."""
    core: Client = ClientCore(ADDRESS, KnownCluster(cluster_id), ClientBounds(**bounds))
    core.greet("test", 0)
    core.data_to_send()
    return core


def open_client(**bounds: int) -> Client:
    """A caller's end that was welcomed."""
    core = client(**bounds)
    assert core.receive(HELLO) == []
    return core


def server(**terms: Any) -> Server:
    """A server's end that waits for a hello."""
    return ServerCore(Terms(**terms), OpenRequest)


def open_server(**terms: Any) -> Server:
    """A server's end that has welcomed its peer."""
    core = server(**terms)
    [event] = core.receive(HELLO, 0)
    assert isinstance(event, Greeted)
    core.welcome()
    core.data_to_send()
    return core


def ask(
    core: Client, header: bytes = b"", payload: bytes = b"", timeout_ms: int = 100, now_ms: float = 0
) -> Call[Pending]:
    """A call that begins now."""
    return core.request(Pending(), PING, header, payload, timeout_ms, now_ms)


def note(events: list[ClientEvent[Pending]]) -> list[ClientEvent[Pending]]:
    """Does what a shell does: each outcome reaches who waits for it."""
    for event in events:
        if isinstance(event, Answered | Failed) and not event.call.waiter.done():
            event.call.waiter.is_done = True
            event.call.waiter.outcomes.append(event.header if isinstance(event, Answered) else event.error)
    return events


def outcome(call: Call[Pending]) -> bytes | errors.OncelogError:
    """The one outcome of a call."""
    [found] = call.waiter.outcomes
    return found


def frames_of(core: Client | Server) -> list[Frame]:
    """All that it has to send."""
    found: list[Frame] = []
    while data := core.data_to_send():
        found += link_codec.decode_envelope(data)
    return found


def envelope(*frames: Frame) -> bytes:
    """The bytes of frames."""
    return link_codec.encode_envelope(frames)


def request(number: int, timeout_ms: int = 100, payload: bytes = b"") -> Frame:
    """A request frame."""
    return Frame(number, link_codec.REQUEST, PING, timeout_ms, header=b"%d" % number, payload=payload)


def reply(number: int, header: bytes = b"") -> Frame:
    """An answer."""
    return Frame(number, link_codec.REPLY, header=header)


def asked(events: Any) -> list[OpenRequest]:
    """The requests among the events."""
    return [event.request for event in events if isinstance(event, Asked)]


def told(core: Server, *frames: Frame, now_ms: float = 0) -> list[ServerEvent[OpenRequest]]:
    """What these frames mean to a server."""
    return list(core.receive(envelope(*frames), now_ms))
