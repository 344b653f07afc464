"""`python -m bench.recovery [--gigabytes N] [--partitions P] [--records R] [--tail-mb T] [--folder DIR]`: opens stopped logs.

It writes N GB of batches of R records with 100 bytes each, spread over P partitions, closes all logs cleanly and opens them
again; then appends T MB to each that are neither synced nor covered by a checkpoint, drops the logs as a crash does, and opens
them once more, four at a time as a broker does. It prints one line of JSON: for both openings the seconds, the bytes that were
read, the CPU, and the longest turn of the event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from bench.many_producers import NOW_MS, TOPIC_ID, Turns
from oncelog.core.batch.header import BatchHeader, BatchIdentity, Content, read_header, seal
from oncelog.core.batch.header import partition_tag as tag_of
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.adapters.files.os_disk import OsDisk

OPEN_AT_ONCE: Final = 4
PRODUCERS: Final = 100


class Filler:
    """Appends batches of `records` records to one log, by `PRODUCERS` producers in turn."""

    def __init__(self, log: PartitionLog, partition: int, records: int) -> None:
        content = Content(0, 0, 0, records, NOW_MS, NOW_MS, 100 * records)
        self._log = log
        self._data = seal(b"x" * 100 * records, content, BatchIdentity(tag_of(TOPIC_ID, partition), 1, 0, 0))
        self._header = read_header(self._data)
        self._written = 0

    async def fill(self, size: int, *, syncs: bool) -> None:
        """Appends about `size` bytes; `syncs`: as a broker does, so that checkpoints are stored on the way."""
        at_once = max(1, (1 << 20) // len(self._data))
        for _ in range(max(1, size // (at_once * len(self._data)))):
            self._log.append_as_leader([(self._next(), self._data) for _ in range(at_once)], 1, NOW_MS)
            if syncs and self._log.wants_sync:
                await self._log.sync()

    def _next(self) -> BatchHeader:
        turn, producer_id = divmod(self._written, PRODUCERS)
        self._written += 1
        return self._header._replace(producer_id=producer_id, base_sequence=turn * self._header.record_count)


def directory_of(partition: int) -> str:
    """Returns the folder of a partition's log."""
    return f"bench-{TOPIC_ID}-{partition}"


async def open_all(disk: OsDisk, partitions: int) -> tuple[list[PartitionLog], dict[str, float]]:
    """Opens all logs, as many at a time as a broker does, and says what that took."""
    slots, turns = asyncio.Semaphore(OPEN_AT_ONCE), Turns()

    async def open_one(partition: int) -> PartitionLog:
        async with slots:
            return await PartitionLog.open(disk, directory_of(partition), LogConfig())

    watching = asyncio.create_task(turns.count())
    began, cpu_began, read = time.perf_counter(), time.process_time(), _bytes_read()
    logs = await asyncio.gather(*(open_one(partition) for partition in range(partitions)))
    found = {
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_s": round(time.process_time() - cpu_began, 2),
        "read_mb": round((_bytes_read() - read) / 1e6, 1),
    } | turns.found()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return list(logs), found


async def measure(folder: Path, size: int, partitions: int, records: int, tail: int) -> dict[str, object]:
    """Writes the logs and opens them twice."""
    with closing(OsDisk(folder)) as disk:
        logs, _ = await open_all(disk, partitions)
        for partition, log in enumerate(logs):
            await Filler(log, partition, records).fill(size // partitions, syncs=True)
            await log.close()
    found: dict[str, object] = {"gigabytes": size / 1e9, "partitions": partitions, "records": records}
    with closing(OsDisk(folder)) as disk:
        logs, found["clean"] = await open_all(disk, partitions)
        for partition, log in enumerate(logs):
            await Filler(log, partition, records).fill(tail, syncs=False)
            await log.close(clean=False)
    with closing(OsDisk(folder)) as disk:
        logs, found["unclean"] = await open_all(disk, partitions)
        for log in logs:
            log.check()
            await log.close(clean=False)
    return found


def _bytes_read() -> int:
    line = next(line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar"))
    return int(line.split()[1])


def main() -> int:
    """Runs it in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--records", type=int, default=100, help="records of a batch")
    parser.add_argument("--tail-mb", type=int, default=32, help="appended to each partition after the last checkpoint")
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to measure; default: a temporary one")
    given = parser.parse_args()
    sys.setswitchinterval(0.0005)  # as the services do
    folder = Path(tempfile.mkdtemp(prefix="oncelog-recovery-", dir=given.folder))
    try:
        size = int(given.gigabytes * 1e9)
        found = asyncio.run(measure(folder / "logs", size, given.partitions, given.records, given.tail_mb << 20))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
