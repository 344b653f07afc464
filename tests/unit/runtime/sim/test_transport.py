"""The caller's end of the simulated network: which link a call takes, and who keeps its time."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.link.link_states import LinkState
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.sim import SimTransport, SimWorld
from oncelog_runtime.sim.transport import SimPassword
from tests.contracts.transport_suite import Gate, echo

PING, PONG = "Toy.Ping", "Other.Pong"
ADDRESS = "s:9092"


async def serve(ports: NodePorts) -> None:
    for method in (PING, PONG):
        ports.server.register(method, echo)
    await ports.server.start()
    await asyncio.Event().wait()


def test_each_service_of_an_address_has_a_link_that_is_used_again() -> None:
    with SimWorld(1) as world:
        world.node("s", serve)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            for method in (PING, PONG, PING):
                await client.call(ADDRESS, method, b"", b"", 1_000)
            first = list(client.links.items())
            assert [key for key, _ in first] == [(ADDRESS, "Toy"), (ADDRESS, "Other")]
            await client.call(ADDRESS, PING, b"", b"", 1_000)
            assert list(client.links.items()) == first
            assert client.cluster.id == "simulated"

        world.run(scenario())


def test_calls_wait_for_room_on_their_link() -> None:
    gate = Gate()

    async def main(ports: NodePorts) -> None:
        ports.server.register(PING, gate)
        await ports.server.start()
        await asyncio.Event().wait()

    with SimWorld(1) as world:
        world.node("s", main)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            names = [b"%d" % n for n in range(100)]
            calls = [asyncio.create_task(client.call(ADDRESS, PING, name, b"", 5_000)) for name in names]
            await asyncio.sleep(0.1)
            core = client.links[ADDRESS, "Toy"].client_end.core
            assert (core.state, core.calls_open, core.calls_waiting) == (LinkState.OPEN, 64, 36)
            for name in names:
                gate.release(name)
            assert sorted(header for header, _ in await asyncio.gather(*calls)) == sorted(names)

        world.run(scenario())


def test_a_call_that_a_test_holds_back_still_keeps_its_time() -> None:
    with SimWorld(1) as world:
        network, client = world.network, world.client()
        network.send = lambda *_: None  # type: ignore[method-assign]

        async def scenario() -> None:
            with pytest.raises(errors.RequestTimedOutError):
                await client.call(ADDRESS, PING, b"", b"", 70)
            assert world.loop.now_ms() == 70

        world.run(scenario())


def test_a_closed_transport_sends_nothing() -> None:
    with SimWorld(1) as world:
        world.node("s", serve)
        client: SimTransport = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            await client.call(ADDRESS, PING, b"", b"", 1_000)
            await client.close()
            with pytest.raises(errors.NetworkError) as caught:
                await client.call(ADDRESS, PING, b"", b"", 1_000)
            assert caught.value.context["refused"] == "true"
            assert client.links == {}

        world.run(scenario())


def test_a_user_believes_only_the_server_that_welcomes_it() -> None:
    exchange = SimPassword("ann")
    exchange.check(SimPassword.verdict(exchange.first()))
    with pytest.raises(errors.AuthenticationError):
        exchange.check(SimPassword.verdict(b"bob"))
