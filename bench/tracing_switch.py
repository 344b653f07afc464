"""What tracing costs, switched in running processes: `python -m bench.tracing_switch [--seconds 240] [--share 0.01]`.

Two clusters of the same code differ by some percent, and a shared machine changes its speed every second: `bench.tracing`,
which compares clusters, cannot see 1 %. So here there is one cluster, and some thirty times a second the tracer is taken out
of every object of every service that holds it, or put back (`bench/switch`). The same few records and batches then come from
the client that is traced, or from the one that is not; who is first is drawn.

Rule 1: a figure is the median of the ratios of neighbours, with its 95 % interval from their order alone. `--control` never
        switches anything on: it shows what the method finds where there is nothing.
Rule 2: this does not see the sending of spans, which comes seconds later and meets both; nor what OpenTelemetry's modules cost
        by being loaded. For these there is `bench.tracing`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, Final

import uvloop

from bench.produce import IN_FLIGHT, RECORD_BYTES, rows_of
from oncelog.client.client import Client
from oncelog.link.malloc import tune_malloc
from oncelog.sync import Client as SyncClient
from oncelog_cli.laptop.local_cluster import LocalCluster

ROOT: Final = Path(__file__).resolve().parents[1]
SAMPLER: Final = "parentbased_traceidratio"
RECORDS: Final = 6
BATCHES: Final = 12
_BATCH_BYTES: Final = 64 << 10
_SETTLE_S: Final = 0.004
"""For the signals to reach the services."""
_WARM_UP: Final = 10

Work = Callable[[Any], Awaitable[None]]
Pairs = dict[str, list[tuple[float, float]]]


async def _records(producer: Any) -> None:
    value = os.urandom(RECORD_BYTES)
    for _ in range(RECORDS):
        await producer.send_and_wait("one", value, partition=0)


async def _batches(producer: Any, rows: Any) -> None:
    waiting: deque[Any] = deque()
    for _ in range(BATCHES):
        waiting.append(await producer.send_batch("batches", rows, partition=0))
        if len(waiting) >= IN_FLIGHT:
            await waiting.popleft()
    while waiting:
        await waiting.popleft()


async def _measure(cluster: LocalCluster, endpoint: str, args: argparse.Namespace, pairs: Pairs) -> None:
    """Adds (on, off) seconds to `pairs`, for as long as it was told."""
    rows = rows_of(_BATCH_BYTES)
    works: dict[str, Work] = {"record": _records, "batches": lambda producer: _batches(producer, rows)}
    options: dict[str, Any] = {}
    if not args.control:
        options = {"otlp_endpoint": endpoint, "trace_sampler": SAMPLER, "trace_sampler_arg": args.share}
    async with AsyncExitStack() as stack:
        producers = {}
        for is_on in (False, True):
            client = await stack.enter_async_context(Client(cluster.bootstrap_servers, **(options if is_on else {})))
            producer = client.producer(batch_size=2 << 20, buffer_memory=128 << 20)
            producers[is_on] = await stack.enter_async_context(producer)
        services = list(_services_below(os.getpid()))
        number, end = 0, time.monotonic() + args.seconds
        while time.monotonic() < end:
            number += 1
            seconds: dict[tuple[str, bool], float] = {}
            for is_on in random.sample((False, True), 2):
                for pid in services:
                    os.kill(pid, signal.SIGUSR2 if is_on and not args.control else signal.SIGUSR1)
                await asyncio.sleep(_SETTLE_S)
                for kind, work in works.items():
                    began = time.perf_counter()
                    await work(producers[is_on])
                    seconds[kind, is_on] = time.perf_counter() - began
            if number > _WARM_UP:
                for kind in works:
                    pairs.setdefault(kind, []).append((seconds[kind, True], seconds[kind, False]))


def _services_below(parent: int) -> Iterable[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text, command = stat.read_text(), stat.with_name("cmdline").read_text()
        except OSError:
            continue  # it has ended meanwhile
        if int(text.rpartition(")")[2].split()[1]) == parent and "oncelog_" in command:
            yield int(stat.parent.name)


def row(kind: str, pairs: Sequence[tuple[float, float]]) -> str:
    """One line of the table."""
    ratios = sorted(on / off for on, off in pairs)
    count = len(ratios)
    place = max(0, int(count / 2 - 0.98 * count**0.5))
    low, high = (100 * (ratio - 1) for ratio in (ratios[place], ratios[-1 - place]))
    cost = 100 * (statistics.median(ratios) - 1)
    total = 100 * (sum(on for on, _ in pairs) / sum(off for _, off in pairs) - 1)
    return f"{kind:<10} {cost:+6.1f} %  ({low:+.1f} to {high:+.1f})   in all {total:+.1f} %   {count} pairs"


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.tracing_switch")
    parser.add_argument("--seconds", type=float, default=240.0, help="how long to measure (default %(default)s)")
    parser.add_argument(
        "--share", type=float, default=0.01, help="of the traces that are recorded (default %(default)s)"
    )
    parser.add_argument("--control", action="store_true", help="never switch it on")
    args = parser.parse_args()
    tune_malloc()
    inherited = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "bench" / "switch"), inherited)))
    pairs: Pairs = {}
    with ExitStack() as stack:
        collector = stack.enter_context(
            subprocess.Popen([sys.executable, "-m", "bench.collector"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        )
        stack.callback(collector.terminate)
        assert collector.stdout is not None
        endpoint = f"http://127.0.0.1:{collector.stdout.readline().strip()}"
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-bench-"))
        flags = ("--otlp-endpoint", endpoint, "--trace-sampler", SAMPLER, "--trace-sampler-arg", str(args.share))
        cluster = stack.enter_context(LocalCluster(Path(folder), flags=flags))
        with SyncClient(cluster.bootstrap_servers) as client:
            for topic in ("one", "batches"):
                client.admin.create_topic(topic, partitions=1, replication_factor=3)
        loop = uvloop.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_measure(cluster, endpoint, args, pairs))
    for kind, found in pairs.items():
        print(row(kind, found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
