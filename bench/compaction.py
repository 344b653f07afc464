"""`python -m bench.compaction --gigabytes N [--keys K] [--folder DIR] [--rate BYTES] [--fsync] [--here]`: compacts one log.

It writes N GB of records of 100 bytes with K keys in batches of 1,000 to a real disk. Then a producer appends one record every
2 ms and a reader reads a batch every 5 ms, first alone, then beside the compaction, then alone again. It prints one line of
JSON: bytes and processor seconds, the largest memory of both processes, and the p99 of producer and reader without (`quiet`)
and with compaction (`beside`). A time is that of an append, with the wait for its turn of the event loop. `append_own` leaves
out how long the kernel let the thread wait for a processor: what is left is not the work of other processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import uvloop

from oncelog.core.batch.batch import encode_arrow
from oncelog.core.batch.header import BatchIdentity, partition_tag, read_header
from oncelog_partition_leader.log.compaction.pass_helper import HelperWorker
from oncelog_partition_leader.log.compaction.pass_job import Limits
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.adapters.files.os_disk import OsDisk
from oncelog_runtime.adapters.helper_processes import HelperProcesses

TOPIC_ID: Final = "0a" * 16
DIRECTORY: Final = f"bench-{TOPIC_ID}-0"
BATCH_RECORDS: Final = 1_000
RECORD_BYTES: Final = 100
KEY_BYTES: Final = 16
QUIET_S: Final = 5.0
IDENTITY: Final = BatchIdentity(partition_tag(TOPIC_ID, 0))


def batch(random: np.random.Generator, keys: int, count: int = BATCH_RECORDS) -> bytes:
    """Records with keys that are drawn evenly."""
    names = pa.array(np.char.zfill(random.integers(0, keys, count).astype("S16"), KEY_BYTES).tolist(), pa.binary())
    values = pa.array([random.bytes(RECORD_BYTES - KEY_BYTES)] * count, pa.binary())
    return encode_arrow(pa.RecordBatch.from_arrays([names, values], ["key", "value"]), IDENTITY, timestamp_ms=1)


async def fill(log: PartitionLog, size: int, keys: int) -> None:
    """Writes about `size` bytes."""
    random = np.random.default_rng(1)
    while log.size_bytes < size:
        data = [batch(random, keys) for _ in range(50)]
        log.append_as_leader([(read_header(one), one) for one in data], 1, 1)
        await log.sync()


class Times:
    """What clients waited for, in milliseconds; `queued`: how long the kernel let this thread wait for a processor."""

    def __init__(self) -> None:
        self.appends: list[float] = []
        self.reads: list[float] = []
        self.queued: list[float] = []

    def __iadd__(self, other: Times) -> Times:
        self.appends += other.appends
        self.reads += other.reads
        self.queued += other.queued
        return self

    def p99s(self, name: str) -> dict[str, float]:
        """The p99 of each, the worst append and read, and the p99 of appends without the time in the queue."""
        own = np.maximum(np.subtract(self.appends, self.queued), 0)
        every = {"append": self.appends, "read": self.reads, "append_own": own}
        found = {f"{kind}_p99_ms_{name}": round(float(np.percentile(times, 99)), 2) for kind, times in every.items()}
        return found | {f"worst_ms_{name}": round(max(*self.appends, *self.reads), 1)}


class Clients:
    """A producer and a reader beside the compaction."""

    def __init__(self, log: PartitionLog, *, syncs: bool) -> None:
        self._log = log
        self._syncs = syncs
        self.alone = asyncio.Lock()
        self._random = np.random.default_rng(2)
        self._times = Times()

    async def produce(self) -> None:
        """Appends a record every 2 ms."""
        data = batch(self._random, 10, 1)
        pair = (read_header(data), data)
        while True:
            due, queued = time.perf_counter() + 0.002, _queued_ms()
            await asyncio.sleep(0.002)
            self._log.append_as_leader([pair], 1, 1)
            if self._syncs:
                async with self.alone:
                    await self._log.sync()
            self._times.appends.append((time.perf_counter() - due) * 1000)
            self._times.queued.append(_queued_ms() - queued)

    async def read(self) -> None:
        """Reads a batch somewhere in the log every 5 ms."""
        while True:
            due = time.perf_counter() + 0.005
            await asyncio.sleep(0.005)
            end = self._log.log_end_offset
            self._log.read(int(self._random.integers(0, end)), 1 << 16, end)
            self._times.reads.append((time.perf_counter() - due) * 1000)

    def taken(self) -> Times:
        """The times since the last call."""
        times, self._times = self._times, Times()
        return times


def _queued_ms() -> float:
    """How long this thread was ready to run and did not, since it began: other processes have the processors then."""
    with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
        return int(file.read().split()[1]) / 1e6


async def measure(folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Fills a log, compacts it, and says how that went."""
    size, keys = int(given.gigabytes * 1e9), given.keys
    config = LogConfig(cleanup_policy="compact", segment_bytes=256 << 20, min_cleanable_dirty_ratio=0.0)
    log = await PartitionLog.open(OsDisk(folder), DIRECTORY, config)
    await fill(log, size, keys)
    log._roll()
    await log.sync()
    before = log.size_bytes
    worker = HelperWorker(HelperProcesses(folder))
    clients = Clients(log, syncs=given.fsync)
    beside = [asyncio.create_task(clients.produce()), asyncio.create_task(clients.read())]
    await asyncio.sleep(QUIET_S)
    quiet = clients.taken()
    began, cpu_began, end = time.perf_counter(), time.process_time(), log.log_end_offset
    limits = Limits(2_000_000, 128 << 20, given.rate)
    tally = await log.compact(10, end, limits, clients.alone, None if given.here else worker)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    busy = clients.taken()
    worker.rest()
    await asyncio.sleep(QUIET_S)
    quiet += clients.taken()
    for task in beside:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    assert tally is not None, "a pass was due"
    log.check()
    helper = resource.getrusage(resource.RUSAGE_CHILDREN)
    helper_cpu_seconds = helper.ru_utime + helper.ru_stime
    found = {
        "gigabytes": round(before / 1e9, 2),
        "keys": keys,
        "seconds": round(seconds, 1),
        "mb_per_s": round(before / 1e6 / seconds, 1),
        "cpu_seconds_here": round(cpu_seconds, 1),
        "cpu_seconds_helper": round(helper_cpu_seconds, 1),
        "records_seen": tally.records_seen,
        "records_kept": tally.records_kept,
        "gigabytes_after": round(log.size_bytes / 1e9, 3),
        "memory_mb_here": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "memory_mb_helper": round(helper.ru_maxrss / 1024),
    }
    for name, times in (("quiet", quiet), ("beside", busy)):
        found |= times.p99s(name)
    await log.close()
    return found


def main() -> int:
    """Runs it in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument(
        "--folder", type=Path, default=None, help="on the disk to measure; default: the system's temporary one"
    )
    parser.add_argument(
        "--rate", type=int, default=0, help="bytes per second that the pass may read and write; 0 = no bound"
    )
    parser.add_argument(
        "--fsync", action="store_true", help="the producer waits for the disk, one append after the other"
    )
    parser.add_argument("--here", action="store_true", help="in threads of the clients' process, without a helper")
    given = parser.parse_args()
    sys.setswitchinterval(0.0005)  # as the services do
    folder = Path(tempfile.mkdtemp(prefix="oncelog-compaction-", dir=given.folder))
    try:
        found = uvloop.run(measure(folder, given))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
