"""The simulated network: order on links, and every fault on command. (What all transports share is in tests/contracts.)"""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.types import Buffer
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.sim import FaultPlan, SimWorld

PING = "Toy.Ping"


class Recorder:
    """A server that remembers what it was sent."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def __call__(self, header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        self.seen.append(header)
        return header, payload

    async def main(self, ports: NodePorts) -> None:
        ports.server.register(PING, self)
        await ports.server.start()
        await asyncio.Event().wait()


async def outcome(call: object) -> str:
    """ok, refused, broken, or late."""
    try:
        await call  # type: ignore[misc]
    except errors.NetworkError as error:
        return "refused" if error.context.get("refused") == "true" else "broken"
    except errors.RequestTimedOutError:
        return "late"
    return "ok"


@pytest.mark.parametrize("seed", range(5))
def test_a_link_keeps_order_however_slow_messages_are(seed: int) -> None:
    recorder = Recorder()
    with SimWorld(seed, FaultPlan(delay_max_ms=50, slow_message=0.3)) as world:
        world.node("s", recorder.main)
        client, called = world.client(), []

        async def call(i: int) -> None:
            called.append(b"%d" % i)
            await client.call("s:9092", PING, b"%d" % i, b"", 60_000)

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            await asyncio.gather(*(call(i) for i in range(100)))

        world.run(scenario())
        assert recorder.seen == called


def test_copies_reach_the_handler_again() -> None:
    recorder = Recorder()
    with SimWorld(1, FaultPlan(duplicate_request=0.5, replay_request=0.5, replay_max_ms=5_000)) as world:
        world.node("s", recorder.main)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            for i in range(50):
                await client.call("s:9092", PING, b"%d" % i, b"", 1_000)
            assert world.network.copies_under_way(PING)
            await asyncio.sleep(10)
            assert not world.network.copies_under_way(PING)

        world.run(scenario())
        assert len(set(recorder.seen)) == 50
        assert 70 < len(recorder.seen) < 150
        assert recorder.seen != sorted(recorder.seen, key=int)


def test_a_partition_stalls_then_breaks_and_heals() -> None:
    recorder = Recorder()
    with SimWorld(2) as world:
        world.node("s", recorder.main)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            assert await outcome(client.call("s:9092", PING, b"1", b"", 100)) == "ok"
            world.network.partition(["client"], ["s"])
            assert await outcome(client.call("s:9092", PING, b"2", b"", 100)) == "late"
            assert await outcome(client.call("s:9092", PING, b"3", b"", 60_000)) == "broken"
            world.network.heal()
            await asyncio.sleep(4)
            assert await outcome(client.call("s:9092", PING, b"4", b"", 100)) == "ok"

        world.run(scenario())
        assert recorder.seen == [b"1", b"4"]


def test_a_one_way_partition_loses_answers_only() -> None:
    recorder = Recorder()
    with SimWorld(3) as world:
        world.node("s", recorder.main)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            assert await outcome(client.call("s:9092", PING, b"1", b"", 100)) == "ok"
            world.network.partition(["s"], ["client"], one_way=True)
            assert await outcome(client.call("s:9092", PING, b"2", b"", 100)) == "late"

        world.run(scenario())
        assert recorder.seen == [b"1", b"2"]


def test_a_stalled_link_delivers_nothing_that_follows() -> None:
    """What comes after a lost message on one link must not arrive without it."""
    recorder = Recorder()
    with SimWorld(4, FaultPlan(stall_link=0.03)) as world:
        world.node("s", recorder.main)
        client, results = world.client(), []

        async def call(i: int) -> None:
            results.append((i, await outcome(client.call("s:9092", PING, b"%d" % i, b"", 60_000))))

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            for i in range(30):
                task = asyncio.create_task(call(i))
                await asyncio.wait([task], timeout=0.002)
            await asyncio.sleep(10)

        world.run(scenario())
        assert recorder.seen == [b"%d" % i for i in range(len(recorder.seen))]
        assert len(recorder.seen) < 30
        assert {result for _, result in results} == {"ok", "broken"}


def test_a_killed_process_refuses_and_a_silent_machine_does_not_answer() -> None:
    recorder = Recorder()
    with SimWorld(5) as world:
        node = world.node("s", recorder.main)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            assert await outcome(client.call("s:9092", PING, b"1", b"", 100)) == "ok"
            node.kill()
            await asyncio.sleep(0.1)
            assert await outcome(client.call("s:9092", PING, b"2", b"", 100)) == "refused"
            node.restart()
            await asyncio.sleep(0.1)
            assert await outcome(client.call("s:9092", PING, b"3", b"", 100)) == "ok"
            node.crash(silent=True)
            assert await outcome(client.call("s:9092", PING, b"4", b"", 100)) == "late"
            await asyncio.sleep(5)
            assert await outcome(client.call("s:9092", PING, b"5", b"", 100)) == "late"
            node.restart()
            await asyncio.sleep(5)
            assert await outcome(client.call("s:9092", PING, b"6", b"", 100)) == "ok"

        world.run(scenario())
        assert recorder.seen == [b"1", b"3", b"6"]


def test_a_paused_process_answers_late_and_in_order() -> None:
    recorder = Recorder()
    with SimWorld(6) as world:
        node = world.node("s", recorder.main)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            node.pause(1_000)
            started = world.loop.now_ms()
            calls = []
            for i in range(5):
                calls.append(asyncio.create_task(outcome(client.call("s:9092", PING, b"%d" % i, b"", 5_000))))
                await asyncio.sleep(0.001)
            assert await asyncio.gather(*calls) == ["ok"] * 5
            assert world.loop.now_ms() - started >= 1_000

        world.run(scenario())
        assert recorder.seen == [b"%d" % i for i in range(5)]


def test_objects_never_cross_the_wire() -> None:
    buffer = bytearray(b"abc")

    async def keep(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        assert isinstance(payload, bytes)
        return header, memoryview(buffer)

    async def main(ports: NodePorts) -> None:
        ports.server.register(PING, keep)
        await ports.server.start()
        await asyncio.Event().wait()

    with SimWorld(7) as world:
        world.node("s", main)

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            _, answer = await world.client().call("s:9092", PING, b"", memoryview(buffer), 100)
            buffer[:] = b"xyz"
            assert answer == b"abc"

        world.run(scenario())


def test_a_bug_in_a_handler_fails_the_run_and_answers_the_caller() -> None:
    async def main(ports: NodePorts) -> None:
        async def bad(_header: bytes, _payload: Buffer) -> tuple[bytes, Buffer]:
            raise KeyError("bug")

        ports.server.register(PING, bad)
        await ports.server.start()
        await asyncio.Event().wait()

    with SimWorld(8) as world:
        world.node("s", main)

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            with pytest.raises(errors.UnknownServerError, match="KeyError"):
                await world.client().call("s:9092", PING, b"", b"", 100)

        with pytest.raises(AssertionError, match="KeyError"):
            world.run(scenario())


def test_a_payload_may_be_damaged_on_its_way() -> None:
    recorder = Recorder()
    with SimWorld(1) as world:
        world.node("s", recorder.main)
        client = world.client()
        world.network.damage = lambda method, payload: payload.replace(b"a", b"b")

        async def scenario() -> Buffer:
            await asyncio.sleep(0.1)
            _, payload = await client.call("s:9092", PING, b"", b"banana", 1_000)
            return payload

        assert bytes(world.run(scenario())) == b"bbnbnb"
