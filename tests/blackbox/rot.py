"""Turned bits in the logs of a broker that runs, and whether they are still there.

Rule: the file is written beside the broker, through the same page cache: it is as if the disk had returned other bytes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from random import Random

_KEEP = 4096
"""The end of a log may be rewritten at any moment: what is flipped there may be gone at once."""


@dataclass(frozen=True, slots=True)
class Flip:
    """One turned bit: `inode` tells the file from another one that took its name."""

    path: Path
    position: int
    byte: int
    inode: int

    def is_there(self) -> bool:
        """The file still holds the wrong byte."""
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_ino != self.inode:
                    return False
                file.seek(self.position)
                return file.read(1) == bytes([self.byte])
        except OSError:
            return False


def flip_in(data: Path, random: Random) -> Flip | None:
    """Turns one bit of one log, not at its very end; None when no log is long enough."""
    logs = sorted(path for path in data.glob("logs/*/*.log") if path.stat().st_size > 2 * _KEEP)
    if not logs:
        return None
    path = random.choice(logs)
    with open(path, "r+b", buffering=0) as file:
        status = os.fstat(file.fileno())
        position = random.randrange(status.st_size - _KEEP)
        file.seek(position)
        byte = file.read(1)[0] ^ (1 << random.randrange(8))
        file.seek(position)
        file.write(bytes([byte]))
    return Flip(path, position, byte, status.st_ino)
