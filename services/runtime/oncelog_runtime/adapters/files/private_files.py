"""What a process keeps on disk is its owner's alone: folders 0700, files 0600.

Rule 1: whatever is made here is private from its first moment; no umask is needed for that.
Rule 2: a data directory that others may enter is tightened when it is taken, which protects all that an older version left in
        it. The owner's group keeps its rights where the setgid bit stands: so Kubernetes marks a volume of `fsGroup`, and it
        would go through the whole volume again if they were gone.
Rule 3: a directory that belongs to somebody else (the root of a volume often does) cannot be tightened and is no reason to
        stop: files in it are private all the same. It is told once, at the start.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
UMASK: Final = 0o077
"""For child processes that make files of their own (etcd)."""


def make_folders(path: Path) -> None:
    """The directory and its parents, as far as they are missing. Raises `OSError`."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(FOLDER_MODE, exist_ok=True)


def take_folder(path: Path) -> None:
    """As `make_folders`, and an existing directory is closed to others (rules 2 and 3). Raises `OSError`."""
    make_folders(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    is_shared = bool(mode & stat.S_ISGID)
    wanted = mode & ~(stat.S_IRWXO if is_shared else stat.S_IRWXO | stat.S_IRWXG)
    if wanted == mode:
        return
    try:
        path.chmod(wanted)
    except PermissionError:
        level = logging.INFO if is_shared else logging.WARNING
        _log.log(
            level,
            "others may look into the data directory, and it is not ours to close: chmod it to 0700 as its owner",
            extra={"data_dir": str(path), "mode": f"{mode:04o}"},
        )
        return
    _log.warning(
        "the data directory was open to others and is closed now",
        extra={"data_dir": str(path), "mode": f"{mode:04o}", "now": f"{wanted:04o}"},
    )


def open_private(path: str, flags: int) -> int:
    """An `opener` for `open`: a new file is its owner's alone."""
    return os.open(path, flags, FILE_MODE)
