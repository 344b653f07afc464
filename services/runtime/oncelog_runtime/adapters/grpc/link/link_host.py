"""The common part of all links of a server: its handlers and bounds, and the peers that are connected."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog.ports import Handler
from oncelog_runtime.adapters.grpc.half_messages import HalfMessages
from oncelog_runtime.adapters.grpc.link.link_observer import LinkMetrics, LinkObserver
from oncelog_runtime.core.arriving import Meter
from oncelog_runtime.core.listeners import CLIENT, EXTERNAL
from oncelog_runtime.core.shares import Shares
from oncelog_runtime.serving.quotas import Quotas

if TYPE_CHECKING:
    from oncelog_runtime.adapters.grpc.authentication import Authentication

MAX_LINKS_PER_CONNECTION: Final = 8
"""A client needs one for each service of the process; ours has one on each connection."""
MAX_GREETING_PER_PEER: Final = 128
"""Links of one address that have not been let in yet. Further ones are refused, and may come back."""


@dataclass(slots=True, eq=False)
class Visitor:
    """The peer of one link, as the counts know it. The link changes `peer` and `is_let_in` when the peer says who it is."""

    listener: str
    """Where it came in."""
    connection: str
    peer: str
    say_goodbye: Callable[[OncelogError], None]
    """Asks the peer to use another link."""
    is_let_in: bool = False


@dataclass(slots=True)
class LinkHost:
    """The common part of all links of a server."""

    handlers: dict[str, Handler]
    software: str
    cluster_id: str
    max_message_bytes: int
    max_requests_per_link: int
    max_bytes_per_link: int
    max_links: int
    default_timeout_ms: int
    shares: Shares
    max_links_per_peer: int
    quotas: Quotas
    observer: LinkObserver = field(default_factory=LinkObserver)
    """Follows each request of each link."""
    metrics: LinkMetrics = field(default_factory=LinkMetrics)
    authentication: Authentication | None = None
    """None: no peer is asked who it is."""
    stopping: bool = False
    links: dict[int, Visitor] = field(default_factory=dict)
    links_at: Counter[str] = field(default_factory=Counter)
    """By listener: a crowd of clients must not keep the other services out."""
    links_of: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By listener and peer: one peer must not keep the others out."""
    let_in: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The same, of those whose hello was accepted: streams without a hello take no place of theirs."""
    links_on: Counter[str] = field(default_factory=Counter)
    """By connection."""
    half_messages: HalfMessages | None = None
    running: set[asyncio.Task[None]] = field(default_factory=set)
    no_links: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.no_links.set()

    def meter(self, connection: str) -> Meter:
        """Where to count each whole message and each answer of a connection."""
        return self.half_messages.meter(connection) if self.half_messages is not None else Meter()

    def add(self, link: Visitor) -> None:
        """A link begins."""
        self.links[id(link)] = link
        self.links_at[link.listener] += 1
        self.links_of[link.listener, link.peer] += 1
        self.links_on[link.connection] += 1
        self.no_links.clear()

    def is_crowd(self, listener: str, connection: str, peer: str) -> bool:
        """Returns whether one more link would be too many to wait for its hello.

        Streams that all end at once are taken leave of one after the other, while all other peers wait: a connection, and an
        address that has not said its hellos, may hold few.
        """
        let_in, links = self.let_in[listener, peer], self.links_of[listener, peer]
        return (
            self.links_on[connection] >= MAX_LINKS_PER_CONNECTION
            or links - let_in >= MAX_GREETING_PER_PEER
            or links >= 2 * self.max_links_per_peer
        )

    def rename(self, link: Visitor, peer: str) -> None:
        """The peer of a link said who it is: it counts for that one, and no more for its address."""
        self._forget_peer(link)
        link.peer = peer
        self.links_of[link.listener, peer] += 1

    def remove(self, link: Visitor) -> None:
        """A link has ended."""
        del self.links[id(link)]
        self.links_at[link.listener] -= 1
        self._forget_peer(link)
        self.links_on[link.connection] -= 1
        if not self.links_on[link.connection]:
            del self.links_on[link.connection]
        if not self.links:
            self.no_links.set()

    def links_let_in(self, peer: str) -> int:
        """Returns the number of a client's links, at all listeners for clients."""
        return sum(self.let_in[name, peer] for name in (CLIENT, EXTERNAL))

    def _forget_peer(self, link: Visitor) -> None:
        key = (link.listener, link.peer)
        self.links_of[key] -= 1
        if link.is_let_in:
            self.let_in[key] -= 1
        if not self.links_of[key]:
            del self.links_of[key]
            self.let_in.pop(key, None)
