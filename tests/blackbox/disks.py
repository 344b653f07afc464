"""A disk of its own for each node: an ext4 image on a loop device, whose power can be cut.

Rule 1: a power cut keeps what was synced and nothing else: the file system is shut down without writing its log (ext4's
        shutdown ioctl), the processes are killed, and the image is mounted again. Callers stop the processes first.
Rule 2: nothing in the harness opens a file on a frozen disk: whoever does that sleeps until it thaws.
Rule 3: each cut proves itself: a small file that was written just before is not there afterwards, and one that was synced is.
        The second one was written long before: its sync would save what others have not synced.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
from pathlib import Path
from typing import Final

from tests.blackbox.evidence import is_full
from tests.blackbox.host import run

_SHUTDOWN: Final = 0x8004587D
_WITHOUT_LOG: Final = 2
_FREEZE: Final = 0xC0045877
_THAW: Final = 0xC0045878
_OPTIONS: Final = "loop,noauto_da_alloc,commit=300"
"""Nothing is written soon that was not asked for: what was not synced is lost."""
_BALLAST: Final = "ballast"
_SYNCED: Final = "written-and-synced"
_UNSYNCED: Final = "only-written"
_STAYS: Final = {"lost+found", _SYNCED}
_WORDS: Final = b"before the power went" * 400


class Disk:
    """`folder / "disk"` is where it is mounted. Without mounts (`is_real` False) it is a folder that nothing happens to."""

    def __init__(self, folder: Path, megabytes: int, *, is_real: bool = True) -> None:
        self.is_real = is_real
        self.place = folder / "disk"
        self._image = folder / "image"
        self._bytes = megabytes << 20
        self._frozen = -1

    def make(self) -> None:
        """Formats and mounts it."""
        self.place.mkdir(parents=True)
        if self.is_real:
            with open(self._image, "wb") as file:
                file.truncate(self._bytes)
            run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
            self.mount()
            (self.place / _SYNCED).write_bytes(_WORDS)
            run("sync", "-f", str(self.place))

    def mount(self) -> None:
        """Mounts it; its journal is replayed."""
        run("mount", "-o", _OPTIONS, str(self._image), str(self.place))

    def cut_power(self) -> None:
        """From now on nothing reaches the image, and every access fails. Then kill the processes, and `plug_in`."""
        folder = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # a full disk proves nothing
                (self.place / _UNSYNCED).write_bytes(_WORDS)
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
        finally:
            os.close(folder)

    def plug_in(self) -> bool:
        """Mounts it again after `cut_power`; no process may use it. True: the proof is what it must be, see rule 3."""
        run("umount", str(self.place))
        self.mount()
        is_proven = _content(self.place / _SYNCED) == _WORDS and _content(self.place / _UNSYNCED) != _WORDS
        (self.place / _UNSYNCED).unlink(missing_ok=True)
        return is_proven

    def freeze(self) -> None:
        """Every write and every sync hangs until `thaw`."""
        self._frozen = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.ioctl(self._frozen, _FREEZE, 0)

    def is_frozen(self) -> bool:
        """The kernel says so: what is frozen cannot be frozen again."""
        if self._frozen < 0:
            return False
        try:
            fcntl.ioctl(self._frozen, _FREEZE, 0)
        except OSError as error:
            return error.errno == errno.EBUSY
        return False

    def thaw(self) -> None:
        """Ends `freeze`; nothing to do when it is not frozen."""
        if self._frozen >= 0:
            fcntl.ioctl(self._frozen, _THAW, 0)
            os.close(self._frozen)
            self._frozen = -1

    def fill(self) -> bool:
        """Not one byte is free; False: it could not be filled."""
        with open(self.place / _BALLAST, "wb") as file:
            status = os.statvfs(self.place)
            with contextlib.suppress(OSError):  # its process takes room at the same time
                os.posix_fallocate(file.fileno(), 0, max(1, (status.f_bavail - 8) * status.f_bsize))
        with open(self.place / f"{_BALLAST}-rest", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1024))
            except OSError as error:
                return error.errno == errno.ENOSPC and is_full(self.place)

    def empty_ballast(self) -> None:
        """Ends `fill`."""
        for name in (_BALLAST, f"{_BALLAST}-rest"):
            (self.place / name).unlink(missing_ok=True)

    def lose_all(self) -> None:
        """As if a new disk stood in its place; no process may use it."""
        for path in self.place.iterdir():
            if path.name not in _STAYS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def is_empty(self) -> bool:
        """Nothing lies there."""
        return {path.name for path in self.place.iterdir()} <= _STAYS


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
