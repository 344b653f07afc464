"""The server's end of the simulated network: what it begins, what it refuses, and how it goes away."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.sim import FaultPlan, SimServer, SimWorld
from tests.contracts.transport_suite import Gate, echo

PING = "Toy.Ping"
ADDRESS = "s:9092"


def test_a_server_that_stops_says_goodbye_and_its_callers_hang_up() -> None:
    async def main(ports: NodePorts) -> None:
        ports.server.register(PING, echo)
        await ports.server.start()
        await asyncio.sleep(1)
        await ports.server.stop(1_000)
        assert ports.clock.monotonic_ms() < 1_100, "it waited for callers that had hung up"

    with SimWorld(1) as world:
        node = world.node("s", main)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            await client.call(ADDRESS, PING, b"", b"", 1_000)
            assert isinstance(node.ports.server, SimServer)
            assert len(node.ports.server.ends) == 1
            await node.stopped()
            assert not node.ports.server.ends
            with pytest.raises(errors.NetworkError) as caught:
                await client.call(ADDRESS, PING, b"", b"", 1_000)
            assert caught.value.context["refused"] == "true"

        world.run(scenario())


def test_who_comes_to_a_server_that_stops_is_sent_away_unheard() -> None:
    gate = Gate()

    async def main(ports: NodePorts) -> None:
        ports.server.register(PING, gate)
        await ports.server.start()
        await gate.wait_started(1)
        await ports.server.stop(5_000)

    with SimWorld(1) as world:
        world.node("s", main)
        first, second = world.client("first"), world.client("second")

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            running = asyncio.create_task(first.call(ADDRESS, PING, b"running", b"", 9_000))
            await gate.wait_started(1)
            await asyncio.sleep(0.1)
            with pytest.raises(errors.ShuttingDownError) as caught:
                await second.call(ADDRESS, PING, b"late", b"", 1_000)
            assert caught.value.context["unsent"] == "true"
            gate.release(b"running")
            assert (await running)[0] == b"running"

        world.run(scenario())
    assert gate.started == [b"running"]


@pytest.mark.parametrize("seed", range(8))
def test_what_was_under_way_when_a_link_broke_may_still_arrive_in_its_order(seed: int) -> None:
    seen: list[bytes] = []

    async def note(header: bytes, payload: bytes) -> tuple[bytes, bytes]:
        seen.append(header)
        return header, payload

    async def main(ports: NodePorts) -> None:
        ports.server.register(PING, note)  # type: ignore[arg-type]
        await ports.server.start()
        await asyncio.Event().wait()

    with SimWorld(seed, FaultPlan(delay_min_ms=50, delay_max_ms=60)) as world:
        world.node("s", main)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            await client.call(ADDRESS, PING, b"first", b"", 1_000)
            calls = []
            for n in range(10):
                calls.append(asyncio.create_task(client.call(ADDRESS, PING, b"%d" % n, b"", 1_000)))
                await asyncio.sleep(0.001)
            world.network.break_links("client")
            for call in calls:
                with pytest.raises(errors.NetworkError):
                    await call
            assert seen == [b"first"]
            on_their_way = world.network.copies_under_way(PING)
            await asyncio.sleep(1)
            arrived = len(seen) - 1  # the process may notice the end before it reads the last one
            assert seen == [b"first", *(b"%d" % n for n in range(arrived))]
            assert on_their_way - 1 <= arrived <= on_their_way
            assert not world.network.copies_under_way(PING)

        world.run(scenario())


def test_nothing_under_way_arrives_late_where_copies_are_not_wanted() -> None:
    with SimWorld(1, FaultPlan(delay_min_ms=50, delay_max_ms=60)) as world:

        async def main(ports: NodePorts) -> None:
            ports.server.register(PING, echo)
            await ports.server.start()
            await asyncio.Event().wait()

        world.node("s", main)
        world.network.never_copied = frozenset({PING})
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            await client.call(ADDRESS, PING, b"", b"", 1_000)
            for _ in range(5):
                call = asyncio.create_task(client.call(ADDRESS, PING, b"", b"", 1_000))
                await asyncio.sleep(0.4)
                world.network.break_links("client")
                assert not world.network.copies_under_way(PING)
                await asyncio.gather(call, return_exceptions=True)

        world.run(scenario())
