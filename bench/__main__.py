"""`make bench`: every figure beside its limit, measured in one run. Prints a table, writes bench/out/latest.json.

ARGS="--only produce,transactions" runs parts; ARGS="--quick" makes runs short (for trying, not for quoting).
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from bench import loops
from bench.bare import BarePipeline
from bench.produce import BYTES_PER_ROW, IN_FLIGHT, single_records, throughput
from bench.results import Row, save, table
from bench.transactions import back_to_back
from oncelog.link.malloc import tune_malloc
from oncelog.sync import Client as SyncClient
from oncelog_cli.laptop.local_cluster import LocalCluster

T = TypeVar("T")
PARTS = ("produce", "transactions", "loops", "spark", "small")
_PLAIN = "bare pipeline, gRPC as it comes"
_ROUNDS = 3
"""How often each side of a comparison is measured, in turn with the others."""
OUT = Path(__file__).parent / "out" / "latest.json"


_loop = uvloop.new_event_loop()


def _run(work: Coroutine[Any, Any, T]) -> T:
    """On one loop for the whole run: gRPC's poller outlives a loop that is closed, and complains."""
    return _loop.run_until_complete(work)


def _create(cluster: LocalCluster, name: str, partitions: int) -> str:
    with SyncClient(cluster.bootstrap_servers) as client:
        client.admin.create_topic(name, partitions=partitions, replication_factor=3)
    return name


def _in_turn(*sides: Callable[[], float]) -> list[float]:
    """The median of each side over some rounds: what else the machine does in a round hits all of them."""
    found: list[list[float]] = [[] for _ in sides]
    for number in range(_ROUNDS):
        for place in range(len(sides)):  # each begins a round once
            at = (number + place) % len(sides)
            found[at].append(sides[at]())
    return [statistics.median(figures) for figures in found]


def _produce(cluster: LocalCluster, bare: BarePipeline, plain: BarePipeline, scale: float) -> list[Row]:
    """`plain`: the bare pipeline with gRPC's own poller."""
    topic = _create(cluster, "bench-produce", 1)
    servers = cluster.bootstrap_servers
    rows: list[Row] = []
    for name, size, batches, target in (("1 MiB", 1 << 20, 600, ">= 0.5"), ("64 KiB", 64 << 10, 4000, ">= 0.6")):
        count = max(20, int(batches * scale))
        ours, limit, own = _in_turn(
            partial(_throughput, servers, topic, size, count),
            partial(_bare_mb_per_s, bare, size, count),
            partial(_bare_mb_per_s, plain, size, count),
        )
        rows.append(Row(f"acks=all, {name} batches", ours, "MB/s", "MB/s bare pipeline", limit, target))
        rows.append(Row(f"acks=all, {name} batches", ours, "MB/s", f"MB/s {_PLAIN}", own, target))
        rows.append(Row(f"acks=all, {name} batches, records", ours * 1e3 / BYTES_PER_ROW, "k records/s"))
    count = max(200, int(4000 * scale))
    p99s_ms: list[float] = []
    p50, limit, own = _in_turn(
        partial(_single, servers, topic, count, p99s_ms),
        lambda: bare.run(400, count, 1).p50_ms,
        lambda: plain.run(400, count, 1).p50_ms,
    )
    rows.append(Row("acks=all, single record, p50", p50, "ms", "ms bare pipeline", limit, "<= 2"))
    rows.append(Row("acks=all, single record, p50", p50, "ms", f"ms {_PLAIN}", own, "<= 2"))
    rows.append(Row("acks=all, single record, p99", statistics.median(p99s_ms), "ms"))
    return rows


def _bare_mb_per_s(pipeline: BarePipeline, message_bytes: int, messages: int) -> float:
    return pipeline.run(message_bytes, messages, IN_FLIGHT).mb_per_s


def _throughput(servers: str, topic: str, batch_bytes: int, batches: int) -> float:
    return _run(throughput(servers, topic, batch_bytes, batches)).mb_per_s


def _single(servers: str, topic: str, count: int, p99s_ms: list[float]) -> float:
    """The median; the 99th percentile is added to `p99s_ms`."""
    found = _run(single_records(servers, topic, count))
    p99s_ms.append(found.p99_ms)
    return found.p50_ms


