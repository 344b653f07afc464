"""The long part of a pass: reads what may be compacted twice, finds the newest offset of each key, writes new segments.

Rule 1: it runs in a helper process, or wherever it is given a disk. It reads closed segments through files of its own, and
        writes files whose names no other process has. So it may die at any moment, or live on when it should not.
Rule 2: it reads and writes in parts of a few megabytes. Between two of them it waits as long as its rate asks for, and tells
        how far it is. It is never silent for longer than one step of work on the keys takes.
Rule 3: it removes nothing, not even what it wrote: the broker does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from oncelog.core.batch.control import control_of
from oncelog.core.batch.header import BatchHeader, read_header
from oncelog.errors import CorruptMessageError, OncelogError, StorageError
from oncelog.types import Buffer
from oncelog_partition_leader.core.compaction.key_offsets import KeyOffsets
from oncelog_partition_leader.core.compaction.replayed_state import ReplayedState
from oncelog_partition_leader.core.compaction.rewriting import (
    NO_HORIZON,
    Batch,
    PassRules,
    Rewriter,
    Skipped,
    TxnNames,
    add_keys,
)
from oncelog_partition_leader.core.log.aborted_index import load_entries
from oncelog_partition_leader.core.log.segment import SegmentIndex
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.checkpoints import snapshot_offsets, snapshot_path
from oncelog_partition_leader.log.compaction.pass_job import Beat, Job, Stretch, UnreadableError, Written
from oncelog_partition_leader.log.compaction.replacement import Replacement
from oncelog_partition_leader.log.segment_file import Segment
from oncelog_runtime.ports import Disk, DiskFile

_PIECE_BYTES: Final = 24 << 20
"""So many bytes of records, unpacked, are looked at in one step, for which the table of the keys is hashed once."""
_PART_BYTES: Final = 4 << 20
"""So many bytes are read or written at once."""
_SYNC_BYTES: Final = 4 << 20
"""After so many bytes the new segment is synced, so that no long sync holds up the syncs of the log."""
_WAIT_MAX_S: Final = 10.0


class PassWork:
    """Implements `PassWorker` on `disk`. `name` is part of the names of the files that it writes."""

    def __init__(self, disk: Disk, name: str = "") -> None:
        self._disk = disk
        self._name = name
        self._job: Job
        self._skipped: Skipped
        self._keys: KeyOffsets
        self._state: ReplayedState
        self._rewriter: Rewriter
        self._marker_may_go = False

    async def look(self, job: Job, beat: Beat) -> int:
        """See `PassWorker.look`."""
        self._begin(job)
        bound = job.cleaned_to
        for at, stretch in enumerate(job.stretches):
            await beat(at)
            is_dirty = stretch.next_offset > job.cleaned_to
            with _Reading(self._disk, job, stretch, bodies=is_dirty) as reading:
                while batches := await self._next(reading, beat, at):
                    bound = max(bound, await self._disk.run(partial(self._see, batches, is_dirty=is_dirty)))
        names = await self._open_names(beat)
        rules = PassRules(
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
            bound=bound,
            held_everywhere=job.held_everywhere,
        )
        self._rewriter = Rewriter(rules, self._keys, self._skipped, self._state, names)
        return bound

    def _begin(self, job: Job) -> None:
        self._job = job
        self._skipped = Skipped(load_entries(job.aborted, job.stretches[0].base_offset, job.aborted_end))
        self._keys = KeyOffsets(job.limits.keys_max, job.limits.key_bytes_max)
        self._state = ReplayedState()
        self._marker_may_go = False

    def _see(self, batches: Sequence[Batch], *, is_dirty: bool) -> int:
        for header, data in batches:
            self._state.see(header, control_of(data) if header.is_control else None)
            self._marker_may_go |= header.is_control and NO_HORIZON < header.delete_horizon_ms <= self._job.now_ms
        dirty = [batch for batch in batches if is_dirty and batch.header.next_offset > self._job.cleaned_to]
        if not dirty or self._keys.is_full:
            return 0
        add_keys(dirty, self._skipped, self._keys)
        return dirty[-1].header.next_offset

    async def _open_names(self, beat: Beat) -> TxnNames:
        """Returns which transactions are open in the producer snapshots from which a replay may begin.

        Only markers that may go ask for them. Each is one step: together they may take longer than a helper may be silent.
        """
        found: set[tuple[int, int]] = set()
        for offset in snapshot_offsets(self._disk, self._job.directory) if self._marker_may_go else ():
            if offset <= self._job.snapshots_to:
                await beat(len(self._job.stretches) - 1)
                found |= await self._disk.run(partial(self._open_in, snapshot_path(self._job.directory, offset)))
        return found

    def _open_in(self, path: str) -> TxnNames:
        try:
            return set(ProducerStates.restore(self._disk.read_file(path)).transactions.open)
        except (CorruptMessageError, StorageError):
            return set()  # removed beside it, or damaged: no replay begins there

    async def rewrite(self, first: int, end: int, beat: Beat) -> Written:
        """See `PassWorker.rewrite`."""
        job, tally = self._job, self._rewriter.tally
        group = job.stretches[first:end]
        replacement = Replacement(job.directory, group[0].base_offset, group[-1].next_offset, self._name)
        tally.changed = len(group) > 1
        tally.markers_gone = set()
        target = _Target(self._disk, replacement, job.index_interval_bytes)
        try:
            for at, stretch in enumerate(group, first):
                await self._copy(stretch, target, beat, at)
            await self._disk.run(lambda: target.write(self._rewriter.end()))
            if tally.changed:
                await target.file.sync()
        finally:
            target.file.close()
        assert target.index.next_offset == replacement.next_offset, "a compacted segment covers what it replaces"
        return Written(replacement, target.index.dump(), tally)

    async def _copy(self, stretch: Stretch, target: _Target, beat: Beat, at: int) -> None:
        """Writes what stays of one segment."""
        await beat(at)
        with _Reading(self._disk, self._job, stretch, bodies=True) as reading:
            while batches := await self._next(reading, beat, at):
                kept = await self._disk.run(partial(self._rewriter.take, batches))
                for part in _parts(kept):
                    await self._disk.run(partial(target.write, [part]))
                    if self._rewriter.tally.changed:
                        await target.maybe_sync()
                    await self._pace(len(part), beat, at)

    async def _next(self, reading: _Reading, beat: Beat, at: int) -> list[Batch]:
        """Returns the next batches, none at the segment's end."""
        batches: list[Batch] = []
        size = 0
        while size < _PIECE_BYTES:
            try:
                part = await self._disk.run(reading.part)
            except OncelogError as error:
                raise UnreadableError(error) from error
            if not part:
                break
            batches += part
            size += sum(max(header.uncompressed_length, len(data)) for header, data in part)
            await self._pace(sum(len(data) for _, data in part), beat, at)
        return batches

    async def _pace(self, count: int, beat: Beat, at: int) -> None:
        """Waits as long as these bytes take at the rate of the pass."""
        await beat(at)
        rate = self._job.limits.bytes_per_s
        left_s = count / rate if rate else 0.0
        while left_s > 0:
            await asyncio.sleep(min(left_s, _WAIT_MAX_S))
            left_s -= _WAIT_MAX_S
            await beat(at)


