"""The part of a log that is compacted: when a pass is due, and how its result takes the place of the old segments.

Rule 1: a pass reads and writes beside the log; only the replacement of segments holds the lock that syncs, truncations and
        retention hold, for a few syncs of the directory and the removal of the old files.
Rule 2: in memory the segments are replaced in one step, after the new one counts on disk. Readers hold open files, so what
        they have begun ends with the old bytes.
Rule 3: an error before the new segment counts leaves the log as it was; after it the log fails, and its recovery finishes.
Rule 4: offsets, high watermark, last stable offset, epochs and producer state are not touched: they are the same before and
        after, in memory and when the log is replayed. A replay of the log alone knows no markers that are gone, only the last
        one of each transactional id.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import NamedTuple

from oncelog.errors import CorruptMessageError, OncelogError, StorageError
from oncelog_partition_leader.core.compaction.plan import (
    CompactionOptions,
    Progress,
    cleanable,
    groups,
    is_due,
    is_overdue,
)
from oncelog_partition_leader.core.compaction.rewriting import Tally
from oncelog_partition_leader.core.log.segment import SegmentIndex
from oncelog_partition_leader.log.checkpoints import snapshot_offsets
from oncelog_partition_leader.log.compaction.compaction_pass import AbandonedError, CompactionPass
from oncelog_partition_leader.log.compaction.pass_job import Job, Limits, PassWorker, Written, stretches_of
from oncelog_partition_leader.log.compaction.pass_work import PassWork
from oncelog_partition_leader.log.compaction.replacement import (
    COMPACTION_POINT,
    commit,
    encode_progress,
    finish,
    read_progress,
)
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.reached_epoch import ReachedEpoch
from oncelog_partition_leader.log.segment_file import INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from oncelog_partition_leader.log.segments import Recovered
from oncelog_partition_leader.log.truncation import TruncatableLog
from oncelog_runtime.ports import Disk


class _Asked(NamedTuple):
    """The caller's part of a pass: its time, its limits, and the offset that every replica holds."""

    now_ms: int
    limits: Limits
    held_everywhere: int


class _PassHost:
    """A log as a pass sees it."""

    def __init__(self, log: CompactableLog, alone: AbstractAsyncContextManager[object]) -> None:
        self._log = log
        self._alone = alone
        self._generation = log._generation

    def has(self, segments: Sequence[Segment]) -> bool:
        """See `PassHost.has`."""
        log = self._log
        return log._failed is None and log._generation == self._generation and log.holds(segments)

    def unreadable(self, error: OncelogError) -> OncelogError:
        """See `PassHost.unreadable`."""
        return self._log._rotten(error)

    def has_deleted(self, segments: Sequence[Segment]) -> bool:
        """See `PassHost.has_deleted`."""
        log = self._log
        return log._generation == self._generation and segments[-1].next_offset <= log._segments[0].base_offset

    async def replace(self, group: Sequence[Segment], written: Written) -> None:
        """See `PassHost.replace`."""
        fresh = await self._log.written_segment(written)
        async with self._alone:
            if not self.has(group):
                fresh.close()
                raise AbandonedError
            await self._log.replace(group, fresh, written)


