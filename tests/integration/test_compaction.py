"""A compacted log on a real disk: it shrinks, is read and written beside the pass, and is the same after a restart."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from oncelog_partition_leader.log.compaction.pass_helper import HelperWorker
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.adapters.files.os_disk import OsDisk
from oncelog_runtime.adapters.helper_processes import HelperProcess, HelperProcesses
from oncelog_runtime.ports import HelperGoneError, HelperWork
from tests.unit.partition_leader.compaction_helpers import COMPACT, LIMITS, keyed, records_of, table_of
from tests.unit.partition_leader.log_helpers import DIRECTORY, NOW_MS, write

CONFIG = replace(COMPACT, segment_bytes=100_000, tail_cache_bytes=0)


async def whole(disk: OsDisk) -> None:
    log = await PartitionLog.open(disk, DIRECTORY, CONFIG)
    for number in range(300):
        pairs = [(b"k%d" % (n % 70), b"%d" % n * 20) for n in range(number * 20, number * 20 + 20)]
        write(log, keyed(*pairs, producer=(7, 0, number * 20), codec=number % 3))
    await log.sync()
    size, table, reads = log.size_bytes, table_of(records_of(log)), 0
    worker = HelperWorker(HelperProcesses(disk._root))
    working = asyncio.create_task(log.compact(NOW_MS, log.log_end_offset, LIMITS, worker=worker))
    while not working.done():
        assert table_of(records_of(log)) == table
        reads += 1
        await asyncio.sleep(0)
    assert await working
    assert reads > 1
    worker.rest()
    assert log.size_bytes < size / 2
    write(log, keyed((b"k1", b"new"), producer=(7, 0, 6_000)))
    log.check()
    after = records_of(log)
    assert table_of(after) == table | {b"k1": b"new"}
    await log.close()
    assert not [name for name in disk.list(DIRECTORY) if name.endswith((".cleaned", ".compacted", ".tmp"))]


async def reopened(disk: OsDisk) -> None:
    log = await PartitionLog.open(disk, DIRECTORY, CONFIG)
    log.check()
    assert len(table_of(records_of(log))) == 70
    assert not log.wants_compaction(NOW_MS, log.log_end_offset)
    producer = log.producers.producer(7)
    assert producer is not None
    assert producer.window.last_sequence == 6_000
    await log.close()


async def killed(disk: OsDisk) -> None:
    """The helper is killed in the middle of its work, then frozen; the log is as it was, and the next helper compacts it."""
    log = await PartitionLog.open(disk, DIRECTORY, CONFIG)
    for number in range(300):
        pairs = [(b"k%d" % (n % 70), b"%d" % n * 20) for n in range(number * 20, number * 20 + 20)]
        write(log, keyed(*pairs, producer=(7, 0, number * 20)))
    await log.sync()
    table, helpers = table_of(records_of(log)), Known(disk._root)
    for number, end in ((0, signal.SIGKILL), (1, signal.SIGSTOP)):
        worker = HelperWorker(helpers, silence_max_s=10.0)
        helpers.working.clear()
        slow = LIMITS._replace(bytes_per_s=100_000)
        working = asyncio.create_task(log.compact(NOW_MS, log.log_end_offset, slow, worker=worker))
        saying = asyncio.create_task(helpers.working.wait())
        await asyncio.wait({working, saying}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            saying.cancel()
            await working  # raises why it has ended before its helper said anything
        os.kill(helpers.started[number].process.pid, end)
        with pytest.raises(HelperGoneError):
            await working
        assert log.failed is None
        assert table_of(records_of(log)) == table
    worker = HelperWorker(helpers)
    assert await log.compact(NOW_MS, log.log_end_offset, LIMITS, worker=worker)
    worker.rest()
    assert table_of(records_of(log)) == table
    assert len(records_of(log)) < 3_000
    await log.close()


class Known(HelperProcesses):
    """Helpers that are known to the test."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.started: list[Heard] = []
        self.working = asyncio.Event()

    async def start(self, work: HelperWork) -> HelperProcess:
        helper = await super().start(work)
        heard = Heard(helper._reader, helper._writer)
        heard.process, heard.working = helper.process, self.working
        self.started.append(heard)
        return heard


class Heard(HelperProcess):
    """A helper that tells when it has said something."""

    working: asyncio.Event

    async def receive(self) -> bytes:
        message = await super().receive()
        self.working.set()
        return message


def test_the_death_of_a_helper_costs_nothing_but_its_pass(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    asyncio.run(killed(disk))
    disk.close()


def test_a_log_on_a_real_disk_shrinks_beside_its_readers_and_outlives_a_restart(tmp_path: Path) -> None:
    for life in (whole, reopened):
        disk = OsDisk(tmp_path)
        asyncio.run(life(disk))
        disk.close()
