"""One side of a comparison: a cluster and a client of the source tree that PYTHONPATH names, measured on command.

    python bench/side.py FOLDER [FLAG ...]     the flags go to every service

Each line on stdin is `KIND COUNT`; the answer is two numbers: milliseconds at the median, or microseconds per record; and the
CPU milliseconds that the cluster and the client took for one of the COUNT (`spark` and loops: thousands of rows).
ONCELOG_BENCH_GUARD in the environment chooses a cluster of `bench.guarded` instead of one in plaintext, and with
ONCELOG_BENCH_SPARK there is a Spark session for the kind `spark`.
Run as a file and not as a module: everything that it imports of oncelog must come from the tree under test.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import uvloop

from bench.loops import LOOPS, create
from bench.produce import single_records, throughput
from bench.transactions import back_to_back
from bench.trees import LocalCluster, tune_malloc
from oncelog.sync import Client

_BATCH_BYTES: Final = {"batches": 64 << 10, "large": 1 << 20}
_TRANSACTIONS: Final = {"transaction": (1, "decided"), "visible": (1, "visible"), "hundred": (100, "decided")}
_LOOP_RECORDS: Final = 100_000
_TICK_MS: Final = 1000 / os.sysconf("SC_CLK_TCK")


async def _measure(servers: str, options: dict[str, Any], kind: str, count: int) -> float:
    if kind == "record":
        return (await single_records(servers, "one", count, **options)).p50_ms
    if kind in _BATCH_BYTES:
        return 1e6 / (await throughput(servers, "batches", _BATCH_BYTES[kind], count, **options)).records_per_s
    records, wait = _TRANSACTIONS[kind]
    return (await back_to_back(servers, "three", records, count, wait, **options)).p50_ms


def _loop_us(
    loop: asyncio.AbstractEventLoop, servers: str, options: dict[str, Any], kind: str, records: int, is_first: bool
) -> float:
    """Microseconds per record of a loop that people write."""
    if is_first:
        create(servers, options, _LOOP_RECORDS)
    assert records < _LOOP_RECORDS
    found = LOOPS[kind](servers, options, records)
    return 1e6 / (loop.run_until_complete(found) if asyncio.iscoroutine(found) else found)


@contextmanager
def _cluster(folder: Path, flags: tuple[str, ...]) -> Iterator[tuple[LocalCluster, dict[str, Any]]]:
    """And the options of its clients."""
    mode = os.environ.get("ONCELOG_BENCH_GUARD")
    if mode:
        from bench.guarded import guarded  # other trees have no such thing

        with guarded(folder, mode) as found:
            yield found
    else:
        with LocalCluster(folder, flags=flags) as cluster:
            yield cluster, {}


def _cpu_ms() -> float:
    """Of this process and its descendants, all of which live."""
    stats = [_stat(entry) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for pid, parent, ticks in filter(None, stats):
        children.setdefault(parent, []).append(pid)
        used[pid] = ticks
    family = [os.getpid()]
    for pid in family:
        family += children.get(pid, [])
    return sum(used[pid] for pid in family) * _TICK_MS


def _stat(entry: Path) -> tuple[int, int, int] | None:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(entry.name), int(fields[1]), int(fields[11]) + int(fields[12])


def _spark() -> Any:
    """Before anything of gRPC runs: Spark forks for its JVM, which links that are open do not survive."""
    if not os.environ.get("ONCELOG_BENCH_SPARK"):
        return None
    from bench.spark_write import SparkWriter

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkWriter()


def main() -> int:
    """Until stdin ends."""
    tune_malloc()
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    spark = _spark()
    with _cluster(Path(sys.argv[1]), tuple(sys.argv[2:])) as (cluster, options):
        servers = cluster.bootstrap_servers
        with Client(servers, **options) as client:
            for topic, partitions in (("one", 1), ("batches", 1), ("three", 3), ("spark", 3)):
                client.admin.create_topic(topic, partitions=partitions, replication_factor=3)
        has_loops = False
        print("ready", flush=True)
        for line in sys.stdin:
            kind, count = line.split()
            before_ms = _cpu_ms()
            if kind in LOOPS:
                found = _loop_us(loop, servers, options, kind, 1000 * int(count), is_first=not has_loops)
                has_loops = True
            elif kind == "spark":
                found = spark.microseconds_per_row(servers, "spark", options, 1000 * int(count))
            else:
                found = loop.run_until_complete(_measure(servers, options, kind, int(count)))
            print(found, (_cpu_ms() - before_ms) / int(count), flush=True)
        if spark is not None:
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
