"""Who is let in, and what a peer that is not let in hears."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio
import pytest

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.server_core import OpenRequest, ServerCore
from oncelog.v1 import link_pb2
from oncelog_runtime.adapters.grpc.grpc_server import ServerOptions
from oncelog_runtime.adapters.grpc.link.link_entrance import Entrance
from oncelog_runtime.adapters.grpc.link.link_host import LinkHost, Visitor
from oncelog_runtime.core.shares import Shares
from oncelog_runtime.serving.call_context import CallInfo
from oncelog_runtime.serving.quotas import Quotas
from oncelog_runtime.sim import SimLoop

PEER = "10.0.0.7:99"
HELLO = link_pb2.Hello(protocol_min=1, protocol_max=1)


class Stream:
    """A stream whose peer hangs up."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    async def read(self) -> Any:
        return grpc.aio.EOF

    async def write(self, message: bytes) -> None:
        self.written.append(message)


def host_with(max_links: int = 10, max_links_per_peer: int = 10) -> LinkHost:
    options = ServerOptions()
    return LinkHost(
        handlers={},
        software="test",
        cluster_id="",
        max_message_bytes=options.max_message_bytes,
        max_requests_per_link=1,
        max_bytes_per_link=1,
        max_links=max_links,
        default_timeout_ms=1,
        shares=Shares(options.memory_limits()),
        max_links_per_peer=max_links_per_peer,
        quotas=Quotas(),
    )


def arrived(host: LinkHost) -> tuple[Entrance[OpenRequest], Visitor, Stream]:
    stream, caller = Stream(), CallInfo(PEER, listener="client")
    visitor = Visitor("client", PEER, "10.0.0.7", lambda error: None)
    host.add(visitor)
    core: ServerCore[OpenRequest] = ServerCore(host, OpenRequest)
    return Entrance(host, core, stream, caller, visitor), visitor, stream


def run(work: Callable[[], Any]) -> None:
    SimLoop(1).run(work())  # type: ignore[abstract]


def test_a_peer_that_is_let_in_is_counted_and_has_a_share_until_it_leaves() -> None:
    async def work() -> None:
        host = host_with()
        entrance, visitor, _ = arrived(host)
        assert not visitor.is_let_in
        assert await entrance.enter(HELLO) == b""
        assert visitor.is_let_in
        assert host.let_in["client", visitor.peer] == 1
        assert entrance.share is not None
        entrance.leave()
        host.remove(visitor)
        assert not host.let_in

    run(work)


async def refusals(host: LinkHost) -> AsyncIterator[errors.OncelogError]:
    """Of all links that are not let in, of three."""
    for _ in range(3):
        entrance, _, _ = arrived(host)
        try:
            await entrance.enter(HELLO)
        except errors.OncelogError as error:
            yield error


@pytest.mark.parametrize(("limits", "refused"), [((10, 10), 0), ((2, 10), 1), ((10, 1), 2)])
def test_a_process_and_a_peer_have_room_for_so_many_links(limits: tuple[int, int], refused: int) -> None:
    async def work() -> None:
        found = [error async for error in refusals(host_with(*limits))]
        assert [error.code for error in found] == [errors.ErrorCode.RESOURCE_EXHAUSTED] * refused

    run(work)


def test_a_process_that_stops_lets_nobody_in_and_says_so() -> None:
    async def work() -> None:
        host = host_with()
        host.stopping = True
        entrance, _, stream = arrived(host)
        entrance.first_of(link_codec.hello_envelope(HELLO))
        with pytest.raises(errors.ShuttingDownError) as refused:
            await entrance.enter(HELLO)
        await entrance.refuse(refused.value)
        assert len(stream.written) == 1
        assert host.metrics.refused["SHUTTING_DOWN"] == 1

    run(work)


def test_what_is_no_hello_is_no_proof_either() -> None:
    async def work() -> None:
        entrance, _, _ = arrived(host_with())
        event = entrance.first_of(b"nonsense")
        assert type(event).__name__ == "Breached"

    run(work)
