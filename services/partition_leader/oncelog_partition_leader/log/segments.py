"""The files of one partition's log: when a segment is rolled, which data is durable, and when old segments are deleted.

Rule 1: everything below the synced end is on disk with its directory entry. A failed sync makes the log refuse everything
        from then on (S9, S10); the files of a checkpoint may fail, and are written again later (S7).
Rule 2: a segment ends with a checkpoint: its indexes, the epochs and the producer state become durable at the next sync.
Rule 3: only whole segments are deleted, oldest first (`core/retention`), and only when the producer state at the start of
        the rest is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.errors import OffsetOutOfRangeError, StorageError
from oncelog_partition_leader.core.log.aborted_index import AbortedIndex
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.core.log.retention import is_active_expired, segments_to_delete
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.checkpoints import (
    LEADER_EPOCHS,
    Checkpoint,
    RecoveryPoint,
    prune_snapshots,
    snapshot_offsets,
    snapshot_path,
)
from oncelog_partition_leader.log.log_config import UNLIMITED, LogConfig
from oncelog_partition_leader.log.reached_epoch import ReachedEpoch
from oncelog_partition_leader.log.segment_file import INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from oncelog_runtime.ports import Disk

_AGED_BYTES: Final = 1 << 20
_AGED_MS: Final = 5 * 60 * 1000
"""A recovery has at most about so many bytes to scan of a log to which nothing was appended for so long."""
_LARGE_BYTES: Final = 4 << 20
_LOG_PER_SNAPSHOT: Final = 4
"""A large state is stored only after this many times its size was appended: that much more is scanned after a crash."""


@dataclass(slots=True)
class Recovered:
    """A log as recovery hands it to `PartitionLog`. `scanned`: the last stop was not clean. `lost_tail`: its end was cut."""

    tag: int
    segments: list[Segment]
    point: RecoveryPoint
    producers: ProducerStates
    epochs: LeaderEpochs
    aborted: AbortedIndex
    log_end_offset: int
    scanned: bool
    lost_tail: bool
    has_new_names: bool = False
    """Names in its directory may not be durable yet: the next sync is to include it."""


class SegmentedLog:
    """The part of a log (`PartitionLog`) that manages its segments as files.

    It has more fields than other classes: all parts of a log share them, and they move together (`PartitionLog`, rule 2).
    """

    def __init__(self, disk: Disk, directory: str, config: LogConfig, state: Recovered, reached: ReachedEpoch) -> None:
        self._disk = disk
        self._config = config
        self._segments = state.segments
        self._point = state.point
        self._reached = reached
        self._log_end = state.log_end_offset
        self._synced_end = state.log_end_offset
        self._failed: StorageError | None = None
        self._changed: Callable[[], None] = _nothing
        self._generation = 0
        self._dirty_directory = state.has_new_names
        self._unsynced: list[Segment] = []
        self._checkpoints: list[Checkpoint] = []
        self._since_checkpoint = self._uncovered_bytes()
        self._aged_from_ms: int | None = None
        self._is_aged = False
        self._snapshot_bytes = 0
        """The size of the newest snapshot that this object stored."""
        self.directory = directory
        self.producers = state.producers
        self.epochs = state.epochs
        self.aborted = state.aborted
        self.producers.log_start_offset = state.point.log_start_offset

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._point.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._log_end

    @property
    def synced_end_offset(self) -> int:
        """The synced end: everything below it is on disk."""
        return self._synced_end

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.index.size for segment in self._segments)

    @property
    def closed_end_offset(self) -> int:
        """The end of the closed segments, where the active one begins."""
        return self._segments[-1].base_offset

    @property
    def wants_sync(self) -> bool:
        """True when a sync would make rolled segments, or a checkpoint that is due, durable."""
        return bool(self._unsynced or self._checkpoints) or self._is_checkpoint_due

    @property
    def _is_checkpoint_due(self) -> bool:
        """True after `checkpoint_bytes`, or more when the state is large: its snapshots take a fraction of what is written."""
        large = self._snapshot_bytes if self._snapshot_bytes >= _LARGE_BYTES else 0
        due_bytes = _AGED_BYTES if self._is_aged else self._config.checkpoint_bytes
        return self._since_checkpoint >= max(due_bytes, _LOG_PER_SNAPSHOT * large)

    def tell_changes(self, changed: Callable[[], None]) -> None:
        """Has `changed` called now, and whenever `wants_sync` or `failed` may have become true: idle logs need no look."""
        self._changed = changed
        changed()

    def _uncovered_bytes(self) -> int:
        """Counts the bytes that no index on disk covers."""
        return sum(segment.index.size - segment.indexed_bytes for segment in self._segments)

    # ------------------------------------------------------------ a new segment

    def _roll(self) -> None:
        """Begins a new segment; the old one, its indexes and the producer state become durable at the next sync."""
        old = self._segments[-1]
        fresh = Segment(self._disk, self.directory, self._log_end)
        fresh.open_new()
        self._checkpoints.append(self._checkpoint())
        self._unsynced.append(old)
        self._segments.append(fresh)
        self._dirty_directory = True
        self._changed()

    # ------------------------------------------------------------ syncs and checkpoints

    async def sync(self) -> int:
        """Makes everything that was appended before this call durable; returns the synced end offset.

        Raises `StorageError`: then the log has failed, and no later sync can help (S9, S10): take a new incarnation,
        close it without `clean`, open it again. The files of a checkpoint may fail without harm (S7): they are written
        again at the next sync.
        """
        self._usable()
        if self._is_checkpoint_due:
            self._checkpoints.append(self._checkpoint())
        end, generation, sealed = self._log_end, self._generation, list(self._unsynced)
        await self._sync_files([*sealed, self._segments[-1]], generation)
        if generation != self._generation:
            return self._synced_end
        self._unsynced = [segment for segment in self._unsynced if segment not in sealed]
        assert end <= self._log_end, "a recovery point is never above the log end"
        if end > self._synced_end:
            self._synced_end = end
            self._dirty_directory = self._point.note(end) or self._dirty_directory
        await self._store_checkpoints(generation)
        return self._synced_end

    async def _sync_files(self, segments: Sequence[Segment], generation: int) -> None:
        try:
            for segment in segments:
                await segment.file.sync()
            if not self._reached.is_synced:
                await self._reached.sync()
            if self._dirty_directory:
                self._dirty_directory = False
                await self._disk.sync_dir(self.directory)
        except StorageError as error:
            if generation == self._generation:
                self._fail(error)
            raise

    def _checkpoint(self) -> Checkpoint:
        """Takes a checkpoint of the present state, which spares a recovery the scan: after it every index is on disk."""
        assert self.producers.end_offset == self._log_end, "a snapshot is of the offset that names it"
        checkpoint = Checkpoint(self._log_end, self.producers.begin_snapshot())
        files = checkpoint.files
        files[f"{self.directory}/{LEADER_EPOCHS}"] = self.epochs.dump()
        self._since_checkpoint, self._aged_from_ms, self._is_aged = 0, None, False
        # A checkpoint that waits is stored before this one: if each took the same indexes again, n of them would be n*n files.
        taken = {segment: covered for waiting in self._checkpoints for segment, covered in waiting.indexed}
        for segment in self._segments:
            covered = taken.get(segment, segment.indexed_bytes)
            if covered == segment.index.size and segment is not self._segments[-1]:
                continue  # nearly all: only a cut, or a full disk, leaves an older segment without its index
            checkpoint.indexed.append((segment, segment.index.size))
            files[segment.path + TXN_INDEX_SUFFIX] = self.aborted.dump(segment.base_offset, segment.next_offset)
            files[segment.path + INDEX_SUFFIX] = segment.index.dump()
        return checkpoint

    async def _store_checkpoints(self, generation: int) -> None:
        due = [checkpoint for checkpoint in self._checkpoints if checkpoint.end_offset <= self._synced_end]
        if not due and not self._point.is_full:
            return
        try:
            for checkpoint in due:
                path = snapshot_path(self.directory, checkpoint.end_offset)
                if path not in checkpoint.files:
                    checkpoint.files[path] = await self._disk.run(checkpoint.producers.whole)
                if generation != self._generation:
                    return
                self._snapshot_bytes = len(checkpoint.files[path])
                gone = tuple(segment.path for segment, _ in checkpoint.indexed if segment not in self._segments)
                for path, data in checkpoint.files.items():
                    if path.startswith(gone):
                        continue  # compacted or deleted meanwhile: the file of that name has another index now
                    await self._disk.write_atomic(path, data)
                    if generation != self._generation:
                        return
                for segment, covered in checkpoint.indexed:
                    segment.indexed_bytes = covered
                self._checkpoints.remove(checkpoint)
            await self._point.store(self._synced_end, self.log_start_offset)
            prune_snapshots(self._disk, self.directory, {segment.base_offset for segment in self._segments})
        except StorageError:
            return  # S7: the log itself is sound; the checkpoint stays due

    def _look_at_age(self, now_ms: int) -> None:
        """Makes a checkpoint due for what has been in the log for minutes without one, also when nothing follows it."""
        if self._since_checkpoint < _AGED_BYTES:
            return
        if self._aged_from_ms is None:
            self._aged_from_ms = now_ms
        self._is_aged = now_ms - self._aged_from_ms >= _AGED_MS
        self._changed()

    # ------------------------------------------------------------ retention

    async def advance_log_start(self, offset: int) -> None:
        """Raises the log start, durably: nothing below `offset` may be read. Retention deletes the segments later.

        Never moves back. Raises `OffsetOutOfRangeError` above the log end (the caller refuses offsets above the high
        watermark), and `StorageError`.
        """
        self._usable()
        if offset > self._log_end:
            raise OffsetOutOfRangeError(offset=offset, log_end_offset=self._log_end)
        if offset <= self.log_start_offset:
            return
        if offset > self._synced_end:
            await self.sync()
        await self._point.store(self._point.end_offset, offset)
        self.producers.log_start_offset = offset
        self.epochs.truncate_head(offset)

    async def apply_retention(self, now_ms: int, high_watermark: int) -> None:
        """Deletes the oldest segments by time, size or log start offset. Raises `StorageError`."""
        self._usable()
        self._look_at_age(now_ms)
        config = self._config
        retention_ms = config.retention_ms if "delete" in config.cleanup_policy else UNLIMITED
        unstable = self.producers.transactions.unstable_from(high_watermark)
        last_stable_offset = high_watermark if unstable is None else min(unstable, high_watermark)
        if is_active_expired(
            self._segments[-1].index,
            now_ms=now_ms,
            last_stable_offset=last_stable_offset,
            retention_ms=retention_ms,
            segment_ms=config.segment_ms,
        ):
            self._roll()
        count = segments_to_delete(
            [segment.index for segment in self._segments],
            now_ms=now_ms,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=self.log_start_offset,
            retention_ms=retention_ms,
            retention_bytes=config.retention_bytes if "delete" in config.cleanup_policy else UNLIMITED,
        )
        if not count:
            return  # without a look at the folder: there are thousands of logs
        if self._unsynced or self._checkpoints:
            await self.sync()
        snapshots = snapshot_offsets(self._disk, self.directory)
        while count and self._segments[count].base_offset not in snapshots:
            count -= 1  # without the producer state at its start the rest of the log could not be recovered
        if not count:
            return
        first = self._segments[count].base_offset
        await self.advance_log_start(first)
        for segment in self._segments[:count]:
            segment.remove()
        del self._segments[:count]
        self.aborted.truncate_head(first)
        prune_snapshots(self._disk, self.directory, {segment.base_offset for segment in self._segments})
        await self._disk.sync_dir(self.directory)

    # ------------------------------------------------------------ trouble

    def _usable(self) -> None:
        if self._failed is not None:
            raise StorageError("this log has failed", reason=self._failed.context.get("reason", "io"))

    def _fail(self, error: StorageError) -> None:
        self._failed = self._failed or error
        self._changed()


def _nothing() -> None:
    """Is called while no caller wants to know of changes."""
