"""How late delayed records come: `python -m bench.delays [--waiting 1000000] [--records 2000] [--rate 200]`.

A local cluster with three brokers and a topic of four partitions, replicated three times. `--waiting` records are due between
an hour and a year from now. Then `--records` records are sent, `--rate` a second, each due 1 to 5 seconds later, and a consumer
in the same process notes how long after its time each one is seen. Printed:

    late        milliseconds from the time at which a record is due until a consumer has it: p50, p99, worst
    early       records that were seen before their time; 0 is promised
    memory      resident bytes of the brokers in all: before anything waits, with what waits, and per waiting record

Times are those of one machine's clock, and need a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
import pyarrow as pa
import uvloop

from bench.processes import rss_bytes
from oncelog.client.client import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

TOPIC: Final = "later"
PARTITIONS: Final = 4
_CHUNK: Final = 20_000
_HOUR_MS: Final = 3_600_000
_YEAR_MS: Final = 364 * 24 * _HOUR_MS


def now_ms() -> float:
    """Wall clock, as the brokers have it."""
    return time.time() * 1000


async def fill(client: Client, count: int) -> None:
    """Writes records that are due long after the run."""
    random = np.random.default_rng(1)
    async with client.producer() as producer:
        await (
            await producer.send(
                TOPIC, b"the first makes the waiting topic", deliver_at=timedelta(milliseconds=_YEAR_MS)
            )
        )
        for begin in range(0, count, _CHUNK):
            size = min(_CHUNK, count - begin)
            due = random.integers(_HOUR_MS, _YEAR_MS, size) + int(now_ms())
            rows = pa.table({"timestamp": due, "value": pa.array([b"x" * 100] * size, pa.binary())})
            await (await producer.send_batch(f"__delayed.{TOPIC}", rows))


async def all_wait(client: Client, count: int) -> None:
    """Returns when the schedulers know of all of them."""
    while sum(one.waiting for one in await client.admin.describe_delayed(TOPIC)) < count:  # noqa: ASYNC110 - they are asked
        await asyncio.sleep(0.2)


async def lateness(client: Client, count: int, rate: float) -> list[float]:
    """Milliseconds between the time of each record and its arrival."""
    late: list[float] = []
    random = Random(2)

    async def read() -> None:
        async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
            while len(late) < count:
                found = await consumer.getmany(timeout_ms=1_000)
                late.extend(now_ms() - record.timestamp_ms for record in found)

    reading = asyncio.ensure_future(read())
    async with client.producer() as producer:
        for _ in range(count):
            await producer.send(TOPIC, b"x" * 100, deliver_at=timedelta(milliseconds=random.randrange(1_000, 5_000)))
            await asyncio.sleep(1 / rate)
    await reading
    return sorted(late)


async def measure(cluster: LocalCluster, args: argparse.Namespace) -> None:
    """Prints the report."""
    pids = [
        process.popen.pid
        for name, process in cluster.processes.items()
        if name.startswith("broker") and process.popen is not None
    ]
    async with Client(cluster.bootstrap_servers) as client:
        await client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        before = sum(map(rss_bytes, pids))
        began = time.monotonic()
        await fill(client, args.waiting)
        await all_wait(client, args.waiting)
        waited = time.monotonic() - began
        full = sum(map(rss_bytes, pids))
        print(f"waiting     {args.waiting} records, known to their schedulers after {waited:.1f} s")
        each = (full - before) / max(args.waiting, 1)
        print(
            f"memory      {before >> 20} MiB, then {full >> 20} MiB: {each:.0f} bytes for each waiting record, of 3 replicas"
        )
        late = await lateness(client, args.records, args.rate)
        print(
            f"late        p50 {late[len(late) // 2]:.1f} ms, p99 {late[len(late) * 99 // 100]:.1f} ms, worst {late[-1]:.1f} ms"
        )
        print(f"early       {sum(one < 0 for one in late)}")


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.delays")
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--rate", type=float, default=200.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, LocalCluster(Path(folder), brokers=3) as cluster:
        uvloop.run(measure(cluster, args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
