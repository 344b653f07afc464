"""`Client.once` on whole simulated machines: each record is done once, wherever its worker is killed or frozen.

A worker comes to five points of a record's work: `begun`, it was claimed; `written`, outputs and id are on their way;
`offsets sent`; `decided`, the transaction is committed and its answer has come; `committed`, the block has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from random import Random
from typing import Any, Final

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.once.in_log import OnceInLog
from oncelog.client.once.log_work import LogWork
from oncelog.client.once.refusals import OnceTopicError, WorkFencedError
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.types import TopicPartition
from oncelog_runtime.node_ports import NodePorts
from tests.simulation.cluster import SimCluster

ORDERS, BILLS, GROUP, HEADER = "orders", "bills", "billing", "event-id"
SESSION_MS: Final = 6_000
POINTS: Final = ("begun", "written", "offsets sent", "decided", "committed")
_FROZEN_MS: Final = 2 * SESSION_MS + 5_000
_TURN_S: Final = 0.001
_PART: Final = (ORDERS, 0)

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""What a killed process was about to close is dropped in the middle of it."""

ME: ContextVar[Worker] = ContextVar("ME")


class Machine:
    """A system outside: it prints bills, and refuses a number that is smaller than one it has seen."""

    def __init__(self) -> None:
        self.fencing = 0
        self.orders: list[tuple[int, bytes]] = []

    def order(self, fencing: int, value: bytes) -> None:
        if fencing >= self.fencing:
            self.fencing = fencing
            self.orders.append((fencing, value))


class Worker:
    """A machine with a program that copies orders to bills. `harm` is done to it when it comes to a point, and may be None."""

    def __init__(self, cluster: SimCluster, name: str, machine: Machine, harm: Callable[[Worker, str], None]) -> None:
        self._cluster = cluster
        self._machine = machine
        self._harm = harm
        self.fenced = 0
        self.node = cluster.world.node(name, self._main)

    async def _main(self, ports: NodePorts) -> None:
        ME.set(self)
        client = Client(
            self._cluster.bootstrap,
            client_id=self.node.name,
            transport=ports.transport,
            clock=ports.clock,
            random=ports.random,
            default_api_timeout_ms=20_000,
        )
        while True:
            try:
                async with once_of(client) as once:
                    async for work in once.each():
                        await self._do(work)
            except errors.OncelogError:
                await asyncio.sleep(0.5)

    async def _do(self, work: LogWork) -> None:
        try:
            async with work:
                await self.at("begun")
                self._machine.order(work.fencing, work.record.value)
                work.send(BILLS, work.record.value, partition=0)
            await self.at("committed")
        except WorkFencedError:
            self.fenced += 1

    async def at(self, point: str) -> None:
        """It is stopped, if at all, while it waits here."""
        self._harm(self, point)
        await asyncio.sleep(_TURN_S)

    def kill(self) -> None:
        """As kill -9; a new process takes its place soon."""
        world = self._cluster.world
        world.loop.call_soon(self.node.kill, context=world.loop.world)
        world.loop.call_later(1, self.node.restart, context=world.loop.world)

    def freeze(self) -> None:
        """As SIGSTOP, for longer than its session."""
        world = self._cluster.world
        world.loop.call_soon(self.node.pause, _FROZEN_MS, context=world.loop.world)


