"""Links under every fault of the network: the calls of many impatient callers, through both ends as they are in production.

Rule 1: an answer is the answer to the caller's own request.
Rule 2: what is said to be unsent was not executed, and nothing is executed twice (without copies on the wire).
Rule 3: a server that stops in peace answers everything that it has begun.
Rule 4: neither end breaks the protocol; the simulated server fails the run when the other one does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.link_codec import Frame
from oncelog.types import Buffer
from oncelog.v1 import link_pb2
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.sim import FaultPlan, SimTransport, SimWorld
from tests.contracts.transport_suite import Gate, echo

PING = "Toy.Ping"
ADDRESS = "s:9092"
HARD = FaultPlan(
    delay_max_ms=20,
    slow_message=0.1,
    slow_ms=150,
    break_link=0.02,
    stall_link=0.01,
    lose_reply=0.02,
    silent_break_ms=400,
)


class Toy:
    """A service that takes its time, answers with the request, and counts what it executed."""

    def __init__(self, random: Random) -> None:
        self.executed: Counter[bytes] = Counter()
        self._random = random

    async def __call__(self, header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        self.executed[header] += 1
        await asyncio.sleep(self._random.choice([0, 0.001, 0.02, 0.3]))
        if header.endswith(b"7"):
            raise errors.NotEnoughReplicasError(of=header.decode())
        return header, payload

    async def main(self, ports: NodePorts) -> None:
        """One life of the node: it stops in peace now and then, and comes back."""
        ports.server.register(PING, self)
        await ports.server.start()
        await asyncio.sleep(1 + self._random.random())
        await ports.server.stop(200)


class Caller:
    """Calls, gives up, and notes what it was told."""

    def __init__(self, transport: SimTransport, random: Random) -> None:
        self.told: Counter[str] = Counter()
        self.unsent: list[bytes] = []
        self.strange: list[bytes] = []
        self._transport = transport
        self._random = random

    async def run(self, name: str, count: int) -> None:
        """One call after the other."""
        for number in range(count):
            header = f"{name}:{number}".encode()
            timeout_ms = self._random.choice([5, 60, 2_000])
            call = asyncio.create_task(self._call(header, timeout_ms))
            if self._random.random() < 0.2:
                await asyncio.sleep(self._random.random() / 20)
                call.cancel()
            await asyncio.wait([call])
            self.told["cancelled" if call.cancelled() else call.result()] += 1
            await asyncio.sleep(self._random.choice([0, 0, 0.05]))

    async def _call(self, header: bytes, timeout_ms: int) -> str:
        payload = bytes(self._random.choice([0, 10, 3_000, 40_000]))
        try:
            answer, returned = await self._transport.call(ADDRESS, PING, header, payload, timeout_ms)
        except errors.NotEnoughReplicasError as error:
            self.strange += [] if error.context["of"] == header.decode() else [header]
            return "refused"
        except errors.OncelogError as error:
            if error.context.get("unsent") == "true":
                self.unsent.append(header)
            return type(error).__name__
        self.strange += [] if (answer, len(returned)) == (header, len(payload)) else [header]
        return "answered"


def whole_story(seed: int) -> Counter[str]:
    """Callers, a server that comes and goes, and all faults of the network. What the callers were told."""
    with SimWorld(seed, HARD) as world:
        random = world.random("links")
        toy = Toy(random)
        node = world.node("s", toy.main)
        callers = [Caller(world.client(name), random) for name in ("a", "b")]

        async def come_back() -> None:
            while True:
                await node.stopped()
                await asyncio.sleep(0.2)
                node.restart()

        async def scenario() -> None:
            back = asyncio.create_task(come_back())
            running = [caller.run(f"{n}{i}", 25) for n, caller in enumerate(callers) for i in range(20)]
            async with asyncio.timeout(600):  # of virtual time: each call ends in its own
                await asyncio.gather(*running)
            back.cancel()
            await asyncio.sleep(3)

        world.run(scenario())
        strange = [header for caller in callers for header in caller.strange]
        assert not strange, f"were told what belongs to another call: {strange}"
        executed_twice = [header for header, count in toy.executed.items() if count > 1]
        assert not executed_twice, f"executed twice: {executed_twice}"
        wrongly_unsent = [header for caller in callers for header in caller.unsent if toy.executed[header]]
        assert not wrongly_unsent, f"said to be unsent, and executed: {wrongly_unsent}"
        return callers[0].told + callers[1].told


@pytest.mark.parametrize("seed", range(3))
def test_each_call_gets_its_own_answer_or_a_true_error(seed: int) -> None:
    told = whole_story(seed)
    assert sum(told.values()) == 1_000
    assert set(told) >= {"answered", "refused", "cancelled", "NetworkError", "RequestTimedOutError"}


def test_the_same_seed_tells_the_same_story() -> None:
    assert whole_story(5) == whole_story(5)


@pytest.mark.parametrize("seed", range(3))
def test_a_server_that_stops_answers_what_it_has_begun(seed: int) -> None:
    gate = Gate()

    async def main(ports: NodePorts) -> None:
        ports.server.register(PING, gate)
        await ports.server.start()
        await gate.wait_started(20)
        stopping = asyncio.create_task(ports.server.stop(100))
        await asyncio.sleep(0.3)  # the grace is over, the goodbye was said, and the handlers still run
        for n in range(20):
            gate.release(b"%d" % n)
        await stopping

    with SimWorld(seed, FaultPlan(delay_max_ms=5)) as world:
        world.node("s", main)
        client = world.client()

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            calls = [client.call(ADDRESS, PING, b"%d" % n, b"", 5_000) for n in range(20)]
            answers = await asyncio.gather(*calls)
            assert [header for header, _ in answers] == [b"%d" % n for n in range(20)]

        world.run(scenario())


def hello(**fields: object) -> bytes:
    said = {"protocol_min": 1, "protocol_max": 1} | fields
    return link_codec.hello_envelope(link_pb2.Hello(**said))  # type: ignore[arg-type]


def frames(*numbers: int) -> bytes:
    return link_codec.encode_envelope([Frame(n, link_codec.REQUEST, PING, header=b"stranger") for n in numbers])


@pytest.mark.parametrize(
    ("envelopes", "executed"),
    [
        ([b"\xff\xff"], 0),
        ([frames(1)], 0),
        ([hello(cluster_id="another")], 0),
        ([hello(protocol_min=9, protocol_max=9), frames(1)], 0),
        ([hello(mechanism="SIMULATED"), frames(1)], 0),
        ([hello() + frames(1, 0), frames(2)], 1),
        ([hello(), frames(1), frames(1), frames(2)], 1),
        ([hello(), frames(1), b"\xff\xff", frames(2)], 1),
    ],
    ids=["garbage", "no hello", "cluster", "version", "no proof", "id 0", "an id twice", "garbage later"],
)
def test_a_stranger_disturbs_nobody(envelopes: list[bytes], executed: int) -> None:
    seen: list[bytes] = []

    async def note(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        seen.append(header)
        await asyncio.sleep(1)
        return await echo(header, payload)

    async def main(ports: NodePorts) -> None:
        ports.server.register(PING, note)
        await ports.server.start()
        await asyncio.Event().wait()

    with SimWorld(1) as world:
        world.node("s", main)

        async def scenario() -> None:
            await asyncio.sleep(0.1)
            world.network.knock(ADDRESS, "stranger", *envelopes)
            await asyncio.sleep(0.1)
            assert (await world.client().call(ADDRESS, PING, b"mine", b"", 5_000))[0] == b"mine"

        world.run(scenario())
    assert seen == [b"stranger"] * executed + [b"mine"]
