"""Cuts of one partition's log: its end is removed, or all of it, with everything that was derived from what is removed.

Rule 1: log end, indexes, epochs, producer state and aborted index are cut together, to the same offset.
Rule 2: claims are lowered before the bytes go, and raised only after what replaces them is on disk. A cut that fails half-way
        fails the log: it is recovered from its files.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.errors import OffsetOutOfRangeError, OncelogError, StorageError
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.checkpoints import (
    LEADER_EPOCHS,
    RESETTING,
    RecoveryPoint,
    snapshot_offsets,
    snapshot_path,
)
from oncelog_partition_leader.log.log_reads import ReadableLog
from oncelog_partition_leader.log.reader import locate, segment_of
from oncelog_partition_leader.log.segment_file import INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from oncelog_partition_leader.log.state_replay import replay_states, states_from
from oncelog_runtime.ports import Disk


class TruncatableLog(ReadableLog):
    """The part of a log (`PartitionLog`) that removes its end, or all of it."""

    async def truncate_to(self, offset: int) -> None:
        """Truncates the log to `offset`, or to the start of the batch that contains it, and all derived state with it.

        Raises `OffsetOutOfRangeError` below the first segment, and `StorageError`.
        """
        self._usable()
        if offset >= self._log_end:
            return
        if offset < self._segments[0].base_offset:
            raise OffsetOutOfRangeError(offset=offset, first_offset=self._segments[0].base_offset)
        segment = segment_of(self._segments, offset)
        try:
            cut_offset, position = locate(segment, offset, self._tag)
        except OncelogError as error:
            raise self._rotten(error) from error
        assert cut_offset <= offset < self._log_end, "a truncation only removes"
        self._generation += 1
        try:
            await self._cut(segment, cut_offset, position)
            assert self._log_end == self.producers.end_offset == cut_offset, "all parts of the log end at the cut"
            assert self._synced_end <= self._log_end, "nothing that was removed counts as synced"
        except StorageError as error:
            self._fail(error)
            raise

    async def _cut(self, segment: Segment, offset: int, position: int) -> None:
        await self._reached.forget_above(offset)
        self._tail.clear()
        self._checkpoints.clear()
        self._synced_end = min(self._synced_end, offset)
        log_start = min(self.log_start_offset, offset)
        await self._point.store(min(self._point.end_offset, offset), log_start)
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
        await self._disk.sync_dir(self.directory)

    def _begin_file(self, cut: Segment) -> None:
        """Starts a new segment file after a truncation: the bytes removed from the old one may come back after a crash."""
        if not cut.index.size:
            cut.remove()
            self._segments.remove(cut)
        fresh = Segment(self._disk, self.directory, self._log_end)
        fresh.open_new()
        self._segments.append(fresh)

    async def _restore_at(self, segment: Segment, offset: int, position: int) -> None:
        """Rebuilds the state derived from the log, which now ends at `offset`, perhaps in the middle of `segment`."""
        self.epochs.truncate_tail(offset)
        self.aborted.truncate_tail(offset)
        self._log_end = offset

        def rebuild() -> ProducerStates:
            segment.index = segment.index_until(position, self._tag, self._config.index_interval_bytes)
            return replay_states(self._disk, self.directory, self._config, self._segments, self._tag, offset)

        try:
            self.producers = await self._disk.run(rebuild)
        except OncelogError as error:  # of any kind: a turned bit may also be an unknown magic byte
            raise self._rotten(error) from error
        self.producers.log_start_offset = self.log_start_offset
        self._since_checkpoint = self._uncovered_bytes()
        self._changed()

    async def reset_to(self, offset: int, snapshot: bytes | None) -> None:
        """Drops everything and starts an empty log at `offset`, with the leader's producer state there.

        For a follower whose log ends below the leader's log start, and for a log that is fetched again. A crash in the middle
        leaves an empty log at 0. Raises `CorruptMessageError` for a bad snapshot (nothing changed), and `StorageError`.
        """
        self._usable()
        config = self._config
        states = await self._disk.run(lambda: states_from(snapshot, offset, config))
        self._generation += 1
        try:
            await self._replace_all(offset, states)
        except StorageError as error:
            self._fail(error)
            raise

    async def _replace_all(self, offset: int, states: ProducerStates) -> None:
        await self._reached.forget_above(-1)
        fresh = await begin_anew(self._disk, self.directory, self._point, self._segments, states)
        self._segments[:] = [fresh]
        self._unsynced.clear()
        self._checkpoints.clear()
        self._tail.clear()
        self.producers = states
        states.log_start_offset = offset
        self.epochs.reset(offset)
        self.aborted.truncate_tail(-1)
        self._log_end = self._synced_end = offset
        self._since_checkpoint = 0
        assert fresh.next_offset == self.producers.end_offset == offset, "an empty log and its state begin together"


async def begin_anew(
    disk: Disk, directory: str, point: RecoveryPoint, segments: Sequence[Segment], states: ProducerStates
) -> Segment:
    """Replaces a log's files by an empty log that begins at `states.end_offset`; returns its one segment.

    A crash in the middle leaves an empty log at 0 (`RESETTING`). Raises `StorageError`.
    """
    offset = states.end_offset
    await point.store(RESETTING, 0)
    for segment in segments:
        segment.remove()
    for end_offset in snapshot_offsets(disk, directory):
        disk.remove(snapshot_path(directory, end_offset))
    disk.remove(f"{directory}/{LEADER_EPOCHS}")
    fresh = Segment(disk, directory, offset)
    fresh.open_new()
    await fresh.file.sync()
    await disk.write_atomic(snapshot_path(directory, offset), await disk.run(states.snapshot))
    await disk.sync_dir(directory)
    await point.store(offset, offset)
    return fresh
