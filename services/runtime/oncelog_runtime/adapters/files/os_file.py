"""One append-only file on a real file system.

Rule 1: an append is one `pwritev` at the tracked end, on the event loop (a hop to a thread costs twenty times as much).
Rule 2: a failed append leaves the former size: what was written is cut off, or the file is broken and refuses all writes.
Rule 3: at most one fdatasync of a file is in flight; callers that arrive during it share the next one.
Rule 4: after a failed sync the file is broken: the kernel has dropped the dirty pages, and a second sync would falsely
        succeed.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

from oncelog.errors import StorageError
from oncelog.types import Buffer
from oncelog_runtime.adapters.files.private_files import FILE_MODE

SLOW_WRITE_S: Final = 0.050
_MAX_BUFFERS: Final = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 16
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """Turns an `OSError` into a `StorageError` with context reason (full, absent, io) and the error's name."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def storage_error(error: OSError, path: str) -> StorageError:
    """Returns the `StorageError` for an `OSError`."""
    name = errno.errorcode.get(error.errno or 0, "unknown")
    if error.errno in _FULL:
        return StorageError("the disk is full", reason="full", path=path, errno=name)
    if error.errno == errno.ENOENT:
        return StorageError("no such file", reason="absent", path=path, errno=name)
    return StorageError(reason="io", path=path, errno=name)


class OsFile:
    """Implements `oncelog_runtime.ports.DiskFile`. `on_slow` is called after each append that took over 50 ms."""

    def __init__(
        self, full_path: str | Path, path: str, create: bool, pool: Executor, on_slow: Callable[[], None]
    ) -> None:
        with mapped(path):
            self._fd = os.open(full_path, os.O_RDWR | (os.O_CREAT if create else 0), FILE_MODE)
            self._size = os.fstat(self._fd).st_size
        self.path = path
        self._pool = pool
        self._on_slow = on_slow
        self._broken = ""
        self._closed = False
        self._dirty = True  # unknown: another process may have written and died
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        """Bytes in the file as this process sees it."""
        return self._size

    def append(self, buffers: Sequence[Buffer]) -> None:
        """See `DiskFile.append`."""
        self._usable()
        began = perf_counter()
        parts = [*buffers[: _MAX_BUFFERS - 1], b"".join(buffers[_MAX_BUFFERS - 1 :])]
        wanted = sum(len(part) if isinstance(part, bytes) else part.nbytes for part in parts)
        self._dirty = True
        try:
            self._write(parts, wanted)
        except OSError as error:
            self._cut_back()
            raise storage_error(error, self.path) from error
        except StorageError:
            self._cut_back()
            raise
        self._size += wanted
        if perf_counter() - began > SLOW_WRITE_S:
            self._on_slow()

    def _write(self, parts: Sequence[Buffer], wanted: int) -> None:
        """Writes with one call; a short write is continued once, which either completes it or raises the reason."""
        written = os.pwritev(self._fd, parts, self._size)
        if written == wanted:
            return
        rest = b"".join(parts)[written:]
        if os.pwrite(self._fd, rest, self._size + written) != len(rest):
            raise StorageError("the disk took only a part, which was cut off again", reason="short", path=self.path)

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            self._broken = f"a failed write could not be cut off: {error.strerror}"

    def read(self, position: int, length: int) -> bytes:
        """Returns up to `length` bytes; fewer only at the end of the file."""
        self._open()
        with mapped(self.path):
            data = os.pread(self._fd, min(length, max(0, self._size - position)), position)
            while len(data) < length and position + len(data) < self._size:
                more = os.pread(self._fd, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        return data

    async def sync(self) -> None:
        """Returns when everything appended before this call is on disk. See `DiskFile.sync`."""
        self._usable()
        if self._next is None:
            if not self._dirty and self._running is None:
                return
            self._next = asyncio.create_task(self._sync_after(self._running), name=f"sync {self.path}")
            self._next.add_done_callback(taken)
        await asyncio.shield(self._next)

    async def _sync_after(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        try:
            self._usable()
            self._dirty = False
            await asyncio.get_running_loop().run_in_executor(self._pool, os.fdatasync, self._fd)
        except OSError as error:
            self._broken = f"a sync failed: {error.strerror}"
            raise storage_error(error, self.path) from error
        finally:
            if self._next is None:
                self._running = None
                if self._closed:
                    self._close_fd()

    def truncate(self, size: int) -> None:
        """Truncates the file to `size` bytes; durable at the next sync."""
        self._usable()
        if not 0 <= size <= self._size:
            raise ValueError(f"cannot cut {self._size} bytes to {size}")
        with mapped(self.path):
            os.ftruncate(self._fd, size)
        self._size = size
        self._dirty = True

    def close(self) -> None:
        """Closes without syncing; a sync in flight completes first."""
        if not self._closed:
            self._closed = True
            if self._running is None and self._next is None:
                self._close_fd()

    def _close_fd(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _open(self) -> None:
        if self._closed:
            raise StorageError("the file is closed", reason="closed", path=self.path)

    def _usable(self) -> None:
        self._open()
        if self._broken:
            raise StorageError(f"the file is broken: {self._broken}", reason="broken", path=self.path)


def taken(task: asyncio.Task[None]) -> None:
    """Retrieves the exception of a shared sync: all who waited for it may be gone."""
    if not task.cancelled():
        task.exception()
