"""One partition's log on one disk: appends, reads, syncs, truncations. It carries out what the cores decide.

Rule 1: check everything, then write, then change: a refused or failed append leaves no trace (S2, S6), except that a
        disk that failed for good (an I/O error, a failed sync) makes the log refuse everything from then on (S8, S9).
        So does any exception between a write and the end of its change: file and state may then differ.
Rule 2: log end, indexes, epochs, producer state and aborted index move together, by the same batches, on every path:
        leader, follower, recovery, truncation.
Rule 3: everything below the synced end is on disk with its directory entry; nothing else is claimed to be.
Rule 4: one task writes a log (ARCHITECTURE.md); nothing here takes a lock. `sync` may run beside appends and reads.

Its segments as files (when one is rolled, made durable, deleted) are in `segments`, its reads in `log_reads`, its cuts in
`truncation`, its compaction in `compaction`.

The caller owns group commit. In `replicated` flush mode it should still call `sync` when `wants_sync` says so: rolled
segments, indexes and snapshots become durable there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog.core.batch.control import Control, control_of
from oncelog.core.batch.header import BatchHeader
from oncelog.errors import (
    FencedLeaderEpochError,
    StorageError,
)
from oncelog.types import Buffer
from oncelog_partition_leader.core.log.segment import run_that_fits
from oncelog_partition_leader.log.batch_stamping import Appended, check_chunk, stamp
from oncelog_partition_leader.log.checkpoints import (
    CLEAN_SHUTDOWN,
    pack_clean,
)
from oncelog_partition_leader.log.compaction.compactable_log import CompactableLog
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.reached_epoch import ReachedEpoch
from oncelog_partition_leader.log.recovery.recovery import recover
from oncelog_partition_leader.log.segment_file import LOG_SUFFIX
from oncelog_partition_leader.log.segments import Recovered
from oncelog_runtime.ports import Disk

__all__ = ["Appended", "LogConfig", "PartitionLog"]

_HARMLESS: Final = ("full", "short")
"""Reasons of a failed append after which the file is as before and the log stays usable."""


class PartitionLog(CompactableLog):
    """A partition's log. Make one with `open`.

    Its parts are `SegmentedLog` (files), `ReadableLog` (reads), `TruncatableLog` (cuts) and `CompactableLog` (compaction);
    it opens, appends and closes.
    """

    def __init__(self, disk: Disk, directory: str, config: LogConfig, state: Recovered, reached: ReachedEpoch) -> None:
        super().__init__(disk, directory, config, state, reached)
        self._limits = config.segment_limits
        self.lost_tail = state.lost_tail
        """True when recovery had to cut off the end of the log: a torn write, or data that the disk has lost."""

    @classmethod
    async def open(cls, disk: Disk, directory: str, config: LogConfig) -> PartitionLog:
        """Creates the log, or recovers it; `directory` is named `<topic>-<topic id>-<partition>`.

        After a clean stop nothing is scanned; else everything from the recovery point on is. A bad batch at or above
        the synced end is a torn tail and is cut off; below, it is rot.

        Raises `StorageError`: reason rot (a quarantined log: set it aside and fetch it from a healthy replica),
        identity (the directory belongs to another partition), or the disk's own.
        """
        state = await recover(disk, directory, config)
        return cls(disk, directory, config, state, await ReachedEpoch.open(disk, directory, state.log_end_offset))

    # ------------------------------------------------------------ what it is

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch; -1 = no batch, or not known."""
        return self.epochs.last_epoch

    @property
    def reached_epoch(self) -> int:
        """The newest leader epoch whose start offset this log has reached (see `reached_epoch`); -1 = none."""
        return max(self.epochs.last_epoch, self._reached.epoch)

    @property
    def is_epoch_synced(self) -> bool:
        """True when the newest note of a reached epoch is on disk."""
        return self._reached.is_synced

    def reach(self, epoch: int, at_offset: int) -> None:
        """Notes that the log has reached `at_offset`, where the leader of this epoch began. Raises `StorageError`."""
        if epoch > self.reached_epoch:
            self._usable()
            self._reached.note(epoch, at_offset)
            self._dirty_directory = True

    @property
    def config(self) -> LogConfig:
        """The options in force; `reconfigure` replaces them."""
        return self._config

    @property
    def failed(self) -> StorageError | None:
        """The reason why the log refuses everything; None while it works."""
        return self._failed

    def reconfigure(self, config: LogConfig) -> None:
        """Puts new options in force; the expiry of producers changes at the next opening."""
        self._config = config
        self._limits = config.segment_limits
        self._changed()

    # ------------------------------------------------------------ appends

    def append_as_leader(
        self, batches: Sequence[tuple[BatchHeader, Buffer]], leader_epoch: int, now_ms: int
    ) -> list[Appended]:
        """Assigns offsets, stamps the leader's fields, writes the batches, with one call per segment, and applies them.

        The batches were judged before (`producers.decide`); control batches come the same way. `now_ms` becomes their
        append timestamp. A batch longer than a segment gets one of its own. Raises `FencedLeaderEpochError`,
        `MisdirectedBatchError`, `PolicyViolationError` (offsets used up) or `StorageError`; then nothing was appended.
        When the disk fails between two segments, fewer batches come back than were given: those are in the log, and no
        byte of the others is.
        """
        self._usable()
        if leader_epoch < self.epochs.last_epoch:
            raise FencedLeaderEpochError(leader_epoch=leader_epoch, last_epoch=self.epochs.last_epoch)
        appended = stamp(batches, self._tag, self._log_end, leader_epoch, now_ms)
        controls = [control_of(batch.data) if batch.header.is_control else None for batch in appended]
        headers = [batch.header for batch in appended]
        done = 0
        while done < len(appended):
            try:
                end = done + self._room_for(headers[done:] if done else headers)
                self._write([batch.data for batch in appended[done:end]], headers[done:end], controls[done:end])
                start, done = done, end
                for batch in appended[start:end]:
                    self._tail.push(batch.base_offset, batch.next_offset, batch.data)
            except Exception as error:
                if not done:
                    raise
                if not isinstance(error, StorageError):  # some are written: the caller must not append them again
                    self._fail(StorageError("a group was written in part", reason="bug", cause=repr(error)))
                return appended[:done]
        return appended

    def append_as_follower(self, data: Buffer, leader_epoch: int) -> None:
        """Appends whole batches byte for byte as the leader sent them.

        Every checksum and the partition tag are checked first (S12, S31); the first batch begins at the log end, each
        next one where the last ended; epochs never fall and none is above `leader_epoch`.
        Raises `CorruptMessageError`, `UnsupportedMessageFormatError`, `OffsetOutOfRangeError` (a gap or an overlap) or
        `FencedLeaderEpochError`; then nothing was appended. Raises `StorageError`; then some of the batches may be in the
        log, up to `log_end_offset`.
        """
        self._usable()
        headers, controls = check_chunk(data, self._tag, self._log_end, self.epochs.last_epoch, leader_epoch)
        view, done = memoryview(data), 0
        while done < len(headers):
            end = done + self._room_for(headers[done:] if done else headers)
            length = sum(header.batch_length for header in headers[done:end])
            self._write([view[:length]], headers[done:end], controls[done:end])
            self._tail.clear()
            view, done = view[length:], end

    def _room_for(self, headers: Sequence[BatchHeader]) -> int:
        """Counts the batches that the last segment takes; rolls to a new segment when it takes none."""
        count = run_that_fits(self._segments[-1].index, headers, self._limits)
        if count:
            return count
        self._roll()
        return run_that_fits(self._segments[-1].index, headers, self._limits)

    def _write(
        self, buffers: Sequence[Buffer], headers: Sequence[BatchHeader], controls: Sequence[Control | None]
    ) -> None:
        """Writes batches that fit into the last segment, and applies them to every part of the log. Raises `StorageError`."""
        self._assert_follows(buffers, headers)
        last = self._segments[-1]
        written = False
        try:
            last.file.append(buffers)
            written = True
            self._changed()
            for header, control in zip(headers, controls, strict=True):
                self._apply(header, control)
            assert last.file.size == last.index.size, "the index covers exactly the bytes that were written"
            assert self.producers.end_offset == self._log_end == last.next_offset, "all parts of the log end together"
        except Exception as error:
            if isinstance(error, StorageError) and not written:
                if error.context.get("reason") not in _HARMLESS:
                    self._fail(error)
                raise
            broken = StorageError("what was written could not be applied", reason="bug", cause=repr(error))
            self._fail(broken)
            raise broken from error

    def _assert_follows(self, buffers: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Asserts before a write what each read checks after it (docs/internals/storage.md#pairs-of-assertions)."""
        offset, epoch, length = self._log_end, self.epochs.last_epoch, 0
        for header in headers:
            assert header.base_offset == offset, "batches are written at the log end, one after the other"
            assert header.leader_epoch >= epoch, "epochs never fall in a log"
            assert header.partition_tag == self._tag, "a log holds batches of its own partition"
            offset, epoch, length = header.next_offset, header.leader_epoch, length + header.batch_length
        assert length == sum(map(len, buffers)), "the headers describe exactly the bytes that are written"
        last = self._segments[-1]
        assert last.next_offset == self._log_end, "the last segment ends with the log"
        assert last.file.size == last.index.size, "and at the end of the file"

    def _apply(self, header: BatchHeader, control: Control | None) -> None:
        """Applies a written batch to index, epochs, producer state and aborted index: the only place that does (rule 2)."""
        self._segments[-1].index.add(header, self._config.index_interval_bytes)
        self.epochs.assign(header.leader_epoch, header.base_offset, header.next_offset)
        entry = self.producers.apply(header, header.base_offset, control)
        if entry is not None:
            self.aborted.add(entry)
        self._log_end = header.next_offset
        self._since_checkpoint += header.batch_length

    # ------------------------------------------------------------ ends

    async def close(self, clean: bool = True) -> None:
        """Closes the log. `clean` syncs and stores everything, so that the next opening scans nothing.

        A failed log is closed as it is. Raises `StorageError` when a clean close does not succeed; it is closed then.
        """
        try:
            if clean and self._failed is None:
                await self._close_clean()
        finally:
            self._failed = self._failed or StorageError("the log is closed", reason="closed")
            self._generation += 1
            self._tail.clear()
            self._point.close()
            for segment in self._segments:
                segment.close()

    async def _close_clean(self) -> None:
        self._checkpoints.append(self._checkpoint())
        await self.sync()
        if self._checkpoints:
            raise StorageError("the last checkpoint could not be stored", reason="full")
        assert self._synced_end == self._log_end, "a clean stop claims only what is on disk"
        marker = pack_clean(self._log_end, self._segments[-1].index.size)
        await self._disk.write_atomic(f"{self.directory}/{CLEAN_SHUTDOWN}", marker)

    def check(self) -> None:
        """Asserts every invariant."""
        self.producers.check()
        self.epochs.check()
        self.aborted.check()
        assert self.log_start_offset <= self._log_end
        assert self._synced_end <= self._log_end
        assert self.producers.end_offset == self._log_end
        for one, two in zip(self._segments, self._segments[1:], strict=False):
            assert one.next_offset == two.base_offset, "segments are contiguous"
        assert self._segments[-1].next_offset == self._log_end
        for segment in self._segments:
            segment.index.check()
            assert segment.file.size == segment.index.size, f"{segment.path}{LOG_SUFFIX} has its size"
