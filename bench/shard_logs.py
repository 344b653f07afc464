"""What years of transactions leave behind: `python -m bench.shard_logs --transactions 1000000 --ids 1000 [--minutes 15]`.

A local cluster with one broker and one coordinator, and `--ids` transactional producers in this process, each of whose
transactions writes one record; with `--groups N` it also commits an offset of one of N groups. Durability is reduced, and the
report says so: every log has one replica. With `--dir` on a memory disk (/dev/shm) a sync costs nothing either. After each
tenth, a line says

    p50         of a transaction, begin to commit, over the last `--window` of them
    disk        bytes of the shards' logs on the broker
    memory      resident bytes of the coordinator and of the broker; and how many records its shards' logs hold

and, after the coordinator was killed (SIGKILL) and started again: records and time of each shard's replay, and the time
from the start of the process until a transaction commits again. `--minutes` ends the work earlier.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

from oncelog.client.client import Client
from oncelog.client.consume.offsets import GroupMetadata
from oncelog.client.produce.producer import Producer
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalProcess
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS

TOPIC = "written"
PARTITIONS = 8
STEPS = 10
_SERVES = re.compile(r"shard (\S+) serves in epoch \d+: (\d+) records replayed in (\d+) ms")


@dataclass(frozen=True, slots=True)
class State:
    """Sizes after so many transactions, and the median of the last ones."""

    transactions: int
    p50_ms: float
    disk_bytes: int
    coordinator_bytes: int
    broker_bytes: int


@dataclass(frozen=True, slots=True)
class Replay:
    """One shard's replay."""

    shard: str
    records: int
    ms: int


@dataclass(slots=True)
class Work:
    """The transactions of all producers. `times_ms` are in the order of their ends."""

    producers: list[Producer]
    workers: int
    groups: int = 0
    times_ms: list[float] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    async def run(self, transactions: int, deadline_s: float = float("inf")) -> None:
        """Makes so many, each id in its turn."""
        left = iter(range(transactions))
        workers = min(self.workers, len(self.producers))
        shares = [self.producers[worker::workers] for worker in range(workers)]

        async def work(mine: list[Producer]) -> None:
            while True:
                for producer in mine:
                    if time.monotonic() > deadline_s or next(left, None) is None:
                        return
                    began = time.perf_counter()
                    await self._transaction(producer)
                    self.times_ms.append((time.perf_counter() - began) * 1e3)

        await asyncio.gather(*(work(share) for share in shares))

    async def _transaction(self, producer: Producer) -> None:
        transaction = await producer.begin_transaction()
        await transaction.send(TOPIC, b"x" * 100)
        if self.groups:
            number = next(self._numbers)
            group = GroupMetadata(f"group-{number % self.groups}")
            await transaction.send_offsets({(TOPIC, number % PARTITIONS): number}, group)
        await transaction.commit()


def disk_bytes(folder: Path) -> int:
    """Returns the bytes of the shards' logs in a broker's folder; a file may go while it is looked at."""
    total = 0
    for path in folder.rglob("*"):
        if any(part.startswith(tuple(f"{topic}-" for topic in INTERNAL_TOPICS)) for part in path.parts):
            try:
                total += path.stat().st_size if path.is_file() else 0
            except FileNotFoundError:
                continue
    return total


def memory_bytes(process: LocalProcess) -> int:
    """Returns the resident memory of a process."""
    assert process.popen is not None
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


def replays(log: str) -> Iterator[Replay]:
    """Yields what a coordinator's log says of its shards."""
    for shard, records, ms in _SERVES.findall(log):
        yield Replay(shard, int(records), int(ms))


class Trial:
    """The measurements on one cluster."""

    def __init__(self, cluster: LocalCluster, args: argparse.Namespace) -> None:
        self._cluster = cluster
        self._args = args
        self._coordinator = cluster.processes["coordinator-0"]
        self._states: list[State] = []

    async def run(self) -> None:
        """Prints the report."""
        args = self._args
        async with Client(self._cluster.bootstrap_servers) as client, AsyncExitStack() as stack:
            await client.admin.create_topic(TOPIC, partitions=PARTITIONS)
            producers = [client.producer(transactional_id=f"id-{number}") for number in range(args.ids)]
            for producer in producers:
                await stack.enter_async_context(producer)
            work = Work(producers, args.workers, args.groups)
            await work.run(args.ids)  # the first one of each id costs more
            work.times_ms.clear()
            print(
                f"{args.ids} ids, {args.workers} at a time, {args.groups} groups; every log has one replica, in {args.dir}:"
            )
            print("the latencies are not those of a real cluster", flush=True)
            await self._measure(work)
            self._report()
            await self._fail_over(Work(producers[:1], 1, args.groups))

    async def _measure(self, work: Work) -> None:
        began = time.monotonic()
        deadline_s = began + 60 * self._args.minutes
        for _ in range(STEPS):
            await work.run(self._args.transactions // STEPS, deadline_s)
            self._states.append(self._state(work.times_ms))
            print(f"{self._line(self._states[-1])}  {time.monotonic() - began:6.0f} s", flush=True)
            if time.monotonic() > deadline_s:
                break
            del work.times_ms[: -self._args.window]

    def _state(self, times_ms: list[float]) -> State:
        done = self._states[-1].transactions if self._states else 0
        before = min(done, self._args.window)
        return State(
            done + len(times_ms) - before,
            median(times_ms[-self._args.window :]),
            disk_bytes(self._cluster.data_dir / "broker-0"),
            memory_bytes(self._coordinator),
            memory_bytes(self._cluster.processes["broker-0"]),
        )

    @staticmethod
    def _line(state: State) -> str:
        return (
            f"{state.transactions:9} transactions: p50 {state.p50_ms:6.1f} ms, shard logs {state.disk_bytes / 2**20:7.1f} MiB, "
            f"coordinator {state.coordinator_bytes / 2**20:6.1f} MiB, broker {state.broker_bytes / 2**20:6.1f} MiB"
        )

    def _report(self) -> None:
        first, last = self._states[0], self._states[-1]
        for name in ("p50_ms", "disk_bytes", "coordinator_bytes", "broker_bytes"):
            print(
                f"{name:18} {getattr(last, name) / getattr(first, name):5.2f} times what it was after the first tenth"
            )

    async def _fail_over(self, work: Work) -> None:
        self._coordinator.kill()
        began, at = time.monotonic(), self._coordinator.log_path.stat().st_size
        self._coordinator.start()
        await work.run(1)
        seconds = time.monotonic() - began
        await asyncio.sleep(5)
        log = self._coordinator.log_path.read_bytes()[at:]
        found = list(replays(log.decode(errors="replace")))
        if not found:
            print("the coordinator's log says nothing of a replay")
            return
        slowest = max(found, key=lambda replay: replay.ms)
        records = sum(replay.records for replay in found)
        print(f"{len(found)} shards replayed {records} records, most of them {max(r.records for r in found)}")
        print(f"slowest replay: {slowest.shard}, {slowest.records} records in {slowest.ms} ms; all shards at once")
        print(f"a transaction commits {seconds:.1f} s after the start of the coordinator")
        print(f"memory of the coordinator then: {memory_bytes(self._coordinator) / 2**20:.1f} MiB")


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.shard_logs")
    parser.add_argument("--transactions", type=int, default=20_000)
    parser.add_argument("--ids", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=0, help="so many groups have offsets committed; 0: none")
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--window", type=int, default=2_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="the folder in which the cluster's folder is made")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=args.dir) as folder,
        LocalCluster(Path(folder), brokers=1, coordinators=1) as cluster,
    ):
        asyncio.run(Trial(cluster, args).run())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
