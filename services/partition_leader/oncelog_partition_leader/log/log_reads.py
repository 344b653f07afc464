"""Reads of one partition's log: batches, times, transactions, and a slow check of everything.

Rule 1: bytes from a file are checked before they are handed out; rot ends the log (`StorageError`, reason rot), and the
        file stays where it is (S11, S12, S31).
Rule 2: a read may run beside appends and syncs. Parts that are truncated or deleted meanwhile are skipped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from oncelog.errors import LeaderNotAvailableError, OffsetOutOfRangeError, OncelogError, StorageError
from oncelog.types import Buffer
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.reached_epoch import ReachedEpoch
from oncelog_partition_leader.log.reader import first_at, read_batches, scrub_piece, segment_of
from oncelog_partition_leader.log.segment_file import Segment
from oncelog_partition_leader.log.segments import Recovered, SegmentedLog
from oncelog_partition_leader.log.state_replay import replay_states
from oncelog_partition_leader.log.tail_cache import TailCache, TailMemory
from oncelog_runtime.ports import Disk


class ReadableLog(SegmentedLog):
    """The part of a log (`PartitionLog`) that reads it."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, state: Recovered, reached: ReachedEpoch) -> None:
        super().__init__(disk, directory, config, state, reached)
        self._tag = state.tag
        self._tail = TailCache(config.tail_cache_bytes)

    @property
    def tag(self) -> int:
        """The partition tag that every batch here carries."""
        return self._tag

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

    def share_tail(self, memory: TailMemory) -> None:
        """Counts the newest batches that are kept in memory with those of other logs."""
        self._tail.share(memory)

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
                    self._close_replaced([segment])
                    break
                self._close_replaced([segment])
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
        """Returns the producer state at `offset`, a batch's beginning or the log end.

        Raises `StorageError`, and `LeaderNotAvailableError` when segments were replaced beside it: `offset` may then lie
        within a compacted batch, so the caller begins again with another one.
        """
        self._usable()
        if offset == self._log_end:
            return await self._disk.run(self.producers.begin_snapshot().whole)
        segments, config = list(self._segments), self._config
        try:
            return await self._disk.run(
                lambda: replay_states(self._disk, self.directory, config, segments, self._tag, offset).snapshot()
            )
        except OncelogError as error:
            if all(segment in self._segments for segment in segments):
                raise self._rotten(error) from error
            self._usable()
            raise LeaderNotAvailableError("segments were replaced while the producer state was made") from error
        finally:
            self._close_replaced(segments)

    def _close_replaced(self, segments: Sequence[Segment]) -> None:
        """Closes those that are not in the log any more: a read in a thread may have opened their files again."""
        for segment in segments:
            if segment not in self._segments:
                segment.close()

    # ------------------------------------------------------------ trouble

    def _rotten(self, error: OncelogError) -> StorageError:
        """Fails the log after a failed read: I/O errors keep their reason, every mismatch is rot."""
        reason = error.context.get("reason", "io") if isinstance(error, StorageError) else "rot"
        failure = StorageError("a part of this log cannot be read", reason=reason, cause=error.message)
        self._fail(failure)
        return failure
