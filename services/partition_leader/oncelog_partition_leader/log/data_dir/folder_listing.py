"""Lists the folders in a broker's `logs` from outside, and takes some back from the trash. For `oncelog log trash`.

Rule 1: listing only reads, and may run beside a broker.
Rule 2: `take_back` renames within the folder; a name that is in use is refused. A running broker opens a folder only when
        etcd gives it the partition, and then uses the one that it finds in its place, so this is safe beside one too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from oncelog.errors import StorageError
from oncelog_partition_leader.core.log.folders import TRASH, Folder, parse_folder, parse_trashed


def logs_in(path: Path) -> Path:
    """Finds the folder of logs that a path means: itself, or `logs` in a data directory. Raises `StorageError`."""
    for logs in (path / "logs", path):
        if logs.is_dir() and any(parse_folder(item.name) or item.name == TRASH for item in logs.iterdir()):
            return logs
    raise StorageError(f"{path} holds no logs of a broker", reason="absent")


def trashed_in(logs: Path) -> Iterator[dict[str, object]]:
    """Yields one row for each folder in the trash, the oldest first."""
    for name in sorted(item.name for item in (logs / TRASH).iterdir()) if (logs / TRASH).is_dir() else ():
        entry = parse_trashed(name)
        if entry is not None:
            yield {**_row(entry.folder, logs / TRASH / name), "since_ms": entry.since_ms}


def take_back(logs: Path, folder: str) -> Path:
    """Moves the newest folder of this name from the trash to its place. Raises `StorageError`."""
    kept = [item.name for item in sorted((logs / TRASH).glob(f"*.{folder}"))] if (logs / TRASH).is_dir() else []
    kept = [name for name in kept if (entry := parse_trashed(name)) is not None and entry.folder.name == folder]
    if not kept:
        raise StorageError(f"the trash of {logs} has no {folder}", reason="absent")
    place = logs / folder
    if place.exists():
        raise StorageError(f"{place} is in use: move it away first", reason="in_use")
    (logs / TRASH / kept[-1]).rename(place)
    for directory in (logs, logs / TRASH):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return place


def _row(folder: Folder, path: Path) -> dict[str, object]:
    size = sum(item.stat().st_size for item in path.rglob("*") if item.is_file())
    partition = folder.partition
    return {
        "folder": folder.name,
        "topic": folder.topic,
        "topic_id": partition.topic_id,
        "partition": partition.partition,
        "bytes": size,
    }
