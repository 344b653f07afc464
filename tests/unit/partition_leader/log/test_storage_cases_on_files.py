"""The storage faults S1-S32 once more, over real files: the same cases, through the real adapter and its system calls.

Also shown is what the simulated disk cannot show, since it is the file system's or the process's: a volume that is read-only
(S27), a process without descriptors (S29) and a disk that takes half of a write (S2).
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from oncelog.errors import StorageError
from oncelog_runtime.sim.faults import FaultPlan
from tests.faults.real_disk import RealDisk, run_on_files
from tests.unit.partition_leader.log.test_storage_cases import SMALL, case_tests
from tests.unit.partition_leader.log_helpers import batch, open_log, plain, write


@pytest.mark.parametrize("number", sorted(case_tests()), ids=lambda number: f"S{number}")
def test_storage_case_on_real_files(number: int, tmp_path: Path) -> None:
    run_on_files(case_tests()[number], tmp_path)


@pytest.mark.case("S29")
def test_a_process_without_descriptors_refuses_the_append_that_needs_a_new_segment(tmp_path: Path) -> None:
    async def scenario(disk: RealDisk) -> None:
        log = await open_log(disk, SMALL)  # type: ignore[arg-type]
        for n in range(3):
            write(log, batch(1, n, payload=bytes(80)))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_used_descriptors(), hard))
        try:
            with pytest.raises(StorageError):
                write(log, batch(1, 3, payload=bytes(80)))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        log.check()
        assert write(log, batch(1, 3, payload=bytes(80)))[0].base_offset == 3
        assert await log.sync() == 4
        await log.close()

    run_on_files(scenario, tmp_path)


def _used_descriptors() -> int:
    """A limit that lets no further file be opened: one above the highest descriptor, with those below in use."""
    taken: list[int] = []
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    while not taken or taken[-1] < highest:
        taken.append(os.open("/dev/null", os.O_RDONLY))
    _TAKEN.extend(taken)
    return max(taken) + 1


_TAKEN: list[int] = []


@pytest.fixture(autouse=True)
def _given_back() -> Any:
    yield
    while _TAKEN:
        os.close(_TAKEN.pop())


@pytest.mark.case("S8", "S27")
@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EACCES, errno.EFBIG])
def test_a_volume_that_takes_no_write_ends_this_log_and_keeps_what_it_holds(number: int, tmp_path: Path) -> None:
    async def scenario(disk: RealDisk) -> None:
        log = await open_log(disk)  # type: ignore[arg-type]
        write(log, plain(b"there"))
        await log.sync()
        disk.plan, disk.append_errno = FaultPlan(append_error=1.0), number
        with pytest.raises(StorageError) as refusal:
            write(log, plain(b"not there"))
        assert refusal.value.context["errno"] == errno.errorcode[number]
        assert log.failed is not None
        disk.plan = FaultPlan()
        await log.close(clean=False)
        again = await open_log(disk)  # type: ignore[arg-type]
        assert again.log_end_offset == 1

    run_on_files(scenario, tmp_path)


@pytest.mark.case("S2")
def test_half_of_a_batch_that_the_disk_took_is_cut_off_again(tmp_path: Path) -> None:
    async def scenario(disk: RealDisk) -> None:
        log = await open_log(disk)  # type: ignore[arg-type]
        write(log, plain(b"whole"))
        path = disk.folder / log.directory / f"{0:020d}.log"
        size = path.stat().st_size
        disk.capacity = disk.used() + 50
        with pytest.raises(StorageError) as refusal:
            write(log, plain(b"half"))
        assert refusal.value.context["reason"] == "full"
        assert path.stat().st_size == size, "what the disk took of it is gone"
        log.check()
        disk.capacity = None
        assert write(log, plain(b"whole again"))[0].base_offset == 1
        await log.close()

    run_on_files(scenario, tmp_path)
