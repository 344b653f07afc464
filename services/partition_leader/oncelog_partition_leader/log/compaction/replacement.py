"""Replaces segments by a compacted one, so that a crash at any point leaves the old ones or the new one, whole.

    <base>.log.<name>.cleaned   the new segment while it is written; `name` is its writer's alone. A recovery removes it
    <base>-<next>.compacted     the same file, whole and synced: from here on it counts, and a recovery finishes what follows
    <base>.log                  the same file again, after the files of the old segments are gone

Rule 1: the first rename is made durable before any old file is removed, and the removals before the second rename.
Rule 2: `finish` repeats everything after the first rename; each step may be repeated.
Rule 3: producer snapshots that end within the new segment go before the first rename: a batch boundary may be gone there.
"""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog_partition_leader.core.compaction.plan import NEVER_MS, Progress
from oncelog_partition_leader.log.checkpoints import numbered, snapshot_offsets, snapshot_path
from oncelog_partition_leader.log.segment_file import INDEX_SUFFIX, LOG_SUFFIX, OFFSET_DIGITS, TXN_INDEX_SUFFIX
from oncelog_runtime.ports import Disk

CLEANED_SUFFIX: Final = ".cleaned"
COMPACTION_POINT: Final = "compaction-point"
_COMPACTED: Final = re.compile(rf"(\d{{{OFFSET_DIGITS}}})-(\d{{{OFFSET_DIGITS}}})\.compacted", re.ASCII)
_POINT: Final = struct.Struct("<qqI")


class Replacement(NamedTuple):
    """The segment that takes the place of all segments in [base_offset, next_offset). `name`: of who writes it."""

    directory: str
    base_offset: int
    next_offset: int
    name: str = ""

    @property
    def log_path(self) -> str:
        """The path at the end."""
        return f"{self.directory}/{self.base_offset:0{OFFSET_DIGITS}d}{LOG_SUFFIX}"

    @property
    def cleaned_path(self) -> str:
        """The path while it is written."""
        return f"{self.log_path}{'.' if self.name else ''}{self.name}{CLEANED_SUFFIX}"

    @property
    def compacted_path(self) -> str:
        """The path from which on it counts."""
        name = f"{self.base_offset:0{OFFSET_DIGITS}d}-{self.next_offset:0{OFFSET_DIGITS}d}.compacted"
        return f"{self.directory}/{name}"


async def commit(disk: Disk, replacement: Replacement) -> None:
    """Makes the new segment count; its file is whole and synced. Raises `StorageError`: then a recovery decides."""
    for offset in snapshot_offsets(disk, replacement.directory):
        if replacement.base_offset < offset < replacement.next_offset:
            disk.remove(snapshot_path(replacement.directory, offset))
    await disk.sync_dir(replacement.directory)
    disk.rename(replacement.cleaned_path, replacement.compacted_path)
    await disk.sync_dir(replacement.directory)


async def finish(disk: Disk, replacement: Replacement) -> None:
    """Removes the files of the old segments, and gives the new one its name. Raises `StorageError`.

    Both in a thread: the kernel takes long to free a large file, 85 ms for 256 MiB.
    """
    directory, base, end = replacement.directory, replacement.base_offset, replacement.next_offset
    names = disk.list(directory)
    for suffix in (INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX):
        for offset in reversed(numbered(names, suffix)):
            if base < offset < end or (offset == base and suffix != LOG_SUFFIX):
                await disk.run(partial(disk.remove, f"{directory}/{offset:0{OFFSET_DIGITS}d}{suffix}"))
    await disk.sync_dir(directory)
    await disk.run(partial(disk.rename, replacement.compacted_path, replacement.log_path))
    await disk.sync_dir(directory)


def remove_cleaned(disk: Disk, directory: str) -> None:
    """Removes the files that passes have left which died, of this process or of an earlier one. Raises `StorageError`."""
    for name in disk.list(directory):
        if name.endswith(CLEANED_SUFFIX):
            disk.remove(f"{directory}/{name}")


async def finish_interrupted(disk: Disk, directory: str) -> None:
    """Finishes the replacements that a crash has interrupted. Raises `StorageError`."""
    for name in disk.list(directory):
        found = _COMPACTED.fullmatch(name)
        if found is not None:
            await finish(disk, Replacement(directory, int(found[1]), int(found[2])))


# ---------------------------------------------------------------- how far the log is compacted


def read_progress(disk: Disk, directory: str, log_end_offset: int) -> Progress:
    """Returns how far the log was compacted; nothing of it when the file is missing, damaged, or of a longer log."""
    path = f"{directory}/{COMPACTION_POINT}"
    data = disk.read_file(path) if disk.exists(path) else b""
    if len(data) != _POINT.size:
        return Progress()
    cleaned_to, horizon_ms, crc = _POINT.unpack(data)
    if crc32c(data[:16]) != crc or not 0 <= cleaned_to <= log_end_offset:
        disk.remove(path)
        return Progress()
    return Progress(cleaned_to, horizon_ms)


def encode_progress(progress: Progress) -> bytes:
    """Returns the content of the file. What is held back for a replica counts there as any other horizon: one pass after a
    restart finds out again for what it waits.
    """
    horizon_ms = min(progress.horizon_ms, progress.held_back_ms, NEVER_MS)
    body = struct.pack("<qq", progress.cleaned_to, horizon_ms)
    return body + struct.pack("<I", crc32c(body))
