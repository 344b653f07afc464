"""`python -m bench.many_producers [--producers N] [--transactional T] [--active A] [--folder DIR]`: one partition, many ids.

It fills the producer state of one log with N producer ids of five batches each, and T transactional ids of three transactions
each, then stores checkpoints while a task counts the turns of the event loop, then closes the log and opens it again. It prints
one line of JSON: memory per producer, the longest turn of the loop beside a checkpoint, the size and time of a snapshot, the
time to open, and the CPU per appended batch of one and of 1,000 records, by one producer and by A active ones in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Final

from oncelog.core.batch.control import Marker
from oncelog.core.batch.header import CONTROL, TRANSACTIONAL, BatchIdentity, Content, read_header, seal
from oncelog.core.batch.header import partition_tag as tag_of
from oncelog_partition_leader.core.producers.decisions import APPEND, Origin
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.adapters.files.os_disk import OsDisk

TOPIC_ID: Final = "0a" * 16
DIRECTORY: Final = f"bench-{TOPIC_ID}-0"
FIRST_ID: Final = 1 << 40
FIRST_TXN_ID: Final = 1 << 41
BATCHES: Final = 5
TRANSACTIONS: Final = 3
NOW_MS: Final = 1_700_000_000_000
CHECKPOINTS: Final = 3


def batch(producer_id: int, sequence: int, records: int) -> bytes:
    """A plain batch of this many records, with 100 bytes each."""
    content = Content(0, 0, 0, records, NOW_MS, NOW_MS, 100 * records)
    return seal(b"x" * 100 * records, content, BatchIdentity(tag_of(TOPIC_ID, 0), producer_id, 0, sequence))


def fill(states: ProducerStates, producers: int, transactional: int) -> None:
    """Applies the batches of all producers, each of whom writes `BATCHES` batches and leaves, then the transactions."""
    like, offset = read_header(batch(0, 0, 10)), 0
    for number in range(producers):
        for sequence in range(0, 10 * BATCHES, 10):
            written = like._replace(producer_id=FIRST_ID + number, base_sequence=sequence, append_timestamp_ms=NOW_MS)
            states.apply(written, offset, None)
            offset += 10
    for number in range(transactional):
        for txn_no in range(1, TRANSACTIONS + 1):
            name = {"txn_producer_id": FIRST_TXN_ID + number, "txn_no": txn_no, "txn_shard": number % 50}
            own = {"producer_id": FIRST_TXN_ID + number, "append_timestamp_ms": NOW_MS, "attributes": TRANSACTIONAL}
            states.apply(like._replace(**own, **name), offset, None)
            end = like._replace(**own, **name)._replace(
                attributes=TRANSACTIONAL | CONTROL, record_count=1, last_offset_delta=0
            )
            states.apply(end, offset + 10, Marker(True, 1, 0, None, -1, False))
            offset += 11


class Turns:
    """The longest turn of the event loop, by the clock and by the CPU of its thread, as a waiting task sees it.

    On a machine that does other work too, only the CPU says what the loop itself did in a turn.
    """

    def __init__(self) -> None:
        self.longest_ms = self.longest_cpu_ms = 0.0

    async def count(self) -> None:
        """Notes each turn, until it is cancelled."""
        before, cpu_before = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0)
            now, cpu_now = time.perf_counter(), time.thread_time()
            self.longest_ms = max(self.longest_ms, (now - before) * 1000)
            self.longest_cpu_ms = max(self.longest_cpu_ms, (cpu_now - cpu_before) * 1000)
            before, cpu_before = now, cpu_now

    def found(self) -> dict[str, float]:
        """Returns both."""
        return {"longest_turn_ms": round(self.longest_ms, 1), "longest_turn_cpu_ms": round(self.longest_cpu_ms, 1)}


async def checkpoints(log: PartitionLog) -> dict[str, float]:
    """Stores checkpoints, one after the other, each after one more batch, while `Turns` watches the loop."""
    turns = Turns()
    gc.collect()
    gc.disable()  # its pauses are measured apart: they come whether a snapshot is taken or not
    watching = asyncio.create_task(turns.count())
    seconds = 0.0
    for number in range(CHECKPOINTS):
        data = batch(7, number, 1)
        log.append_as_leader([(read_header(data), data)], 1, NOW_MS)
        began = time.perf_counter()
        await log.sync()
        seconds = max(seconds, time.perf_counter() - began)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    gc.enable()
    return turns.found() | {"checkpoint_s": round(seconds, 2)}


def cpu_us(count: int, once: Callable[[int], object]) -> float:
    """The CPU of one call in microseconds: the best of five runs of `count` calls."""
    best = float("inf")
    for turn in range(5):
        began = time.process_time()
        for number in range(count):
            once(turn * count + number)
        best = min(best, (time.process_time() - began) / count * 1e6)
    return round(best, 2)


def appends(log: PartitionLog, records: int, producer_ids: list[int]) -> float:
    """The CPU of judging and appending one batch, by these producers in turn."""
    data = batch(0, 0, records)
    header, turns, many = read_header(data), cycle(producer_ids), len(producer_ids)

    def once(number: int) -> None:
        mine = header._replace(producer_id=next(turns), base_sequence=number // many * records)
        assert log.producers.decide(mine, Origin.CLIENT) is APPEND
        log.append_as_leader([(mine, data)], 1, NOW_MS)

    return cpu_us(max(2_000, min(20_000, many)), once)


async def cpu(folder: Path, active: int) -> dict[str, float]:
    """Measures the CPU of appends in logs of their own."""
    found: dict[str, float] = {}
    with closing(OsDisk(folder)) as disk:
        for number, (records, many) in enumerate(((1, 1), (1_000, 1), (1, active))):
            directory = DIRECTORY.removesuffix("0") + str(number)
            log = await PartitionLog.open(disk, directory, LogConfig(segment_bytes=(1 << 31) - 1))
            log._tag = tag_of(TOPIC_ID, 0)
            found[f"append_{records}_records_by_{many}_us"] = appends(log, records, [FIRST_ID + n for n in range(many)])
            await log.close(clean=False)
            disk.remove(directory)
    return found


async def state(folder: Path, producers: int, transactional: int) -> dict[str, float]:
    """Measures one log with these producers."""
    states, empty_mb = ProducerStates(), _memory_mb()
    began = time.process_time()
    fill(states, producers, transactional)
    found: dict[str, float] = {"producers": producers, "transactional": transactional}
    found["apply_us"] = round((time.process_time() - began) * 1e6 / (producers * BATCHES + transactional * 6), 1)
    used_mb = _memory_mb() - empty_mb
    found["state_mb"], found["bytes_per_id"] = round(used_mb), round(used_mb * (1 << 20) / (producers + transactional))
    began = time.process_time()
    gc.collect()
    found["gc_ms"] = round((time.process_time() - began) * 1000, 1)
    snapshot = states.snapshot()
    found["snapshot_mb"] = round(len(snapshot) / 1e6, 1)
    with closing(OsDisk(folder)) as disk:
        log = await PartitionLog.open(disk, DIRECTORY, LogConfig(checkpoint_bytes=1))
        await log.reset_to(states.end_offset, snapshot)
        del states, snapshot
        found |= await checkpoints(log)
        await log.close()
    with closing(OsDisk(folder)) as disk:
        began, cpu_began = time.perf_counter(), time.process_time()
        log = await PartitionLog.open(disk, DIRECTORY, LogConfig())
        found["open_s"] = round(time.perf_counter() - began, 2)
        found["open_cpu_s"] = round(time.process_time() - cpu_began, 2)
        await log.close(clean=False)
    return found


def _memory_mb() -> float:
    gc.collect()
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def main() -> int:
    """Runs it in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--producers", type=int, default=1_000_000)
    parser.add_argument("--transactional", type=int, default=100_000)
    parser.add_argument(
        "--active", type=int, default=10_000, help="producers that append in turn, for the CPU of appends"
    )
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to measure; default: a temporary one")
    given = parser.parse_args()
    sys.setswitchinterval(0.0005)  # as the services do
    folder = Path(tempfile.mkdtemp(prefix="oncelog-producers-", dir=given.folder))
    try:
        found = asyncio.run(cpu(folder / "cpu", given.active))
        found |= asyncio.run(state(folder / "state", given.producers, given.transactional))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
