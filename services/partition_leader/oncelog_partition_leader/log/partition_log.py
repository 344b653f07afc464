"""One partition's log on one disk: appends, reads, syncs, truncations. It carries out what the cores decide.

Rule 1: check everything, then write, then change: a refused or failed append leaves no trace (S2, S6), except that a
        disk that failed for good (an I/O error, a failed sync) makes the log refuse everything from then on (S8, S9).
        So does any exception between a write and the end of its change: file and state may then differ.
Rule 2: log end, indexes, epochs, producer state and aborted index move together, by the same batches, on every path:
        leader, follower, recovery, truncation.
Rule 3: everything below the synced end is on disk with its directory entry; nothing else is claimed to be.
Rule 4: one task writes a log (ARCHITECTURE.md); nothing here takes a lock. `sync` may run beside appends and reads.
Rule 5: bytes from a file are checked before they are handed out; rot ends the log (`StorageError`, reason rot), and the
        file stays where it is (S11, S12, S31).

Its segments as files (when one is rolled, made durable, deleted) are in `segments`.

The caller owns group commit. In `replicated` flush mode it should still call `sync` when `wants_sync` says so: rolled
segments, indexes and snapshots become durable there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from oncelog.core.batch.control import Control, control_of
from oncelog.core.batch.header import BatchHeader
from oncelog.errors import (
    FencedLeaderEpochError,
    OffsetOutOfRangeError,
    OncelogError,
    StorageError,
)
from oncelog.types import Buffer
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.core.log.segment import run_that_fits
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.batch_stamping import Appended, check_chunk, stamp
from oncelog_partition_leader.log.checkpoints import (
    CLEAN_SHUTDOWN,
    encoded,
    pack_clean,
    snapshot_offsets,
    snapshot_path,
)
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.reached_epoch import ReachedEpoch
from oncelog_partition_leader.log.reader import first_at, locate, read_batches, scrub_piece, segment_of
from oncelog_partition_leader.log.recovery import Recovered, begin_anew, recover, replay_states, states_from
from oncelog_partition_leader.log.segment_file import INDEX_SUFFIX, LOG_SUFFIX, TXN_INDEX_SUFFIX, Segment
from oncelog_partition_leader.log.segments import SegmentedLog
from oncelog_partition_leader.log.tail_cache import TailCache
from oncelog_runtime.ports import Disk

__all__ = ["Appended", "LogConfig", "PartitionLog"]

_HARMLESS: Final = ("full", "short")
"""Reasons of a failed append after which the file is as before and the log stays usable."""


class PartitionLog(SegmentedLog):
    """A partition's log. Make one with `open`."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, state: Recovered, reached: ReachedEpoch) -> None:
        super().__init__(disk, directory, config, state, reached)
        self._limits = config.segment_limits
        self._tag = state.tag
        self._tail = TailCache(config.tail_cache_bytes)
        self.lost_tail = state.lost_tail
        """True when recovery had to cut off the end of the log: a torn write, or data that the disk has lost."""

    @classmethod
    async def open(cls, disk: Disk, directory: str, config: LogConfig, now_ms: int) -> PartitionLog:
        """Creates the log, or recovers it; `directory` is named `<topic>-<topic id>-<partition>`.

        After a clean stop nothing is scanned; else everything from the recovery point on is. A bad batch at or above
        the synced end is a torn tail and is cut off; below, it is rot.

        Raises `StorageError`: reason rot (a quarantined log: set it aside and fetch it from a healthy replica),
        identity (the directory belongs to another partition), or the disk's own.
        """
        state = await recover(disk, directory, config, now_ms)
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
    def tag(self) -> int:
        """The partition tag that every batch here carries."""
        return self._tag

    @property
    def failed(self) -> StorageError | None:
        """The reason why the log refuses everything; None while it works."""
        return self._failed

    def reconfigure(self, config: LogConfig) -> None:
        """Puts new options in force; the expiry of producers changes at the next opening."""
        self._config = config
        self._limits = config.segment_limits

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
        last = self._segments[-1]
        assert headers[0].base_offset == self._log_end == last.next_offset, "batches are written at the log end"
        assert last.file.size == last.index.size, "and at the end of the file"
        written = False
        try:
            last.file.append(buffers)
            written = True
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

    def _apply(self, header: BatchHeader, control: Control | None) -> None:
        """Applies a written batch to index, epochs, producer state and aborted index: the only place that does (rule 2)."""
        self._segments[-1].index.add(header, self._config.index_interval_bytes)
        self.epochs.assign(header.leader_epoch, header.base_offset, header.next_offset)
        entry = self.producers.apply(header, header.base_offset, control)
        if entry is not None:
            self.aborted.add(entry)
        self._log_end = header.next_offset
        self._since_checkpoint += header.batch_length

    # ------------------------------------------------------------ reads

    def read(self, offset: int, max_bytes: int, end_offset: int, room: int | None = None) -> Buffer:
        """Returns whole batches, from the one that contains `offset` on, none that reaches above `end_offset`.

        As many as fit into `max_bytes` (of one segment when they come from the file), but at least one batch if there is
        any. Empty at `end_offset`. Raises `OffsetOutOfRangeError` outside [log start, log end], `NoRoomError` when
        the first batch is longer than `room`, and `StorageError` (rot: the log has failed).
        """
        self._usable()
        if not self.log_start_offset <= offset <= self._log_end:
            raise OffsetOutOfRangeError(
                offset=offset, log_start_offset=self.log_start_offset, log_end_offset=self._log_end
            )
        if offset >= min(end_offset, self._log_end):
            return b""
        if self._tail.holds(offset):
            return self._tail.read(offset, max_bytes, end_offset, room)
        try:
            segment = segment_of(self._segments, offset)
            return read_batches(segment, offset, max_bytes, end_offset, self._tag, room)
        except OncelogError as error:
            raise self._rotten(error) from error

    def is_cached(self, offset: int) -> bool:
        """Returns True when `read` of this offset needs no file."""
        return self._tail.holds(offset)

    async def scrub(self) -> AsyncIterator[int]:
        """Reads and checks every batch of the log, a piece of a segment at a time; yields each piece's checked bytes (S32).

        The caller paces it. It may run beside everything else: parts that are truncated or deleted meanwhile are skipped.
        Raises `StorageError` (rot): the log has failed.
        """
        for segment in list(self._segments):
            position, generation = 0, self._generation
            while segment in self._segments and self._generation == generation:
                self._usable()
                size = segment.index.size
                if position >= size:
                    break
                try:
                    end = await self._disk.run(partial(scrub_piece, segment, position, size, self._tag))
                except OncelogError as error:
                    if segment in self._segments and self._generation == generation:
                        raise self._rotten(error) from error
                    segment.close()  # the piece may have opened again a file that was removed
                    break
                yield end - position
                position = end

    # ------------------------------------------------------------ times

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Finds the first data batch with a record at or after this time: (its first offset, its time); None = none.

        Precise to the batch, whose records the broker does not decode: a reader that starts there misses nothing. The
        time is the batch's first when that is late enough, else its largest.
        """
        self._usable()
        try:
            return first_at(self._segments, timestamp_ms, self.log_start_offset, self._tag)
        except OncelogError as error:
            raise self._rotten(error) from error

    def max_timestamp(self) -> tuple[int, int] | None:
        """Returns (offset, time) of the last record of the batch with the largest time; None without data."""
        newest = max(self._segments, key=lambda segment: segment.index.max_timestamp_ms).index
        return None if newest.max_timestamp_ms < 0 else (newest.max_timestamp_offset, newest.max_timestamp_ms)

    # ------------------------------------------------------------ transactions

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Returns the first offset of a transaction that is open, or whose marker is not below the high watermark."""
        first = self.producers.first_unstable_offset(high_watermark)
        return None if first is None else max(first, self.log_start_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Returns the end for read_committed readers, at most the high watermark (docs/internals/protocol.md#visibility)."""
        first = self.first_unstable_offset(high_watermark)
        return high_watermark if first is None else min(first, high_watermark)

    def aborted_between(self, from_offset: int, to_offset: int) -> list[AbortedEntry]:
        """Returns the transactions that a read_committed reader of [from_offset, to_offset) must skip."""
        return self.aborted.between(from_offset, to_offset)

    async def producer_snapshot_at(self, offset: int) -> bytes:
        """Returns the producer state at `offset`, a batch's beginning or the log end. Raises `StorageError`."""
        self._usable()
        if offset == self._log_end:
            return await encoded(self.producers.begin_snapshot())
        segments, config = list(self._segments), self._config
        try:
            return await self._disk.run(
                lambda: replay_states(self._disk, self.directory, config, segments, self._tag, offset).snapshot()
            )
        except OncelogError as error:
            raise self._rotten(error) from error

    # ------------------------------------------------------------ cuts

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
        index = segment.index
        segment.index = type(index)(segment.base_offset)

        def rebuild() -> ProducerStates:
            for batch in segment.walk(0, position, self._tag, bodies=True):
                segment.index.add(batch.header, self._config.index_interval_bytes)
            return replay_states(self._disk, self.directory, self._config, self._segments, self._tag, offset)

        try:
            self.producers = await self._disk.run(rebuild)
        except OncelogError as error:  # of any kind: a turned bit may also be an unknown magic byte
            raise self._rotten(error) from error
        self.producers.log_start_offset = self.log_start_offset

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
            self._point.close()
            for segment in self._segments:
                segment.close()

    async def _close_clean(self) -> None:
        self._checkpoints.append(self._checkpoint(self._segments[-1:]))
        self._since_checkpoint = 0
        await self.sync()
        if self._checkpoints:
            raise StorageError("the last checkpoint could not be stored", reason="full")
        assert self._synced_end == self._log_end, "a clean stop claims only what is on disk"
        marker = pack_clean(self._log_end, self._segments[-1].index.size)
        await self._disk.write_atomic(f"{self.directory}/{CLEAN_SHUTDOWN}", marker)

    def _rotten(self, error: OncelogError) -> StorageError:
        """Fails the log after a failed read: I/O errors keep their reason, every mismatch is rot."""
        reason = error.context.get("reason", "io") if isinstance(error, StorageError) else "rot"
        failure = StorageError("a part of this log cannot be read", reason=reason, cause=error.message)
        self._fail(failure)
        return failure

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
