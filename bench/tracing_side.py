"""One side of `bench.tracing`: a cluster and a client of the source tree that PYTHONPATH names, measured on command.

    python bench/tracing_side.py FOLDER [FLAG ...]     the flags go to every service

Each line on stdin is `KIND COUNT`; the answer is one number: milliseconds at the median, or seconds per record.
Run as a file and not as a module: everything that it imports must come from the tree under test.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop

from bench.produce import single_records, throughput
from bench.transactions import back_to_back
from oncelog.malloc import tune_malloc
from oncelog.sync import Client
from oncelog_runtime.local import LocalCluster

_BATCH_BYTES = 64 << 10


async def _measure(servers: str, kind: str, count: int) -> float:
    if kind == "record":
        return (await single_records(servers, "one", count)).p50_ms
    if kind == "batches":
        return 1e6 / (await throughput(servers, "batches", _BATCH_BYTES, count)).records_per_s
    return (await back_to_back(servers, "three", 1, count, "decided")).p50_ms


def main() -> int:
    """Until stdin ends."""
    tune_malloc()
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    with LocalCluster(Path(sys.argv[1]), flags=tuple(sys.argv[2:])) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            for topic, partitions in (("one", 1), ("batches", 1), ("three", 3)):
                client.admin.create_topic(topic, partitions=partitions, replication_factor=3)
        print("ready", flush=True)
        for line in sys.stdin:
            kind, count = line.split()
            print(loop.run_until_complete(_measure(cluster.bootstrap_servers, kind, int(count))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
