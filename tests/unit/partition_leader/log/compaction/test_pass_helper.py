"""Passes whose helper dies, freezes, dawdles or fails at any point leave the log as it was, and the next one compacts it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from oncelog.errors import StorageError
from oncelog_partition_leader.core.compaction.rewriting import Tally
from oncelog_partition_leader.log.compaction.pass_helper import HelperBugError, HelperWorker
from oncelog_partition_leader.log.compaction.pass_work import PassWork
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.ports import HelperGoneError
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.helpers import SimHelper, SimHelpers
from tests.unit.partition_leader.compaction_helpers import COMPACT, LIMITS, keyed, records_of, seen, table_of
from tests.unit.partition_leader.log_helpers import DIRECTORY, NOW_MS, marker, open_log, run, write


async def filled(disk: SimDisk, directory: str = "") -> PartitionLog:
    """Ten keys, written again and again, and a few transactions."""
    log = await open_log(disk, COMPACT, **({"directory": directory} if directory else {}))
    for number in range(40):
        write(log, keyed((b"k%d" % (number % 10), b"%d" % number * 30), producer=(7, 0, number)))
        if number % 10 == 5:
            write(log, keyed((b"t", b"%d" % number), producer=(50, 0, 0), txn=(50, number)))
            write(log, marker((50, number), commit=number % 20 == 5))
    await log.sync()
    return log


def compact(log: PartitionLog, worker: HelperWorker) -> Awaitable[Tally | None]:
    return log.compact(NOW_MS, log.log_end_offset, LIMITS, worker=worker)


def is_clean(disk: SimDisk, log: PartitionLog) -> bool:
    return not [name for name in disk.list(log.directory) if name.endswith((".cleaned", ".compacted"))]


def with_helpers(
    test: Callable[[SimDisk, SimHelpers, HelperWorker], Awaitable[None]], plan: FaultPlan | None = None, seed: int = 0
) -> None:
    async def whole(disk: SimDisk) -> None:
        helpers = SimHelpers(disk, Random(seed), lambda: plan or FaultPlan())
        await test(disk, helpers, HelperWorker(helpers))

    run(whole, seed)  # type: ignore[arg-type]


def test_a_helper_does_what_the_process_itself_would_do() -> None:
    async def test(disk: SimDisk, helpers: SimHelpers, worker: HelperWorker) -> None:
        log, other = await filled(disk), await filled(disk, f"other/{DIRECTORY}")
        one = await compact(log, worker)
        two = await other.compact(NOW_MS, other.log_end_offset, LIMITS)
        assert one == two
        assert one is not None
        assert one.records_kept < one.records_seen / 2
        assert records_of(log) == records_of(other)
        log.check()
        assert await compact(log, worker) is None
        for number in range(40, 80):
            write(log, keyed((b"k1", b"v"), producer=(7, 0, number)))
        await log.sync()
        assert await compact(log, worker)
        assert len(helpers.started) == 1, "the same one again"

    with_helpers(test)


def test_a_helper_that_dies_at_any_moment_leaves_the_log_as_it_was() -> None:
    deaths, halves = 0, 0

    async def test(disk: SimDisk, helpers: SimHelpers, worker: HelperWorker) -> None:
        nonlocal deaths, halves
        log = await filled(disk)
        before, table, end = set(seen(log)), table_of(seen(log)), log.log_end_offset
        remove = disk.remove

        def watched(path: str) -> None:
            nonlocal halves
            halves += path.endswith(".cleaned") and len(disk.read_file(path)) > 0
            remove(path)

        disk.remove = watched  # type: ignore[method-assign]
        try:
            await compact(log, worker)
        except HelperGoneError:
            deaths += 1
            assert not worker.is_up
        assert log.failed is None
        log.check()
        assert table_of(seen(log)) == table
        assert set(seen(log)) <= before
        assert is_clean(disk, log)
        helpers._plan = FaultPlan
        worker.rest()
        await compact(log, worker)
        assert table_of(seen(log)) == table
        assert log.log_end_offset == end
        assert len(seen(log)) < len(before) / 2

    for seed in range(120):
        with_helpers(test, FaultPlan(helper_death=1.0, helper_trouble_max_ms=25.0), seed)
    assert deaths > 30
    assert halves > 5, "some died while they wrote"


def test_a_frozen_helper_is_ended_and_the_pass_tried_again() -> None:
    async def test(disk: SimDisk, helpers: SimHelpers, worker: HelperWorker) -> None:
        log = await filled(disk)
        before = records_of(log)
        began = disk.loop.time()
        with pytest.raises(HelperGoneError, match="said nothing for 600 s"):
            await compact(log, worker)
        assert 600 <= disk.loop.time() - began < 610
        assert records_of(log) == before
        assert is_clean(disk, log)
        assert log.failed is None
        helpers._plan = FaultPlan
        assert await compact(log, worker)
        assert len(helpers.started) == 2

    with_helpers(test, FaultPlan(helper_freeze=1.0, helper_trouble_max_ms=0.5))


def test_a_helper_that_takes_no_message_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with a large index is more than the buffers of a socket hold, so a frozen helper holds up the sending."""

    async def test(disk: SimDisk, helpers: SimHelpers, worker: HelperWorker) -> None:
        async def never(_helper: SimHelper, _message: bytes) -> None:
            await asyncio.get_running_loop().create_future()

        monkeypatch.setattr(SimHelper, "send", never)
        log = await filled(disk)
        began = disk.loop.time()
        with pytest.raises(HelperGoneError, match="took nothing for 600 s"):
            await compact(log, worker)
        assert 600 <= disk.loop.time() - began < 610
        assert not worker.is_up
        assert log.failed is None

    with_helpers(test)