@pytest.fixture(autouse=True)
def transactions_with_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers come to points within their transactions, too."""
    plain_offsets, plain_commit = Transaction.send_offsets, Transaction.commit

    async def send_offsets(self: Transaction, *given: Any, **options: Any) -> None:
        if (me := ME.get(None)) is not None:
            await me.at("written")
        await plain_offsets(self, *given, **options)
        if me is not None:
            await me.at("offsets sent")

    async def commit(self: Transaction, *given: Any, **options: Any) -> None:
        await plain_commit(self, *given, **options)
        if (me := ME.get(None)) is not None:
            await me.at("decided")

    monkeypatch.setattr(Transaction, "send_offsets", send_offsets)
    monkeypatch.setattr(Transaction, "commit", commit)


def run(main: Callable[[SimCluster, Client], Awaitable[None]], seed: int = 1) -> None:
    """Runs a test's work beside a cluster with a topic of one partition for inputs, and one for outputs."""

    async def whole(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("test") as client:
            for topic in (ORDERS, BILLS):
                await client.admin.create_topic(topic, partitions=1)
            await main(cluster, client)

    options = {"group_session_timeout_ms": SESSION_MS, "group_heartbeat_interval_ms": 500}
    with SimCluster(seed, coordinator=options) as cluster:
        cluster.world.loop.run(whole(cluster))


async def feed(client: Client, ids: str) -> None:
    async with client.producer() as producer:
        for number, name in enumerate(ids):
            await producer.send_and_wait(ORDERS, b"%d" % number, headers=[(HEADER, name.encode())])


def once_of(client: Client, **options: Any) -> OnceInLog:
    return client.once(ORDERS, group_id=GROUP, **{"id_header": HEADER, **options})


def expected(ids: str) -> list[bytes]:
    """The first record of each id."""
    return [b"%d" % at for at, name in enumerate(ids) if name not in ids[:at]]


async def bills(client: Client) -> list[bytes]:
    """What a reader sees in the end."""
    async with client.consumer(BILLS, isolation_level="read_uncommitted") as looking:
        end = (await looking.end_offsets([(BILLS, 0)]))[BILLS, 0]  # type: ignore[index]
    found: list[bytes] = []
    async with client.consumer(BILLS) as consumer:
        async for rows in consumer.read_range((BILLS, 0), 0, end):
            found += rows.column("value").to_pylist()
    return found


async def done(client: Client, count: int, seconds: int = 600) -> None:
    """Returns when the group's offset is behind so many records."""
    async with asyncio.timeout(seconds), client.consumer(group_id=GROUP) as looking:
        while (at := (await looking.committed(_PART))[_PART]) is None or at.offset < count:  # type: ignore[index] # noqa: ASYNC110
            await asyncio.sleep(0.2)


def harm_once(what: str, where: str, nth: int) -> Callable[[Worker, str], None]:
    """Harms the first worker that comes to this point for the so-manieth time."""
    left = nth

    def harm(worker: Worker, point: str) -> None:
        nonlocal left
        left -= point == where
        if left == 0 and point == where:
            worker.kill() if what == "kill" else worker.freeze()

    return harm


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("what", ["kill", "freeze"])
def test_each_record_is_done_once_wherever_its_worker_stops(what: str, point: str) -> None:
    ids = "abacbdea"

    async def main(cluster: SimCluster, client: Client) -> None:
        async with once_of(client) as once:
            await once.create_topic()
        await feed(client, ids)
        machine, harm = Machine(), harm_once(what, point, 3)
        workers = [Worker(cluster, f"worker-{number}", machine, harm) for number in range(2)]
        await done(client, len(ids))
        await asyncio.sleep(_FROZEN_MS / 1000)  # a frozen one comes back
        assert await bills(client) == expected(ids)
        assert set(expected(ids)) == {value for _, value in machine.orders}
        for worker in workers:
            worker.node.unplug()

    run(main)


@pytest.mark.parametrize("seed", range(6))
def test_each_record_is_done_once_in_any_order_of_harm(seed: int) -> None:
    """At each point of each record the seed may kill or freeze the worker, and sometimes a broker or a coordinator dies."""
    random = Random(f"once-in-log-{seed}")
    ids = "".join(random.choice("abcdefghijkl") for _ in range(24))
    machine = Machine()

    def harm(worker: Worker, point: str) -> None:
        if len(machine.orders) < len(ids) and random.random() < 0.04:
            random.choice([worker.kill, worker.freeze])()

    async def main(cluster: SimCluster, client: Client) -> None:
        async with once_of(client) as once:
            await once.create_topic()
        await feed(client, ids)
        workers = [Worker(cluster, f"worker-{number}", machine, harm) for number in range(3)]
        watched = asyncio.create_task(done(client, len(ids), seconds=3_600))
        while not watched.done():
            await asyncio.wait([watched], timeout=random.uniform(10, 40))
            name = random.choice([name for name in cluster.world.nodes if name.startswith(("broker", "coordinator"))])
            cluster.node(name).restart()
        await watched
        await cluster.healthy()
        await asyncio.sleep(_FROZEN_MS / 1000)
        assert await bills(client) == expected(ids)
        assert set(expected(ids)) == {value for _, value in machine.orders}
        for worker in workers:
            worker.node.unplug()

    run(main, seed)


async def copy_one(once: OnceInLog) -> bytes:
    """Copies the next order, and says which one it was."""
    async for work in once.each():
        async with work:
            work.send(BILLS, work.record.value, partition=0)
        return work.record.value
    raise AssertionError("it was closed")


def test_a_copy_is_left_out_until_its_time_has_ended() -> None:
    async def main(cluster: SimCluster, client: Client) -> None:
        async with once_of(client, remember_ids_ms=60_000) as once:
            await once.create_topic()
            await feed(client, "aab")
            assert [await copy_one(once) for _ in range(2)] == [b"0", b"2"]
        await feed(client, "a")
        async with once_of(client, remember_ids_ms=60_000) as once:
            waiting = asyncio.create_task(copy_one(once))
            await done(client, 4)
            assert not waiting.done(), "it was known to the next worker, which read it back"
            await asyncio.sleep(60)
            await feed(client, "a")
            assert await waiting == b"0"
        assert await bills(client) == [b"0", b"2", b"0"]

    run(main)


def test_ids_whose_markers_are_late_are_waited_for() -> None:
    """What was decided may not be stable yet: the end of what is written counts."""

    async def main(cluster: SimCluster, client: Client) -> None:
        async with once_of(client) as once, client.producer(transactional_id="before") as producer:
            await once.create_topic()
            ids, of = once._ids, TopicPartition(ORDERS, 0)
            async with producer.transaction() as txn:
                await (await txn.send(ids.name, None, ids.key(GROUP, of, "a"), 0))
                reading = asyncio.create_task(ids.read_back(GROUP, of, 0))
                await asyncio.sleep(5)
                assert not reading.done()
            assert (await reading).has("a", 0)
            assert len(await ids.read_back("another group", of, 0)) == 0

    run(main)


def test_the_number_grows_with_each_worker_and_stays_with_one() -> None:
    async def main(cluster: SimCluster, client: Client) -> None:
        await feed(client, "abcd")
        numbers = []
        for _ in range(2):
            async with once_of(client, id_header="") as once:
                for _ in range(2):
                    async for work in once.each():
                        async with work:
                            numbers.append(work.fencing)
                        break
        assert numbers[0] == numbers[1] < numbers[2] == numbers[3]

    run(main)


def test_without_its_topic_nothing_is_begun() -> None:
    async def main(cluster: SimCluster, client: Client) -> None:
        await feed(client, "a")
        async with once_of(client) as once:
            with pytest.raises(OnceTopicError, match="create_topic"):
                await copy_one(once)
            await once.create_topic()
            assert await copy_one(once) == b"0"

    run(main)