class _Reading:
    """Reads a segment through an open file of its own, some megabytes at a time."""

    def __init__(self, disk: Disk, job: Job, stretch: Stretch, *, bodies: bool) -> None:
        self._own = Segment(disk, job.directory, stretch.base_offset)
        self._walk = self._own.walk(0, stretch.size, job.tag, bodies=bodies)

    def __enter__(self) -> _Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self._own.close()

    def part(self) -> list[Batch]:
        """Returns the next batches. When bodies are not read, `data` is whole for control batches alone."""
        batches, size = [], 0
        for located in self._walk:
            header = located.header
            view = memoryview(located.data)[located.start : located.start + header.batch_length]
            batches.append(Batch(header, view))
            size += max(header.uncompressed_length, len(view))
            if size >= min(_PART_BYTES, _PIECE_BYTES):
                break
        return batches


class _Target:
    """The new segment while it is written, and its index."""

    def __init__(self, disk: Disk, replacement: Replacement, index_interval_bytes: int) -> None:
        self.file: DiskFile = disk.open(replacement.cleaned_path, create=True)
        self.index = SegmentIndex(replacement.base_offset)
        self._interval_bytes = index_interval_bytes
        self._synced = 0

    def write(self, out: Sequence[Buffer]) -> None:
        """Appends batches. Raises `StorageError`."""
        for part in _parts(out):
            self.file.append([part])
            for header in _headers(part):
                self.index.add(header, self._interval_bytes)

    async def maybe_sync(self) -> None:
        """Syncs when enough was written since the last time. Raises `StorageError`."""
        if self.file.size - self._synced >= _SYNC_BYTES:
            await self.file.sync()
            self._synced = self.file.size


def _parts(batches: Sequence[Buffer]) -> Iterator[bytes]:
    """Joins batches to parts of a few megabytes, of whole batches."""
    part: list[Buffer] = []
    size = 0
    for batch in batches:
        part.append(batch)
        size += len(batch)
        if size >= _PART_BYTES:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)


def _headers(data: bytes) -> Iterator[BatchHeader]:
    position = 0
    while position < len(data):
        header = read_header(data, position)
        yield header
        position += header.batch_length