def test_a_slow_helper_comes_to_its_end() -> None:
    async def test(disk: SimDisk, _helpers: SimHelpers, worker: HelperWorker) -> None:
        log = await filled(disk)
        began = disk.loop.time()
        assert await compact(log, worker)
        assert disk.loop.time() - began > 300

    with_helpers(test, FaultPlan(slow_helper=1.0, slow_helper_ms=20_000))


def test_rot_that_a_helper_meets_fails_the_log() -> None:
    async def test(disk: SimDisk, _helpers: SimHelpers, worker: HelperWorker) -> None:
        log = await filled(disk)
        data = disk._files[log._segments[1].path + ".log"].data
        data[len(data) // 2] ^= 1
        with pytest.raises(StorageError) as caught:
            await compact(log, worker)
        assert caught.value.context["reason"] == "rot"
        assert log.failed is not None

    with_helpers(test)


def test_a_full_disk_is_told_by_its_name_and_the_log_goes_on() -> None:
    async def test(disk: SimDisk, helpers: SimHelpers, worker: HelperWorker) -> None:
        log = await filled(disk)
        disk.capacity = disk.used() + 50
        with pytest.raises(StorageError) as caught:
            await compact(log, worker)
        assert caught.value.context["reason"] == "full"
        assert log.failed is None
        assert is_clean(disk, log)
        disk.capacity = None
        assert await compact(log, worker)

    with_helpers(test)


@pytest.mark.parametrize(
    ("error", "told", "words"),
    [(MemoryError(), HelperGoneError, "no memory left"), (KeyError("odd"), HelperBugError, "in too_much")],
)
def test_a_bug_in_a_helper_or_too_little_memory_ends_the_pass_and_is_told(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: type[Exception], words: str
) -> None:
    async def test(disk: SimDisk, _helpers: SimHelpers, worker: HelperWorker) -> None:
        log = await filled(disk)

        def too_much(*_: object, **__: object) -> int:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(PassWork, "_see", too_much)
            with pytest.raises(told, match=words):
                await compact(log, worker)
        assert log.failed is None
        assert await compact(log, worker)

    with_helpers(test)


def test_a_cut_beside_a_helper_ends_it() -> None:
    async def test(disk: SimDisk, helpers: SimHelpers, worker: HelperWorker) -> None:
        log = await filled(disk)
        working = asyncio.ensure_future(compact(log, worker))
        await asyncio.sleep(0.002)
        await log.truncate_to(30)
        assert await working is None
        await asyncio.sleep(1)
        assert helpers.started[0].task.done()
        assert is_clean(disk, log)
        log.check()

    with_helpers(test)


def test_a_helper_ends_when_its_pass_is_cancelled() -> None:
    async def test(disk: SimDisk, helpers: SimHelpers, worker: HelperWorker) -> None:
        log = await filled(disk)
        working = asyncio.ensure_future(compact(log, worker))
        await asyncio.sleep(0.002)
        working.cancel()
        await asyncio.wait([working])
        await asyncio.sleep(1)
        assert helpers.started[0].task.done()
        assert log.failed is None
        assert is_clean(disk, log)

    with_helpers(test)
