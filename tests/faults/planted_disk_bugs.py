"""Bugs in the order of writes, syncs and names, planted one at a time: a sweep that finds none of them proves nothing.

Each is a context manager that replaces one function of the product by what a hurried programmer might have written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from oncelog.errors import StorageError
from oncelog_partition_leader.log import segments, truncation
from oncelog_partition_leader.log.checkpoints import snapshot_offsets, snapshot_path
from oncelog_partition_leader.log.compaction import compactable_log, replacement
from oncelog_partition_leader.log.segment_file import INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from oncelog_partition_leader.replication.log_opening import LogOpener
from oncelog_runtime.adapters.files import os_disk, os_file

Plant = Callable[[], AbstractContextManager[object]]


async def _nothing(*_arguments: Any, **_options: Any) -> None:
    return None


def _no_sync_of_files() -> AbstractContextManager[object]:
    return patch.object(os_file.OsFile, "sync", _nothing)


def _no_sync_of_folders() -> AbstractContextManager[object]:
    return patch.object(os_disk.OsDisk, "sync_dir", _nothing)


def _replace(sync_file: bool, sync_folder: bool) -> AbstractContextManager[object]:
    def replaced(path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        with open(temporary, "wb", opener=os_disk.open_private) as file:
            file.write(data)
            file.flush()
            if sync_file:
                os.fsync(file.fileno())
        temporary.replace(path)
        if sync_folder:
            os_disk._sync_directory(path.parent)

    return patch.object(os_disk, "_replace", replaced)


def _small_file_not_synced() -> AbstractContextManager[object]:
    return _replace(sync_file=False, sync_folder=True)


def _small_file_name_not_synced() -> AbstractContextManager[object]:
    return _replace(sync_file=True, sync_folder=False)


def _new_segment_not_in_its_folder() -> AbstractContextManager[object]:
    """The folder is synced by nothing but the small files of a checkpoint."""

    async def sync_files(self: segments.SegmentedLog, those: Any, generation: int) -> None:
        self._dirty_directory = False
        for segment in those:
            await segment.file.sync()

    return patch.object(segments.SegmentedLog, "_sync_files", sync_files)


def _rolled_segment_not_synced() -> AbstractContextManager[object]:
    async def sync_files(self: segments.SegmentedLog, those: Any, generation: int) -> None:
        await those[-1].file.sync()
        await self._disk.sync_dir(self.directory)

    return patch.object(segments.SegmentedLog, "_sync_files", sync_files)


def _recovery_point_before_the_data() -> AbstractContextManager[object]:
    real = segments.SegmentedLog._sync_files

    async def sync_files(self: segments.SegmentedLog, those: Any, generation: int) -> None:
        with suppress(StorageError):  # as a checkpoint that finds no room
            await self._point.store(self._log_end, self.log_start_offset)
        await real(self, those, generation)

    return patch.object(segments.SegmentedLog, "_sync_files", sync_files)


def _cut_before_the_claim() -> AbstractContextManager[object]:
    """The bytes go first, and the recovery point is lowered after it."""

    async def cut(self: truncation.TruncatableLog, segment: Segment, offset: int, position: int) -> None:
        self._tail.clear()
        self._checkpoints.clear()
        self._synced_end = min(self._synced_end, offset)
        for end_offset in snapshot_offsets(self._disk, self.directory):
            if end_offset > offset:
                self._disk.remove(snapshot_path(self.directory, end_offset))
        keep = self._segments.index(segment) + 1
        for later in reversed(self._segments[keep:]):
            later.remove()
        segment.remove((INDEX_SUFFIX, TXN_INDEX_SUFFIX))
        await self._disk.sync_dir(self.directory)
        del self._segments[keep:]
        self._unsynced = [old for old in self._unsynced if old in self._segments]
        segment.file.truncate(position)
        await self._restore_at(segment, offset, position)
        await segment.file.sync()
        self._begin_file(segment)
        await self._point.store(min(self._point.end_offset, offset), min(self.log_start_offset, offset))

    return patch.object(truncation.TruncatableLog, "_cut", cut)


def _old_segments_before_the_new_one_counts() -> AbstractContextManager[object]:
    """The steps of a compaction in another order: first the removal, then the rename that makes the new segment count."""

    async def commit(disk: Any, new: replacement.Replacement) -> None:
        names = disk.list(new.directory)
        for offset in replacement.numbered(names, ".log"):
            if new.base_offset <= offset < new.next_offset:
                disk.remove(f"{new.directory}/{offset:020d}.log")
        await disk.sync_dir(new.directory)
        disk.rename(new.cleaned_path, new.compacted_path)
        await disk.sync_dir(new.directory)

    return patch.object(compactable_log, "commit", commit)


def _first_rename_of_a_compaction_not_synced() -> AbstractContextManager[object]:
    async def commit(disk: Any, new: replacement.Replacement) -> None:
        for offset in snapshot_offsets(disk, new.directory):
            if new.base_offset < offset < new.next_offset:
                disk.remove(snapshot_path(new.directory, offset))
        disk.rename(new.cleaned_path, new.compacted_path)

    return patch.object(compactable_log, "commit", commit)


def _retention_before_the_log_start() -> AbstractContextManager[object]:
    """Segments are removed before anything says that the log begins later."""
    real = segments.SegmentedLog.advance_log_start

    async def advance(self: segments.SegmentedLog, offset: int) -> None:
        for segment in self._segments:
            if segment.next_offset <= offset:
                segment.remove()
        await real(self, offset)

    return patch.object(segments.SegmentedLog, "advance_log_start", advance)


def _aside_without_a_lower_claim() -> AbstractContextManager[object]:
    """A rotten log is set aside, and the empty one in its place vouches for what it never held."""

    @contextmanager
    def planted() -> Iterator[None]:
        with (
            patch.object(LogOpener, "_claim_less", _nothing),
            patch.object(LogOpener, "_asides", lambda *_: []),
        ):
            yield

    return planted()


def _lost_tail_not_told() -> AbstractContextManager[object]:
    return patch.object(LogOpener, "_lower_claim_or_close", _nothing)


PLANTED: Final[dict[str, Plant]] = {
    "a sync that does nothing": _no_sync_of_files,
    "a sync of a folder that does nothing": _no_sync_of_folders,
    "a small file that is renamed before it was synced": _small_file_not_synced,
    "a small file whose name is not synced": _small_file_name_not_synced,
    "a new segment whose name is not synced": _new_segment_not_in_its_folder,
    "an old segment that is not synced when a new one begins": _rolled_segment_not_synced,
    "a recovery point that is raised before the data": _recovery_point_before_the_data,
    "a cut before the recovery point is lowered": _cut_before_the_claim,
    "old segments that go before the compacted one counts": _old_segments_before_the_new_one_counts,
    "a compacted segment whose name is not synced": _first_rename_of_a_compaction_not_synced,
    "retention before the log start is raised": _retention_before_the_log_start,
    "a log set aside without a lower claim": _aside_without_a_lower_claim,
    "a lost tail that nobody is told of": _lost_tail_not_told,
}
