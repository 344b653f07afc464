"""A bucket's file holds what was spilled, once, and nothing of an earlier run."""

from __future__ import annotations

from oncelog_partition_leader.core.delays.timing_wheel import FAR_MS, REMOTE_MS, Bucket, Spill
from oncelog_partition_leader.partition.delays.bucket_files import BucketFiles
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import DIRECTORY, open_log, run

SEVEN, OTHER = Bucket(FAR_MS, 7), Bucket(REMOTE_MS, 7)


def test_spills_come_back_once_in_their_order() -> None:
    async def test(disk: SimDisk) -> None:
        disk.make_dirs(DIRECTORY)
        files = BucketFiles(disk, DIRECTORY)
        await files.spill([Spill(SEVEN, b"one."), Spill(OTHER, b"other"), Spill(SEVEN, b"two.")])
        assert await files.take(SEVEN) == b"one.two."
        assert await files.take(SEVEN) == b""
        assert await files.take(Bucket(FAR_MS, 9)) == b""
        assert await files.take(OTHER) == b"other"

    run(test)


def test_a_run_begins_without_the_files_of_the_one_before_and_a_log_does_not_mind_them() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        files = BucketFiles(disk, log.directory)
        await files.spill([Spill(SEVEN, b"one.")])
        await log.close()
        log = await open_log(disk)
        log.check()
        await BucketFiles(disk, log.directory).clear()
        assert await files.take(SEVEN) == b""
        assert any(name.endswith(".log") for name in disk.list(log.directory))

    run(test)
