"""A simulated network: it carries envelopes between the two ends of links, which are the ones of production.

Each call travels as bytes: out of a `ClientCore` (`sim.transport`), through this wire, into a `ServerCore` (`sim.server`).

Rule 1: only bytes travel, so no object is ever shared between two nodes.
Rule 2: a link (one client, one address, one service) is two streams. Each delivers its envelopes in their order, and what comes
        after a lost envelope is lost too, until the link breaks, as TCP would have it. Links know nothing of each other, so
        that they overtake one another.
Rule 3: a link that breaks may still deliver the first of the envelopes that were under way to the server. Copies of requests
        (duplicates, replays) come by links of their own, as if an older connection had delivered them late.
Rule 4: an answer travels as an event of the *caller's* life: it waits while the caller is paused, and vanishes when
        it is dead. Everything else on the wire belongs to the world.
Rule 5: `refused="true"` is only said when no request of the link can have been executed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from zlib import crc32

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.client_core import ClientBounds
from oncelog.link.link_codec import Frame
from oncelog.v1 import link_pb2
from oncelog_runtime.config.startup_error import AddressInUseError
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.loop import Life, SimFuture, SimLoop
from oncelog_runtime.sim.server import Served, ServerEnd, SimServer
from oncelog_runtime.sim.transport import ClientEnd, Reply, SimCall, SimTransport

_BOUNDS = ClientBounds(max_calls=64, max_bytes=64 << 10, envelope_bytes=8 << 10)
"""Small, so that calls wait for room and envelopes become full."""
_HELLO = link_codec.hello_envelope(link_pb2.Hello(protocol_min=1, protocol_max=1))


def host_of(address: str) -> str:
    """The node's name in an address."""
    return address.rpartition(":")[0] or address


class Stream:
    """One direction of a link: envelopes under way, in their order."""

    __slots__ = ("last_arrival", "under_way")

    def __init__(self, now: float) -> None:
        self.under_way: deque[bytes] = deque()
        self.last_arrival = now

    def put(self, data: bytes, arrival: float) -> float:
        """One more; returns when it arrives: not before the ones that left before it."""
        self.under_way.append(data)
        self.last_arrival = max(self.last_arrival, arrival)
        return self.last_arrival

    def take(self) -> bytes | None:
        """The next one; None when it was lost."""
        return self.under_way.popleft() if self.under_way else None


class SimLink:
    """A connection from one process to one service at one address."""

    def __init__(self, network: SimNetwork, client: SimTransport, address: str, service: str) -> None:
        self._network = network
        self.client = client
        self.address = address
        self.service = service
        self.is_open = True
        self.is_silent = False  # what is sent is lost
        self.is_peaceful = False  # the caller closed it
        self.up, self.down = Stream(network.loop.time()), Stream(network.loop.time())
        self.late: deque[tuple[str, ...]] = deque()
        """The methods in each envelope that still arrives after the link broke."""
        self.server_end: ServerEnd | None = None
        self.client_end = ClientEnd(client, self, network)

    # ------------------------------------------------------------ for the caller's end

    def request(self, call: SimCall) -> None:
        """Takes a call."""
        self.client_end.request(call)

    def carry_up(self, data: bytes) -> None:
        """Sends an envelope to the server."""
        self._network.carry_up(self, data)

    def take_down(self) -> bytes | None:
        """The next envelope of the server; None when it was lost."""
        return self.down.take()

    def forget(self) -> None:
        """It takes no more calls."""
        self._network.forget_link(self)

    def hang_up(self) -> None:
        """The caller is done with it."""
        self._network.hang_up(self)

    # ------------------------------------------------------------ for the server's end

    def carry_down(self, data: bytes) -> None:
        """Sends an envelope to the caller."""
        self._network.carry_down(self, data)

    def future_of(self, correlation_id: int) -> SimFuture[Reply]:
        """The caller's future of a request; a cancelled one when the caller has given up."""
        return self.client_end.future_of(correlation_id)


