"""A disk that shows a real folder and keeps every change in memory, for dry runs.

Rule: nothing below the folder is ever written, created, removed or locked. A file's size is fixed when it is first
opened, so a process that keeps writing there is no problem.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from oncelog.errors import StorageError
from oncelog.types import Buffer
from oncelog_runtime.ports import DiskSpace

T = TypeVar("T")


class _Content:
    """The first `kept` bytes of a real file (None: no file), followed by `tail`."""

    __slots__ = ("base", "kept", "tail")

    def __init__(self, base: Path | None, kept: int) -> None:
        self.base = base
        self.kept = kept
        self.tail = bytearray()

    def read(self, position: int, length: int) -> bytes:
        found = b""
        if self.base is not None and position < self.kept:
            try:
                with self.base.open("rb") as file:
                    file.seek(position)
                    found = file.read(min(length, self.kept - position))
            except OSError as error:
                raise StorageError("the file cannot be read", reason="io", path=self.base, cause=error) from error
        start = max(0, position + len(found) - self.kept)
        return found + bytes(self.tail[start : start + length - len(found)])


class OverlayFile:
    """Implements `oncelog_runtime.ports.DiskFile`."""

    def __init__(self, content: _Content) -> None:
        self._content = content

    @property
    def size(self) -> int:
        """Bytes in the file, with the changes in memory."""
        return self._content.kept + len(self._content.tail)

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Appends in memory."""
        self._content.tail += b"".join(buffers)

    def read(self, position: int, length: int) -> bytes:
        """See `DiskFile.read`."""
        return self._content.read(position, length)

    async def sync(self) -> None:
        """Does nothing."""

    def truncate(self, size: int) -> None:
        """Truncates in memory."""
        content = self._content
        content.kept = min(content.kept, size)
        del content.tail[size - content.kept :]

    def close(self) -> None:
        """Does nothing."""


class OverlayDisk:
    """Implements `oncelog_runtime.ports.Disk` over `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, _Content] = {}
        self._dirs: dict[str, None] = {}
        self._gone: dict[str, None] = {}

    @property
    def boot_id(self) -> str:
        """A constant, which never equals a real boot id: nothing is assumed about writes of other processes."""
        return "overlay"

    def _content(self, path: str) -> _Content | None:
        if path not in self._files and not self._is_gone(path):
            real = self._root / path
            if real.is_file():
                self._files[path] = _Content(real, real.stat().st_size)
        return self._files.get(path)

    def _is_gone(self, path: str) -> bool:
        return any(path == gone or path.startswith(f"{gone}/") for gone in self._gone)

    def open(self, path: str, *, create: bool = False) -> OverlayFile:
        """See `Disk.open`."""
        content = self._content(path)
        if content is None:
            if not create:
                raise StorageError("no such file", reason="absent", path=path)
            content = self._files[path] = _Content(None, 0)
        return OverlayFile(content)

    def exists(self, path: str) -> bool:
        """True for a file or a directory."""
        path = path.rstrip("/")
        return (
            path in self._dirs
            or self._content(path) is not None
            or (not self._is_gone(path) and (self._root / path).is_dir())
        )

    def list(self, path: str) -> list[str]:
        """Returns the names in a directory, sorted."""
        prefix = f"{path.rstrip('/')}/" if path.strip("/.") else ""
        folder = self._root / path
        names = {item.name for item in folder.iterdir()} if folder.is_dir() else set()
        names = {name for name in names if not self._is_gone(prefix + name)}
        names |= {
            known[len(prefix) :].partition("/")[0] for known in (*self._files, *self._dirs) if known.startswith(prefix)
        }
        return sorted(names)

    def make_dirs(self, path: str) -> None:
        """Creates a directory in memory."""
        self._dirs[path.strip("/")] = None

    def remove(self, path: str) -> None:
        """Removes in memory."""
        path = path.rstrip("/")
        for known in (self._files, self._dirs):
            for name in [name for name in known if name == path or name.startswith(f"{path}/")]:
                del known[name]
        self._gone[path] = None

    def rename(self, old: str, new: str) -> None:
        """Renames a file in memory."""
        content = self._content(old)
        if content is None:
            raise StorageError("no such file", reason="absent", path=old)
        self.remove(old)
        self._files[new] = content

    def read_file(self, path: str) -> bytes:
        """Returns the whole file. Raises `StorageError` when absent."""
        file = self.open(path)
        return file.read(0, file.size)

    def space(self) -> DiskSpace:
        """Returns the space on the volume of the folder; memory is not counted."""
        found = os.statvfs(self._root)
        return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    async def write_atomic(self, path: str, data: bytes) -> None:
        """Replaces a file in memory."""
        content = self._files[path] = _Content(None, 0)
        content.tail += data

    async def sync_dir(self, path: str) -> None:
        """Does nothing."""

    async def run(self, work: Callable[[], T]) -> T:
        """Runs the work at once: dry runs have no event loop to keep free."""
        return work()
