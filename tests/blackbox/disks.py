"""A disk of its own for each node: an ext4 image on a loop device, whose power can be cut.

Rule 1: a power cut keeps what was synced and nothing else: the file system is shut down without writing its log (ext4's
        shutdown ioctl), the processes are killed, and the image is mounted again. Callers stop the processes first.
Rule 2: nothing in the harness opens a file on a frozen disk: whoever does that sleeps until it thaws.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from pathlib import Path
from typing import Final

from tests.blackbox.host import run

_SHUTDOWN: Final = 0x8004587D
_WITHOUT_LOG: Final = 2
_FREEZE: Final = 0xC0045877
_THAW: Final = 0xC0045878
_OPTIONS: Final = "loop,noauto_da_alloc,commit=300"
"""Nothing is written soon that was not asked for: what was not synced is lost."""
_BALLAST: Final = "ballast"


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

    def mount(self) -> None:
        """Mounts it; its journal is replayed."""
        run("mount", "-o", _OPTIONS, str(self._image), str(self.place))

    def cut_power(self) -> None:
        """From now on nothing reaches the image, and every access fails. Then kill the processes, and `plug_in`."""
        folder = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
        finally:
            os.close(folder)

    def plug_in(self) -> None:
        """Mounts it again after `cut_power`; no process may use it."""
        run("umount", str(self.place))
        self.mount()

    def freeze(self) -> None:
        """Every write and every sync hangs until `thaw`."""
        self._frozen = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.ioctl(self._frozen, _FREEZE, 0)

    def thaw(self) -> None:
        """Ends `freeze`; nothing to do when it is not frozen."""
        if self._frozen >= 0:
            fcntl.ioctl(self._frozen, _THAW, 0)
            os.close(self._frozen)
            self._frozen = -1

    def fill(self) -> None:
        """Not one byte is free."""
        with open(self.place / _BALLAST, "wb") as file:
            status = os.statvfs(self.place)
            os.posix_fallocate(file.fileno(), 0, max(1, (status.f_bavail - 8) * status.f_bsize))
        with open(self.place / f"{_BALLAST}-rest", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1024))
            except OSError:
                return

    def empty_ballast(self) -> None:
        """Ends `fill`."""
        for name in (_BALLAST, f"{_BALLAST}-rest"):
            (self.place / name).unlink(missing_ok=True)

    def lose_all(self) -> None:
        """As if a new disk stood in its place; no process may use it."""
        for path in self.place.iterdir():
            if path.name != "lost+found":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