class SimNetwork:
    """All links, listeners and cuts. `plan` may be replaced while running.

    It has some 40 methods: what tests cut and heal, the way of an envelope to a peer and back, and each fault on it.
    """

    def __init__(self, loop: SimLoop, random: Random, plan: FaultPlan | None = None) -> None:
        self.loop = loop
        self.plan = plan or FaultPlan()
        self.never_copied: frozenset[str] = frozenset()
        """Methods that are exempt from duplicates and replays."""
        self.repeated: frozenset[str] = frozenset()
        """Methods whose requests are delivered again much later with the probability `repeat`, whatever the plan says."""
        self.repeat = 0.0
        self.damage: Callable[[str, bytes], bytes] = lambda method, payload: payload
        """Changes the payload of a request (method, payload) on its way."""
        self.principal_of: Callable[[str], str] = lambda host: f"User:{host}"
        self.bounds = _BOUNDS
        self._copies: Counter[str] = Counter()
        self._random = random
        self._listeners: dict[str, SimServer] = {}
        self._links: dict[SimLink, None] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._silent: dict[str, None] = {}

    def transport(self, host: str, life: Life | None = None) -> SimTransport:
        """A client's ports; tests use one with `life` None."""
        return SimTransport(self, host, life)

    def server(self, address: str, life: Life | None = None, more: Mapping[str, str] | None = None) -> SimServer:
        """A server that will listen at `address` (host:port; the host is the node's name).

        `more`: listener name to address, of the same node.
        """
        return SimServer(self, address, life, more or {})

    # ------------------------------------------------------------ faults on command

    def partition(self, left: Sequence[str], right: Sequence[str], *, one_way: bool = False) -> None:
        """Nothing gets from `left` to `right`, nor back unless `one_way`. Links break after `silent_break_ms`."""
        for a in left:
            for b in right:
                self._cuts[a, b] = None
                if not one_way:
                    self._cuts[b, a] = None
        self.loop.trace(f"partition {left} {right} {one_way}")

    def heal(self) -> None:
        """Ends all partitions; links that stalled meanwhile still have to break first."""
        self._cuts.clear()

    def is_connected(self, a: str, b: str) -> bool:
        """No partition is between these hosts, in neither direction."""
        return (a, b) not in self._cuts and (b, a) not in self._cuts

    def break_links(self, a: str, b: str | None = None) -> None:
        """Breaks all links of host `a` (with host `b`)."""
        for link in list(self._links):
            ends = {link.client.host, host_of(link.address)}
            if a in ends and (b is None or b in ends):
                self.break_link(link)

    def unplug(self, host: str, life: Life, *, silent: bool) -> None:
        """The process died: with it its host (`silent`: no peer learns of it), or alone (its peers' links break now)."""
        for server in [s for s in self._listeners.values() if s.life is life]:
            self.unlisten(server, refuse=not silent)
        for link in list(self._links):
            if link.client.life is life:
                self.break_link(link)
        if silent:
            self._silent[host] = None

    def plug(self, host: str) -> None:
        """The host is there again: connections to it are refused or accepted, not swallowed."""
        self._silent.pop(host, None)

    # ------------------------------------------------------------ listening

    def listen(self, server: SimServer) -> None:
        """Raises `AddressInUseError` when the address is taken."""
        for address in server.listening.values():
            if address in self._listeners:
                raise AddressInUseError("the address is in use", address=address)
        for address in server.listening.values():
            self._listeners[address] = server

    def unlisten(self, server: SimServer, *, refuse: bool) -> None:
        """Stops to listen at the address; `refuse`: links to it break at once, else they fall silent."""
        if self._listeners.get(server.address) is not server:
            return
        for address in server.listening.values():
            del self._listeners[address]
        for link in list(self._links):
            if link.server_end is not None and link.server_end.server is server:
                if refuse:
                    self._later(self._random.random() / 1000, self.break_link, link)
                    link.is_silent = True
                else:
                    self._fall_silent(link)

    # ------------------------------------------------------------ requests

    def send(self, client: SimTransport, address: str, call: SimCall) -> None:
        """Puts a request on the link, which is opened if there is none."""
        key = (address, call.method.partition(".")[0])
        link = client.links.get(key)
        if link is None:
            client.links[key] = link = opened = SimLink(self, client, *key)
            self._links[opened] = None
        call.link = link
        link.request(call)
        self._copy(address, call)

    def forget(self, call: SimCall) -> None:
        """The caller has its answer, or waits no more."""
        link, call.link = call.link, None
        if link is None or call.on_link is None:
            return
        assert isinstance(link, SimLink)  # `send` has put the call on it
        if link.server_end is not None and not call.on_link.is_over:
            self._cancel_handler(link.server_end.core.requests.get(call.on_link.correlation_id))
        link.client_end.abandon(call)

    def _cancel_handler(self, request: Served | None) -> None:
        if request is not None and request.task is not None and self._hits("cancel_handler"):
            request.task.cancel()

    def damaged(self, method: str, payload: bytes) -> bytes:
        """Returns a request's payload as it arrives, after `damage`."""
        return self.damage(method, payload)

    # ------------------------------------------------------------ envelopes

    def carry_up(self, link: SimLink, data: bytes) -> None:
        """Takes an envelope of the caller. The first one of a link waits until there is a connection."""
        delay = self._delay()
        if link.server_end is None and not link.up.under_way:
            delay += self._delay() + self._delay()
        if self._hits("break_link"):
            self._later(0.0, self.break_link, link)
        elif self._is_cut(link.client.host, link.address) or self._hits("stall_link"):
            self._fall_silent(link)
        if link.is_open and not link.is_silent:
            arrival = link.up.put(data, self.loop.time() + delay)
            self.loop.call_at(arrival, self._arrive_up, link, context=self.loop.world)

    def _arrive_up(self, link: SimLink) -> None:
        data = link.up.take()
        if data is None:
            return
        if not link.is_open:
            self._arrive_late(link, data)
        elif self._is_cut(link.client.host, link.address):
            link.up.under_way.clear()
            self._fall_silent(link)
        elif self._connected(link):
            assert link.server_end is not None
            link.server_end.arrive(data)

    def _connected(self, link: SimLink) -> bool:
        """False when no server listens at the address, and the link breaks."""
        if link.server_end is None:
            server = self._listeners.get(link.address)
            if server is None:
                self.break_link(link, refused=True)
                return False
            link.server_end = ServerEnd(server, self, link.address, link.client.host, link)
        return True

    def carry_down(self, link: SimLink, data: bytes) -> None:
        """Takes an envelope of the server."""
        delay = self._delay()
        if (host_of(link.address), link.client.host) in self._cuts or self._hits("stall_link"):
            self._fall_silent(link)
        elif self._hits("lose_reply"):
            self._later(0.0, self.break_link, link)
            return
        if link.is_open and not link.is_silent:
            arrival = link.down.put(data, self.loop.time() + delay)
            self.loop.call_at(arrival, link.client_end.hear, context=link.client.context)

    # ------------------------------------------------------------ copies

    def _copy(self, address: str, call: SimCall) -> None:
        """Sometimes the same request is delivered twice, or again much later."""
        plan = self.plan
        if self.repeat and call.method in self.repeated and self._random.random() < self.repeat:
            self.loop.note_fault("repeat_admin")
            self._deliver_later(address, call)
        if not (plan.duplicate_request or plan.replay_request) or call.method in self.never_copied:
            return
        if self._hits("duplicate_request"):
            self._copy_later(3 * self._delay(), address, call)
        if self._hits("replay_request"):
            self._deliver_later(address, call)

    def copies_under_way(self, method: str) -> int:
        """Copies of its requests that are still to be delivered."""
        return self._copies[method]

    def _deliver_later(self, address: str, call: SimCall) -> None:
        self._copy_later(self._random.random() * self.plan.replay_max_ms / 1000, address, call)

    def _copy_later(self, delay_s: float, address: str, call: SimCall) -> None:
        self._copies[call.method] += 1
        self._later(delay_s, self._deliver_copy, address, call.method, call.header, call.payload, call.host)

    def _deliver_copy(self, address: str, method: str, header: bytes, payload: bytes, host: str = "") -> None:
        self._copies[method] -= 1
        server = self._listeners.get(address)
        if server is not None:
            self.loop.trace(f"copy>{address} {method} {crc32(payload, crc32(header))}")
            end = ServerEnd(server, self, address, host, None)
            request = Frame(1, link_codec.REQUEST, method, header=header, payload=payload)
            end.arrive(_HELLO + link_codec.encode_envelope([request]))

    def knock(self, address: str, host: str, *envelopes: bytes) -> None:
        """A stranger's stream, with whatever bytes in it; its answers go nowhere."""
        server = self._listeners.get(address)
        if server is not None:
            end = ServerEnd(server, self, address, host, None)
            end.is_stranger = True
            for data in envelopes:
                end.arrive(data)

    # ------------------------------------------------------------ answers

    def answer(self, server: SimServer, request: Served, result: Reply | errors.OncelogError) -> None:
        """Takes the answer of a handler of the server; tests hold it back here."""
        assert request.end.server is server
        request.end.answer(request, result)

    # ------------------------------------------------------------ links that end

    def break_link(self, link: SimLink, refused: bool = False) -> None:
        """Open calls fail with `NetworkError`. Of the envelopes under way to the server the first few may still arrive."""
        if not link.is_open:
            return
        self.loop.trace(f"break {link.client.host}>{link.address} {refused}")
        if refused:
            error = errors.NetworkError("nobody listens there", address=link.address, refused="true")
        else:
            error = errors.NetworkError(address=link.address)
        self._close(link, arriving=0 if refused or self.never_copied else self._arriving(link))
        self.loop.call_soon(link.client_end.ended, error, context=link.client.context)
        if link.server_end is not None:
            for request in link.server_end.core.requests.values():
                self._cancel_handler(request)

    def _arriving(self, link: SimLink) -> int:
        return self._random.randint(0, len(link.up.under_way)) if link.up.under_way else 0

    def hang_up(self, link: SimLink) -> None:
        """The caller is done with the link."""
        self._close(link, arriving=len(link.up.under_way), is_peaceful=True)

    def hang_up_all(self, client: SimTransport) -> None:
        """The caller's process closes its transport."""
        for link in list(self._links):
            if link.client is client:
                self.break_link(link)

    def forget_link(self, link: SimLink) -> None:
        """It takes no more calls."""
        key = (link.address, link.service)
        if link.client.links.get(key) is link:
            del link.client.links[key]

    def _close(self, link: SimLink, arriving: int, *, is_peaceful: bool = False) -> None:
        if not link.is_open:
            return
        link.is_open, link.is_peaceful = False, is_peaceful
        self._links.pop(link, None)
        self.forget_link(link)
        link.down.under_way.clear()
        while len(link.up.under_way) > arriving:
            link.up.under_way.pop()
        for data in link.up.under_way:
            frames = link_codec.decode_envelope(data)
            link.late.append(tuple(frame.method for frame in frames if frame.kind == link_codec.REQUEST))
            self._copies.update(link.late[-1])
        if link.server_end is not None and not link.late:
            link.server_end.arrive_end(is_peaceful=link.is_peaceful)

    def _arrive_late(self, link: SimLink, data: bytes) -> None:
        """Delivers what was under way when the link broke; after it the server learns of the end."""
        self._copies.subtract(link.late.popleft())
        if link.server_end is None:
            return
        link.server_end.arrive(data)
        if not link.late:
            link.server_end.arrive_end(is_peaceful=link.is_peaceful)

    def _fall_silent(self, link: SimLink) -> None:
        """Lets nothing through that is sent from here on; an end of the link notices later."""
        if not link.is_silent and link.is_open:
            link.is_silent = True
            late = (0.2 + 0.8 * self._random.random()) * self.plan.silent_break_ms / 1000
            self._later(late, self.break_link, link)

    # ------------------------------------------------------------ small tools

    def _is_cut(self, source: str, address: str) -> bool:
        if not self._cuts and not self._silent:
            return False
        target = host_of(address)
        return (source, target) in self._cuts or target in self._silent

    def _delay(self) -> float:
        plan = self.plan
        delay = plan.delay_min_ms + (plan.delay_max_ms - plan.delay_min_ms) * self._random.random()
        if self._hits("slow_message"):
            delay += plan.slow_ms * self._random.random()
        return delay / 1000

    def _hits(self, name: str) -> bool:
        probability: float = getattr(self.plan, name)
        if probability <= 0 or self._random.random() >= probability:
            return False
        self.loop.note_fault(name)
        return True

    def _later(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        self.loop.call_later(delay, callback, *args, context=self.loop.world)
