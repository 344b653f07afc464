"""Channels beside NSQ and Redis Streams: `python -m bench.queues [--nsqd PATH] [--redis PATH] [--records 50000] [--rounds 3]`.

Ours is a local cluster with three brokers, every record replicated three times, every acknowledgement durable in a log that is
replicated and synced. NSQ and Redis are one process without replicas (`queue_peers` says how they run). Clients are Python and
asyncio on all sides, in one process. The sides take turns, round by round. Printed for each side, as medians:

    k messages/s    of a backlog of `--records` messages of 100 bytes through 1 and 8 workers; `single`: each message is
                    acknowledged by itself, up to 100 in flight for each worker; `batched`: what was taken together
    idle, p50, p99  milliseconds from sending one message until a worker has it, one after the other
    memory          bytes of the brokers for each message in flight: 20,000 of them are held by one worker

A side whose program is not there is left out, and the report says so. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import uvloop

from bench.processes import rss_bytes
from bench.queue_peers import CHANNEL, TOPIC, Nsq, Queue, Redis, Worker, found_program
from oncelog.client.client import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

IN_FLIGHT: Final = 100
_HELD: Final = 20_000
_SIZE: Final = 100


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
    async def running(folder: Path) -> AsyncIterator[Ours]:
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


async def backlog_s(queue: Queue, workers: int, count: int, *, single: bool) -> float:
    """Seconds to work through a backlog."""
    await queue.publish([b"%d" % n + b"x" * _SIZE for n in range(count)])
    working = [await queue.worker(IN_FLIGHT) for _ in range(workers)]
    left, over = count, asyncio.Event()

    async def one(worker: Worker, message: Any) -> None:
        nonlocal left
        await worker.ack([message])
        left -= 1
        if not left:
            over.set()

    async def work(worker: Worker) -> None:
        nonlocal left
        running: set[asyncio.Task[None]] = set()
        while True:
            messages = await worker.take()
            if single:
                for message in messages:
                    task = asyncio.ensure_future(one(worker, message))
                    running.add(task)
                    task.add_done_callback(running.discard)
                continue
            await worker.ack(messages)
            left -= len(messages)
            if left <= 0:
                over.set()

    began = time.perf_counter()
    tasks = [asyncio.ensure_future(work(worker)) for worker in working]
    await over.wait()
    seconds = time.perf_counter() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
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


async def held_bytes(ours: Ours) -> float:
    """Bytes of all brokers for each message in flight."""
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


async def round_of(queue: Queue, records: int, found: dict[tuple[str, str], list[float]]) -> None:
    """Measures one side once."""
    for workers in (1, 8):
        for single in (True, False):
            name = f"{workers} worker{'s' * (workers > 1)}, {'single' if single else 'batched'} acks, k messages/s"
            seconds = await backlog_s(queue, workers, records, single=single)
            found[name, queue.name].append(records / seconds / 1000)
    late = await idle_ms(queue, 300)
    found["idle, p50 ms", queue.name].append(late[len(late) // 2])
    found["idle, p99 ms", queue.name].append(late[len(late) * 99 // 100])


async def measure(args: argparse.Namespace, folder: Path) -> None:
    """Runs all sides, and prints the table."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    async with contextlib.AsyncExitStack() as stack:
        ours = await stack.enter_async_context(Ours.running(folder / "ours"))
        sides: list[Queue] = [ours]
        for name, running, given in (("nsqd", Nsq.running, args.nsqd), ("redis-server", Redis.running, args.redis)):
            program = found_program(name, given)
            if program is None:
                print(f"{name} is not on PATH: left out")
                continue
            (folder / name).mkdir()
            sides.append(await stack.enter_async_context(running(program, folder / name)))
        for number in range(args.rounds):
            for side in sides:
                print(f"round {number + 1}: {side.name} ...", file=sys.stderr, flush=True)
                await round_of(side, args.records, found)
        memory = await held_bytes(ours)
    names = [side.name for side in sides]
    rows = list(dict.fromkeys(name for name, _ in found))
    width = max(map(len, rows))
    print(f"{'':{width}}  " + "  ".join(f"{name:>20}" for name in names))
    for row in rows:
        print(f"{row:{width}}  " + "  ".join(f"{median(found[row, name]):20.2f}" for name in names))
    print(f"memory: {memory:.0f} bytes of all brokers for each message in flight")


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.queues")
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nsqd", default="", help="nsqd's program, when it is not on PATH")
    parser.add_argument("--redis", default="", help="redis-server's program, when it is not on PATH")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oncelog-queues-") as folder:
        uvloop.run(measure(args, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
