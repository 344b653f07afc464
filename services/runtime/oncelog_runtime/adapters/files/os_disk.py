"""The data directory of one process, on a real file system.

Rule 1: one process at a time: the root is locked with flock, which the kernel releases however the process ends. Its helpers
        are guests: they take no lock, and write only what it asks them for.
Rule 2: names become durable with `sync_dir`, bytes with `DiskFile.sync`; nothing else is promised.
Rule 3: new files and folders are accessible to their owner only (`private_files`).
Rule 4: syncs have threads of their own, so that a slow recovery or cold read never delays an acknowledgement.
Rule 5: at most one sync of a directory is in flight; callers that arrive during it share the next one.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from oncelog.errors import StorageError
from oncelog_runtime.adapters.files.os_file import OsFile, mapped, taken
from oncelog_runtime.adapters.files.private_files import FILE_MODE, make_folders, open_private, take_folder
from oncelog_runtime.ports import DiskSpace

T = TypeVar("T")
LOCK_NAME: Final = ".lock"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class OsDisk:
    """Implements `oncelog_runtime.ports.Disk` below `root`, which is created.

    Raises `StorageError` reason="locked" when another process uses the directory. `slow_writes` counts the appends that
    took over 50 ms and blocked the event loop for that time. `is_guest`: a process uses it that the owner of the lock has
    started, and does not lock it itself.
    """

    def __init__(
        self, root: Path | str, sync_threads: int = 2, work_threads: int = 2, *, is_guest: bool = False
    ) -> None:
        self._root = Path(root)
        self._base = str(root)
        self._lock_fd = -1
        if not is_guest:
            with mapped(str(root)):
                take_folder(self._root)
            self._lock_fd = self._lock()
        self._sync_pool = ThreadPoolExecutor(sync_threads, thread_name_prefix="disk-sync")
        self._work_pool = ThreadPoolExecutor(work_threads, thread_name_prefix="disk-work")
        self._alone: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One at a time: the writers of a small file, and the syncs of a directory. Locks that are free are forgotten."""
        self._dir_syncs: dict[str, asyncio.Task[None]] = {}
        """Syncs of directories that have not begun."""
        self.slow_writes = 0
        self._boot_id = _boot_id()

    @property
    def boot_id(self) -> str:
        """The kernel's boot id; where there is none, a new one for each process, so only a clean stop counts as lossless."""
        return self._boot_id

    def _lock(self) -> int:
        path = self._root / LOCK_NAME
        with mapped(str(path)):
            fd = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            message = f"the data directory {self._root} is in use by another process"
            raise StorageError(message, reason="locked", path=self._root) from error
        return fd

    def close(self) -> None:
        """Waits for running syncs and work, then unlocks the directory."""
        self._sync_pool.shutdown(wait=True)
        self._work_pool.shutdown(wait=True)
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """Opens for append and read. Raises `StorageError` when absent and not `create`."""
        return OsFile(self._full(path), path, create, self._sync_pool, self._count_slow)

    def exists(self, path: str) -> bool:
        """True for a file or a directory."""
        return os.path.exists(self._full(path))

    def list(self, path: str) -> list[str]:
        """Returns the names in a directory, sorted; empty when it does not exist."""
        try:
            names = os.listdir(self._full(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StorageError(reason="io", path=path) from error
        return sorted(name for name in names if name != LOCK_NAME)

    def make_dirs(self, path: str) -> None:
        """Creates a directory and its parents."""
        with mapped(path):
            make_folders(Path(self._full(path)))

    def remove(self, path: str) -> None:
        """Removes a file or a whole directory; a missing one is no error."""
        full = self._full(path)
        with mapped(path):
            if os.path.isdir(full):
                shutil.rmtree(full)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(full)

    def rename(self, old: str, new: str) -> None:
        """Renames a file or a directory atomically. Raises `StorageError` when `new` is a directory."""
        target = self._full(new)
        if os.path.isdir(target):
            raise StorageError("a directory is in the way", reason="io", path=new)
        with mapped(old):
            os.rename(self._full(old), target)

    def read_file(self, path: str) -> bytes:
        """Returns the whole file. Raises `StorageError` when absent."""
        with mapped(path), open(self._full(path), "rb") as file:
            return file.read()

    def space(self) -> DiskSpace:
        """Returns the space on the volume, without the part reserved for root."""
        with mapped(""):
            found = os.statvfs(self._root)
        return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    async def write_atomic(self, path: str, data: bytes) -> None:
        """Replaces a small file: temporary file, sync, rename, sync of the directory.

        When the caller is cancelled meanwhile, the file may be replaced or not, and the next writer waits for the end.
        """
        full = self._full(path)
        alone = self._alone.setdefault(full, asyncio.Lock())
        await alone.acquire()
        try:
            write = asyncio.get_running_loop().run_in_executor(self._sync_pool, _replace, full, data)
        except BaseException:
            alone.release()
            raise
        write.add_done_callback(lambda _: alone.release())  # a cancelled caller leaves, its thread writes on
        with mapped(path):
            await asyncio.shield(write)

    async def sync_dir(self, path: str) -> None:
        """Makes created, renamed and removed names of a directory durable."""
        full = self._full(path)
        sync = self._dir_syncs.get(full)
        if sync is None:
            sync = self._dir_syncs[full] = asyncio.create_task(self._sync_dir_next(full), name=f"sync {path}")
            sync.add_done_callback(taken)
        with mapped(path):
            await asyncio.shield(sync)

    async def _sync_dir_next(self, full: str) -> None:
        alone = self._alone.setdefault(full, asyncio.Lock())
        async with alone:
            del self._dir_syncs[full]  # it begins now: later callers need another one
            await asyncio.get_running_loop().run_in_executor(self._sync_pool, _sync_directory, full)

    async def run(self, work: Callable[[], T]) -> T:
        """Runs blocking work in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._work_pool, work)

    def _full(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"paths are relative to the data directory, not {path!r}")
        return os.path.normpath(f"{self._base}/{path}")  # not a `Path`, which takes more time than what is done with it

    def _count_slow(self) -> None:
        self.slow_writes += 1


def _replace(path: str, data: bytes) -> None:
    temporary = path + ".tmp"
    with open(temporary, "wb", opener=open_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_directory(os.path.dirname(path))


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return f"unknown-{uuid.uuid4().hex}"
