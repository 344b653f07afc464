"""Channels beside NSQ, Redis Streams and Kafka's share groups.

    python -m bench.queues [--nsqd PATH] [--redis PATH] [--kafka-jars FOLDER] [--records 50000] [--rounds 3] [--in-flight 100]
                           [--only idle|backlogs]

Ours is a local cluster with three brokers, every record replicated three times, every acknowledgement durable in a log that is
replicated and synced. NSQ and Redis are one process without replicas (`queue_peers` says how they run). Kafka: three brokers
and three replicas (`kafka_share` says how, and how its clients are driven). Clients are Python and asyncio, in one process;
those of Kafka are a Java process beside it, and what a call from Python to Java costs is printed with the table. The sides take
turns, round by round. Printed for each side, as medians:

    idle, p50, p99  milliseconds from sending one message until a worker has it, one after the other, on a machine that is idle
                    but for this: in each turn only the side's own servers are up, newly started, warm and at rest
    k messages/s    then, with all servers up, of a backlog of `--records` messages of 100 bytes through 1 and 8 workers;
                    `single`: each message is acknowledged by itself, up to `--in-flight` messages of each worker at a time
                    (Kafka's: see `kafka_share`); `batched`: what was taken together
    memory          bytes of the brokers for each message in flight: 45,000 of them are held by one worker

A side whose program is not there is left out, and the report says so. Run it on a machine that does nothing else.

The folder for Kafka has the jars of `org.apache.kafka:kafka_2.13` and `org.apache.kafka:kafka-tools`, of one version from 4.2
on, with all that they depend on. In a folder with a pom.xml whose dependencies are these two, Maven lays them down:

    mvn dependency:copy-dependencies -DoutputDirectory=FOLDER
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import uvloop

from bench.processes import rss_bytes
from bench.queue_peers import CHANNEL, TOPIC, Nsq, Queue, Redis, Worker, found_program
from oncelog.client.client import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

_HELD: Final = 45_000
_SIZE: Final = 100
_STALLED_S: Final = 60.0
_REST_S: Final = 10.0
"""The servers have come to rest by then."""
_IDLE: Final = 300
"""Messages, of which each waits for the one before it."""
_WARM: Final = 20_000
"""So many are worked through before, unmeasured: a process that has just started is slow, one of Java for long."""
_WARM_IN_FLIGHT: Final = 100
JARS: Final = (
    "a folder with the jars of org.apache.kafka:kafka_2.13 and :kafka-tools (4.2 or later) and of all that they depend on, "
    "as `mvn dependency:copy-dependencies` lays them down"
)


class OurWorker:
    """See `queue_peers.Worker`."""

    def __init__(self, client: Client, worker: Any) -> None:
        self._client = client
        self._worker = worker

    async def take(self) -> Sequence[Any]:
        """See `queue_peers.Worker`."""
        while True:
            messages: Sequence[Any] = await self._worker.getmany(timeout_ms=1_000)
            if messages:
                return messages

    async def ack(self, messages: Sequence[Any]) -> None:
        """See `queue_peers.Worker`."""
        await self._worker.ack(messages)

    async def close(self) -> None:
        """See `queue_peers.Worker`."""
        await self._worker.close()
        await self._client.close()


class Ours:
    """See `queue_peers.Queue`."""

    name = "oncelog, 3 replicas"
    note = ""

    def __init__(self, cluster: LocalCluster, client: Client, producer: Any) -> None:
        self.pids = [
            process.popen.pid
            for name, process in cluster.processes.items()
            if name.startswith("broker") and process.popen is not None
        ]
        self._servers = cluster.bootstrap_servers
        self._producer = producer

    @staticmethod
    @contextlib.asynccontextmanager
    async def running(folder: Path) -> AsyncIterator[Queue]:
        """A cluster with the topic and its channel."""
        with LocalCluster(folder, brokers=3) as cluster:
            async with Client(cluster.bootstrap_servers) as client, client.producer() as producer:
                await client.admin.create_topic(TOPIC, partitions=4, replication_factor=3)
                await client.admin.create_channel(TOPIC, CHANNEL)
                yield Ours(cluster, client, producer)

    async def publish(self, values: Sequence[bytes]) -> None:
        """See `queue_peers.Queue`."""
        for value in values:
            await self._producer.send(TOPIC, value)
        await self._producer.flush()

    async def worker(self, max_in_flight: int) -> OurWorker:
        """See `queue_peers.Queue`."""
        client = Client(self._servers)
        await client.start()
        worker = client.worker(TOPIC, channel=CHANNEL, max_in_flight=max_in_flight)
        await worker.start()
        return OurWorker(client, worker)


class Backlog:
    """A backlog of `count` messages, and those who work through it. Settles them one by one, or as they were taken."""

    def __init__(self, count: int, *, single: bool) -> None:
        self._left, self._single = count, single
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def done_by(self, workers: Sequence[Worker]) -> None:
        """Returns when all messages are settled. Raises what a worker raises."""
        for worker in workers:
            self._run(self._work(worker))
        try:
            await self._progress()
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _progress(self) -> None:
        left = None
        while left != self._left:
            left = self._left
            done, _ = await asyncio.wait([self._over], timeout=_STALLED_S)
            if done:
                return self._over.result()
        raise TimeoutError(f"{left} messages are left, and none was settled within {_STALLED_S:.0f} s")

    async def _work(self, worker: Worker) -> None:
        while True:
            messages = await worker.take()
            if self._single:
                for message in messages:
                    self._run(self._ack(worker, [message]))
            else:
                await self._ack(worker, messages)

    async def _ack(self, worker: Worker, messages: Sequence[Any]) -> None:
        await worker.ack(messages)
        self._left -= len(messages)
        if self._left <= 0 and not self._over.done():
            self._over.set_result(None)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._over.done():
            self._over.set_exception(error)


async def backlog_s(queue: Queue, workers: int, count: int, in_flight: int, *, single: bool) -> float:
    """Seconds to work through a backlog. `in_flight`: how many messages each worker may hold."""
    await queue.publish([b"%d" % n + b"x" * _SIZE for n in range(count)])
    gc.collect()  # what others left would be collected at our cost: each Java object that Kafka's side dropped is a call
    working = await asyncio.gather(*(queue.worker(in_flight) for _ in range(workers)))
    backlog = Backlog(count, single=single)
    began = time.perf_counter()
    await backlog.done_by(working)
    seconds = time.perf_counter() - began
    for worker in working:
        await worker.close()
    return seconds


async def idle_ms(queue: Queue, count: int) -> list[float]:
    """Milliseconds from sending to having, of single messages."""
    worker = await queue.worker(10)
    took: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        sending = asyncio.ensure_future(queue.publish([b"one"]))
        messages = await worker.take()
        took.append((time.perf_counter() - began) * 1000)
        await sending
        await worker.ack(messages)
        await asyncio.sleep(0.002)
    await worker.close()
    return sorted(took)


async def memory_bytes(folder: Path) -> float:
    """Bytes of all brokers for each message in flight, in a new cluster: one that has worked hard may give memory back."""
    async with Ours.running(folder) as queue:
        await backlog_s(queue, 1, _WARM, _WARM_IN_FLIGHT, single=False)
        assert isinstance(queue, Ours)
        return await held_bytes(queue)


async def held_bytes(ours: Ours) -> float:
    """Bytes of all brokers for each message in flight, in a cluster that is warm and at rest."""
    await ours.publish([b"x" * _SIZE] * _HELD)
    before = sum(map(rss_bytes, ours.pids))
    worker = await ours.worker(2 * _HELD)  # an idle broker keeps room for one record more
    held: list[Any] = []
    while len(held) < _HELD:
        held.extend(await worker.take())
    bytes_each = (sum(map(rss_bytes, ours.pids)) - before) / _HELD
    await worker.ack(held)
    await worker.close()
    return bytes_each


Found = dict[tuple[str, str], list[float]]
"""What was measured, by row and side."""


class Side(NamedTuple):
    """A system under test. `running` starts its servers in a new folder, and ends them."""

    name: str
    running: Callable[[Path], AbstractAsyncContextManager[Queue]]


async def measure_idle(side: Side, folder: Path, found: Found) -> None:
    """Measures one side once, while no other is up."""
    async with side.running(folder) as queue:
        await backlog_s(queue, 1, _WARM, _WARM_IN_FLIGHT, single=False)
        await idle_ms(queue, _IDLE)
        await rest()
        took_ms = await idle_ms(queue, _IDLE)
    found["idle, p50 ms", side.name].append(took_ms[len(took_ms) // 2])
    found["idle, p99 ms", side.name].append(took_ms[len(took_ms) * 99 // 100])


async def rest() -> None:
    """Has the garbage collected and the disks written first: else what was dropped or written before costs who comes next."""
    gc.collect()
    await asyncio.to_thread(os.sync)
    await asyncio.sleep(_REST_S)


async def measure_backlogs(queue: Queue, records: int, in_flight: int, found: Found) -> None:
    """Measures one side once."""
    await rest()
    for workers in (1, 8):
        for single in (True, False):
            name = f"{workers} worker{'s' * (workers > 1)}, {'single' if single else 'batched'} acks, k messages/s"
            seconds = await backlog_s(queue, workers, records, in_flight, single=single)
            found[name, queue.name].append(records / seconds / 1000)


def peers(args: argparse.Namespace) -> list[Side]:
    """Returns the peers whose programs are there, and says which are not."""
    found: list[Side] = []
    for name, peer, given in (("nsqd", Nsq, args.nsqd), ("redis-server", Redis, args.redis)):
        program = found_program(name, given)
        if program is None:
            print(f"{name} is not on PATH: left out")
            continue
        found.append(Side(peer.name, partial(peer.running, program)))
    if not args.kafka_jars:
        print(f"Kafka's share groups are left out: they need --kafka-jars, {JARS}")
        return found
    from bench.kafka_share import ShareGroup  # late: it needs py4j

    return [*found, Side(ShareGroup.name, partial(ShareGroup.running, Path(args.kafka_jars)))]


async def measure(args: argparse.Namespace, root: Path) -> None:
    """Runs all sides, and prints the table."""
    found: Found = defaultdict(list)
    sides = [*peers(args), Side(Ours.name, Ours.running)]  # ours is last: Kafka's start would block our client
    notes: list[str] = []
    try:
        if args.only != "backlogs":
            await measure_all_idle(sides, args.rounds, root, found)
        if args.only != "idle":
            notes = await measure_all_backlogs(sides, args, root, found)
            progress("memory")
            memory = await memory_bytes(_folder(root))
            notes.append(f"memory: {memory:.0f} bytes of all brokers for each message in flight")
    finally:  # what was measured before an error counts
        print(table(found))
    for note in notes:
        print(note)


async def measure_all_idle(sides: Sequence[Side], rounds: int, root: Path, found: Found) -> None:
    """Measures the sides in turn, each alone."""
    for number in range(rounds):
        for side in sides:
            progress(f"idle, round {number + 1}: {side.name}")
            await measure_idle(side, _folder(root), found)


async def measure_all_backlogs(sides: Sequence[Side], args: argparse.Namespace, root: Path, found: Found) -> list[str]:
    """Measures the sides in turn, while all of them are up. Returns what a reader has to know."""
    async with contextlib.AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(side.running(_folder(root))) for side in sides]
        for number in range(args.rounds):
            for queue in queues:
                progress(f"backlogs, round {number + 1}: {queue.name}")
                await measure_backlogs(queue, args.records, args.in_flight, found)
        return [queue.note for queue in queues if queue.note]


def progress(what: str) -> None:
    """Says what is measured now."""
    print(f"{what} ...", file=sys.stderr, flush=True)


def _folder(root: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=root))


def table(found: Mapping[tuple[str, str], Sequence[float]]) -> str:
    """The medians, a column for each side."""
    rows, names = (list(dict.fromkeys(key[part] for key in found)) for part in (0, 1))
    names.sort(key=lambda name: name != Ours.name)
    width = max(map(len, rows), default=0)
    lines = [f"{'':{width}}  " + "  ".join(f"{name:>20}" for name in names)]
    for row in rows:
        cells = (f"{median(found[row, name]):.2f}" if (row, name) in found else "-" for name in names)
        lines.append(f"{row:{width}}  " + "  ".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.queues")
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=100, help="messages that each worker may hold")
    parser.add_argument(
        "--only", choices=("idle", "backlogs"), help="the rest is left out; memory goes with the backlogs"
    )
    parser.add_argument("--nsqd", default="", help="nsqd's program, when it is not on PATH")
    parser.add_argument("--redis", default="", help="redis-server's program, when it is not on PATH")
    parser.add_argument("--kafka-jars", default="", metavar="FOLDER", help=JARS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oncelog-queues-") as folder:
        uvloop.run(measure(args, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
