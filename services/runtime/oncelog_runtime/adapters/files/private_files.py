"""Files and folders of a process are accessible to their owner only: folders 0700, files 0600.

Rule 1: everything made here is private from its creation; no umask is needed for that.
Rule 2: a data directory that others may enter is restricted when it is taken, which also protects what an older version
        left in it. The owner's group keeps its rights if the setgid bit is set: Kubernetes marks a volume of `fsGroup`
        in this way, and it would change the whole volume again if they were gone.
Rule 3: a directory with another owner (often the root of a volume) cannot be restricted, which is no reason to stop:
        files in it are private all the same. It is logged once, at the start.
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
    """Creates the directory and its missing parents. Raises `OSError`."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(FOLDER_MODE, exist_ok=True)


def take_folder(path: Path) -> None:
    """Does the same as `make_folders`, and closes an existing directory to others (rules 2 and 3). Raises `OSError`."""
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
    """An `opener` for `open`: only the owner can access a new file."""
    return os.open(path, flags, FILE_MODE)