class CompactableLog(TruncatableLog):
    """The part of a log (`PartitionLog`) that keeps only the newest record of each key."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, state: Recovered, reached: ReachedEpoch) -> None:
        super().__init__(disk, directory, config, state, reached)
        self._progress = read_progress(disk, directory, state.log_end_offset)

    @property
    def dirty_bytes(self) -> int:
        """Bytes in segments that no pass has looked at, with the active one; 0 for a topic that is not compacted."""
        if not self._config.is_compacted:
            return 0
        return sum(s.index.size for s in self._segments if s.next_offset > self._progress.cleaned_to)

    def wants_compaction(self, now_ms: int, high_watermark: int, held_everywhere: int = 0) -> bool:
        """Returns True when a pass is due."""
        if not self._config.is_compacted or self._failed is not None or now_ms <= 0:
            return False
        count = self._cleanable(now_ms, high_watermark)
        indexes = [segment.index for segment in self._segments[:count]]
        is_due_by_segments = is_due(indexes, self._progress, now_ms, self._options, held_everywhere)
        return is_due_by_segments or self._active_waits(now_ms, high_watermark)

    @property
    def _options(self) -> CompactionOptions:
        config = self._config
        return CompactionOptions(
            config.min_cleanable_dirty_ratio, config.min_compaction_lag_ms, config.max_compaction_lag_ms
        )

    def _active_waits(self, now_ms: int, high_watermark: int) -> bool:
        """Returns True when the active segment must be rolled, since its first record must be compacted soon."""
        active = self._segments[-1].index
        return active.next_offset <= self._stable_end(high_watermark) and is_overdue(active, now_ms, self._options)

    def _stable_end(self, high_watermark: int) -> int:
        unstable = self.producers.transactions.unstable_from(high_watermark)
        return min(high_watermark, self._synced_end, high_watermark if unstable is None else unstable)

    def _cleanable(self, now_ms: int, high_watermark: int) -> int:
        """Counts the segments that may be compacted; where they end the producer state is on disk, and all of them are."""
        indexes = [segment.index for segment in self._segments]
        bound = self._stable_end(high_watermark)
        count = cleanable(indexes, bound, now_ms, self._config.min_compaction_lag_ms)
        waiting = [self._segments.index(segment) for segment in self._unsynced if segment in self._segments]
        return min([count, *waiting])

    async def compact(
        self,
        now_ms: int,
        high_watermark: int,
        limits: Limits,
        alone: AbstractAsyncContextManager[object] | None = None,
        worker: PassWorker | None = None,
        *,
        held_everywhere: int = 0,
    ) -> Tally | None:
        """Runs one pass, if one is due; returns what it did. `alone` excludes syncs, truncations and retention. Without a
        `worker` this process does all of the work. Above `held_everywhere` nothing goes by its delete horizon.

        Raises `StorageError`, and `HelperGoneError` of a worker: the log has failed only when it says so (`failed`).
        """
        self._usable()
        if not self.wants_compaction(now_ms, high_watermark, held_everywhere):
            return None
        async with alone or nullcontext():
            if self._active_waits(now_ms, high_watermark):
                self._roll()
            if self._unsynced or self._checkpoints:
                await self.sync()
        count = self._cleanable(now_ms, high_watermark)
        snapshots = snapshot_offsets(self._disk, self.directory)
        while count and self._segments[count].base_offset not in snapshots:
            count -= 1  # a recovery must not need the batches that go
        indexes = [segment.index for segment in self._segments[:count]]
        if not is_due(indexes, self._progress, now_ms, self._options, held_everywhere):
            return None
        asked = _Asked(now_ms, limits, held_everywhere)
        try:
            return await self._pass(
                self._segments[:count], asked, alone or nullcontext(), worker or PassWork(self._disk)
            )
        except AbandonedError:
            return None

    async def _pass(
        self,
        segments: Sequence[Segment],
        asked: _Asked,
        alone: AbstractAsyncContextManager[object],
        worker: PassWorker,
    ) -> Tally:
        host = _PassHost(self, alone)
        indexes = [segment.index for segment in segments]
        ranges = groups(indexes, self._config.segment_bytes)
        job = await self._job(indexes, segments[ranges[-1][0]].base_offset, asked)
        bound, tally = await CompactionPass(host, self._disk, worker, segments, job).run(ranges)
        done = Progress(max(bound, job.cleaned_to), tally.horizon_ms, tally.held_back_ms, tally.held_back_to)
        async with alone:  # a cut forgets the progress, so none may come between the question and the note
            if host.has([]):
                await self._note(done)
        return tally

    async def _job(self, indexes: Sequence[SegmentIndex], snapshots_to: int, asked: _Asked) -> Job:
        config, first, end = self._config, indexes[0].base_offset, self._log_end
        return Job(
            self.directory,
            self._tag,
            stretches_of(indexes),
            self._progress.cleaned_to,
            asked.limits,
            asked.now_ms,
            config.delete_retention_ms,
            config.index_interval_bytes,
            snapshots_to,
            end,
            await self._disk.run(partial(self.aborted.dump, first, end)),
            asked.held_everywhere,
        )

    def holds(self, some: Sequence[Segment]) -> bool:
        """Returns True when these segments are neighbours in the log."""
        if not some:
            return True
        try:
            first = self._segments.index(some[0])
        except ValueError:
            return False
        return self._segments[first : first + len(some)] == list(some)

    async def written_segment(self, written: Written) -> Segment:
        """Returns the compacted segment, open, when its file is what the worker says. Raises `StorageError`."""
        replacement = written.replacement
        fresh = Segment(self._disk, self.directory, replacement.base_offset)
        file = self._disk.open(replacement.cleaned_path)
        try:
            load = partial(SegmentIndex.load, written.index_dump, replacement.base_offset, file.size)
            fresh.index = await self._disk.run(load)  # in a thread: it checks each entry
            if (fresh.index.size, fresh.index.next_offset) != (file.size, replacement.next_offset):
                raise CorruptMessageError("the file has another size")
        except CorruptMessageError as error:
            file.close()
            raise StorageError("a compacted segment is not what was to be written", reason="io") from error
        fresh.use(file)
        return fresh

    async def replace(self, group: Sequence[Segment], fresh: Segment, written: Written) -> None:
        """Replaces neighbours by their compacted segment. Raises `StorageError`: then the log has failed."""
        try:
            await commit(self._disk, written.replacement)
            first = self._segments.index(group[0])
            self._segments[first : first + len(group)] = [fresh]
            self.aborted.forget(written.tally.markers_gone)
            self._tail.forget_below(fresh.next_offset)
            for segment in group:
                segment.close()
            await finish(self._disk, written.replacement)
        except (
            BaseException
        ) as error:  # also when the task is cancelled: memory and disk may differ by a half replacement
            stopped = StorageError("a compaction was stopped half-way", reason="closed")
            self._fail(error if isinstance(error, StorageError) else stopped)
            raise
        await self._store_indexes(fresh)

    async def _store_indexes(self, segment: Segment) -> None:
        try:
            aborted = self.aborted.dump(segment.base_offset, segment.next_offset)
            await self._disk.write_atomic(segment.path + TXN_INDEX_SUFFIX, aborted)
            await self._disk.write_atomic(segment.path + INDEX_SUFFIX, segment.index.dump())
            segment.indexed_bytes = segment.index.size
        except StorageError:
            return  # S7: a recovery makes them again

    async def _note(self, progress: Progress) -> None:
        self._progress = progress
        try:
            await self._disk.write_atomic(f"{self.directory}/{COMPACTION_POINT}", encode_progress(progress))
        except StorageError:
            return  # after a restart more of the log counts as dirty than is

    # ------------------------------------------------------------ cuts

    async def truncate_to(self, offset: int) -> None:
        """See `TruncatableLog.truncate_to`."""
        if offset < self._progress.cleaned_to:
            self._forget_progress()
        await super().truncate_to(offset)

    async def reset_to(self, offset: int, snapshot: bytes | None) -> None:
        """See `TruncatableLog.reset_to`."""
        self._forget_progress()
        await super().reset_to(offset, snapshot)

    def _forget_progress(self) -> None:
        """Forgets how far the log was compacted: what comes in the place of what is cut off is dirty."""
        self._progress = Progress()
        self._disk.remove(f"{self.directory}/{COMPACTION_POINT}")