def _transactions(cluster: LocalCluster, scale: float) -> list[Row]:
    topic = _create(cluster, "bench-transactions", 3)
    rows: list[Row] = []
    for records, wait, target in (
        (1, "decided", "<= 10 ms"),
        (1, "visible", ""),
        (100, "decided", ""),
        (100, "visible", ""),
    ):
        count = max(50, int(500 * scale))
        found = _run(back_to_back(cluster.bootstrap_servers, topic, records, count, wait))
        name = f"transaction of {records}, back to back, {wait}"
        rows.append(Row(f"{name}, p50", found.p50_ms, "ms", target=target))
        rows.append(Row(f"{name}, p99", found.p99_ms, "ms"))
    return rows


def _spark(cluster: LocalCluster, scale: float) -> list[Row]:
    topic = _create(cluster, "bench-spark", 6)
    count = int(2_000_000 * scale) // 20_000 * 20_000
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "times.json"
        _spark_process("bench.spark_job", cluster.bootstrap_servers, topic, str(count), str(out))
        seconds = json.loads(out.read_text())
    million = count / 1e6
    return [
        Row("Spark write, exactly once", million / seconds["write"], "M rows/s", "M rows/s counting writer",
            million / seconds["count_write"], ">= 0.3"),
        Row("Spark read, read_committed", million / seconds["read"], "M rows/s", "M rows/s counting reader",
            million / seconds["count_read"]),
    ]  # fmt: skip


def _loops(cluster: LocalCluster, scale: float) -> list[Row]:
    records = int(400_000 * scale)
    loops.create(cluster.bootstrap_servers, {}, records + 10_000)
    rows: list[Row] = []
    for name, words, target in (
        ("getmany", "getmany", ""),
        ("async_for", "async for", ">= 400 k"),
        ("sync_for", "for, without await", ">= 200 k"),
        ("async_send", "await send", ""),
        ("sync_send", "send, without await", ">= 150 k"),
    ):
        found = loops.LOOPS[name](cluster.bootstrap_servers, {}, records)
        speed = _run(found) if inspect.iscoroutine(found) else found
        rows.append(Row(f"loop: {words}", speed / 1e3, "k records/s", target=target))
    first_ms = loops.first_call_ms(cluster.bootstrap_servers, max(3, int(15 * scale)))
    rows.append(Row("import, client and first answer", first_ms, "ms", target="<= 300 ms"))
    return rows


def _small(cluster: LocalCluster, scale: float) -> list[Row]:
    topic = _create(cluster, "bench-small", 3)
    tasks = 100
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "times.json"
        counts = [str(max(10, int(100 * scale))), str(tasks)]
        _spark_process("bench.spark_small", cluster.bootstrap_servers, topic, str(out), *counts)
        ours, idle, noop = (json.loads(out.read_text())[name] for name in ("oncelog", "idle", "noop"))
    beside, alone = "ms with a Python sink that writes nothing", "ms with the sink noop"
    batch, part = "micro_batch", "triggerExecution"
    return [
        Row("Spark micro-batch, rate to sink", ours[batch][part], "ms", beside, idle[batch][part], "<= 130 ms"),
        Row("Spark micro-batch, addBatch", ours[batch]["addBatch"], "ms", beside, idle[batch]["addBatch"]),
        Row(f"Spark task of one row, of {tasks}", ours["tasks"] / tasks, "ms", beside, idle["tasks"] / tasks, "<= 12 ms"),
        Row("Python sink that writes nothing, micro-batch", idle[batch][part], "ms", alone, noop[batch][part]),
        Row("Python sink that writes nothing, task", idle["tasks"] / tasks, "ms", alone, noop["tasks"] / tasks),
    ]  # fmt: skip


def _spark_process(module: str, *arguments: str) -> None:
    here = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    subprocess.run([sys.executable, "-m", module, *arguments], check=True, env={**os.environ, **here})


def main() -> int:
    """Exit code 0 also when a target is missed: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts to run, of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    args = parser.parse_args()
    parts = args.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    tune_malloc()
    scale = 0.1 if args.quick else 1.0
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder, LocalCluster(Path(folder)) as cluster:
        # Transactions first: throughput leaves dirty pages, whose write-back slows every sync.
        if "transactions" in parts:
            print("transactions ...", flush=True)
            rows += _transactions(cluster, scale)
        if "produce" in parts:
            print("produce ...", flush=True)
            with BarePipeline() as bare, BarePipeline(as_it_comes=True) as plain:
                rows += _produce(cluster, bare, plain, scale)
        if "loops" in parts:
            print("loops ...", flush=True)
            rows += _loops(cluster, scale)
        if "spark" in parts:
            print("Spark ...", flush=True)
            rows += _spark(cluster, scale)
        if "small" in parts:
            print("small Spark jobs ...", flush=True)
            rows += _small(cluster, scale)
    save(rows, OUT)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
