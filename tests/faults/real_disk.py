"""The real disk adapter over a real folder, with the faults that a simulated disk has: for tests that are made for both.

Faults come from where they come in life: the system calls fail, write less than they were given, or find no room. Everything
above them is the product's own (`os_disk`, `os_file`).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from oncelog_runtime.adapters.files.os_disk import LOCK_NAME, OsDisk
from oncelog_runtime.sim.faults import FaultPlan
from tests.faults.file_journal import Crash, Journal, build, recording


class RealDisk(OsDisk):
    """A disk below `root`. `plan` and `capacity` are those of `SimDisk`; a probability above 0 counts as 1."""

    def __init__(self, root: Path, random: Random) -> None:
        super().__init__(root)
        self.folder = root.resolve()
        self.journal = Journal(self.folder)
        self.plan = FaultPlan()
        self.capacity: int | None = None
        self.append_errno = errno.EIO
        self.has_lost_pages = False
        """A sync has failed: the kernel has dropped what was not synced, and no power cut keeps it."""
        self._random = random
        self._heirs: list[RealDisk] = []

    # ------------------------------------------------------------ what tests look at

    def _all(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name != LOCK_NAME)

    def used(self) -> int:
        """Bytes in all files."""
        return sum(path.stat().st_size for path in self._all())

    def checksum(self) -> int:
        """Of all names and bytes."""
        total = 0
        for path in self._all():
            total = crc32(path.read_bytes(), crc32(str(path.relative_to(self.folder)).encode(), total))
        return total

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """The disk returns another byte than it was given."""
        fd = os.open(self.folder / path, os.O_RDWR)
        os.pwrite(fd, bytes([os.pread(fd, 1, position)[0] ^ 1 << bit]), position)
        os.close(fd)

    def drop_unsynced(self, path: str) -> None:
        """The kernel drops what it could not write."""
        left = self.journal.crash(len(self.journal.ops), Crash.NAMES, self._random)
        fd = os.open(self.folder / path, os.O_RDWR)
        os.ftruncate(fd, len(left[path] or b""))
        os.close(fd)

    def after_kill(self) -> RealDisk:
        """The same folder, for the next process."""
        self.close()
        return self._heir(self.folder)

    def after_power_cut(self) -> RealDisk:
        """What was synced and some of the rest, in a folder of its own."""
        how = Crash.NAMES if self.has_lost_pages else Crash.SOME
        left = self.journal.crash(len(self.journal.ops), how, self._random)
        folder = self.folder.with_name(f"{self.folder.name}-cut")
        build(folder, left)
        return self._heir(folder)

    def _heir(self, folder: Path) -> RealDisk:
        heir = RealDisk(folder, self._random)
        self._heirs.append(heir)
        return heir

    def close_all(self) -> None:
        """Closes this disk and those that came after it."""
        self.close()
        for heir in self._heirs:
            heir.close_all()

    def room(self) -> int:
        """Bytes that may still be written."""
        return 1 << 40 if self.capacity is None else max(0, self.capacity - self.used())


@contextmanager
def _failing(disk: RealDisk) -> Iterator[None]:
    """Has the system calls fail as the disk's plan says, for files below its folder."""
    real = {name: getattr(os, name) for name in ("pwritev", "pwrite", "pread", "fdatasync", "fsync")}
    failing = {
        "pwritev": _writing(disk, real["pwritev"], real["pwrite"]),
        "pwrite": _writing(disk, real["pwrite"], real["pwrite"]),
        "pread": _reading(disk, real["pread"]),
        "fdatasync": _syncing(disk, real["fdatasync"], needs_room=False),
        "fsync": _syncing(disk, real["fsync"], needs_room=True),
    }
    for name, call in failing.items():
        setattr(os, name, call)
    try:
        yield
    finally:
        for name, call in real.items():
            setattr(os, name, call)


def _writing(disk: RealDisk, real: Callable[..., int], one: Callable[..., int]) -> Callable[..., int]:
    def call(fd: int, data: Any, position: int) -> int:
        if not _is_inside(disk, fd):
            return real(fd, data, position)
        if disk.plan.append_error:
            raise OSError(disk.append_errno, "planted")
        joined = data if isinstance(data, bytes | memoryview) else b"".join(data)
        taken = len(joined) // 2 if disk.plan.short_write else min(len(joined), disk.room())
        if joined and not taken:
            raise OSError(errno.ENOSPC, "planted")
        return one(fd, joined[:taken], position)

    return call


def _reading(disk: RealDisk, real: Callable[..., bytes]) -> Callable[..., bytes]:
    def call(fd: int, length: int, position: int) -> bytes:
        if disk.plan.read_error and _is_inside(disk, fd):
            raise OSError(errno.EIO, "planted")
        return real(fd, length, position)

    return call


def _syncing(disk: RealDisk, real: Callable[[int], None], *, needs_room: bool) -> Callable[[int], None]:
    """`needs_room`: the file system finds out only now that there is none."""

    def call(fd: int) -> None:
        if _is_inside(disk, fd):
            if disk.plan.sync_error:
                disk.has_lost_pages = True
                raise OSError(errno.EIO, "planted")
            if needs_room and disk.capacity is not None and disk.used() > disk.capacity:
                raise OSError(errno.ENOSPC, "planted")
        real(fd)

    return call


def _is_inside(disk: RealDisk, fd: int) -> bool:
    return os.readlink(f"/proc/self/fd/{fd}").startswith(f"{disk.folder}")


def run_on_files(test: Callable[[Any], Coroutine[Any, Any, None]], folder: Path, seed: int = 0) -> None:
    """Runs a coroutine that was written for a simulated disk over real files."""
    root = folder / "disk"
    root.mkdir(mode=0o700)
    disk = RealDisk(root, Random(seed))
    try:
        with recording(disk.journal), _failing(disk):
            asyncio.run(test(disk))
    finally:
        disk.close_all()
