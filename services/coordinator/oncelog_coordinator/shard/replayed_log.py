"""Turns fetched batches of a shard's log into records, and checks that they are what an owner of the shard has written.

Rule 1: no batch is missing: each one begins where the last one ended, and the first one holds the offset that was asked for.
        Only a log that brokers compact (its topic is from an older version) has gaps.
Rule 2: the log begins above 0 only where an owner has announced that nothing is needed below (`EpochRecord.free_below`). What
        was read before the beginning moved is superseded, and must not be used: a tombstone may lie between.
Rule 3: the epochs of the shard's writer never fall: an append of a deposed owner that lands behind a newer one would be
        replayed as if it were newer (hole 1).
Rule 4: the first batch of an epoch is its epoch record, alone; the replay ends with that of the present epoch. When a newer
        epoch comes first, the present one has ended, and its successor has deleted its epoch record.
Rule 5: a batch that breaks a rule is a named error, never an assertion: the bytes come from another process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oncelog.core.batch.batch import decode_batch, iter_batches
from oncelog.core.batch.header import BatchHeader, partition_tag
from oncelog.core.malformed import MALFORMED
from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer, PartitionId
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord, parse
from oncelog_coordinator.shard.log_port import LogBatch, LogItem, LogLostError


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state after some batches: the newest epoch, where they ended (-1: none came), whether the next records are the
    first ones, and up to where the log was announced to be free.
    """

    newest_epoch: int = -1
    end: int = -1
    is_first: bool = True
    free_below: int = 0


class ReplayedLog:
    """The replay of one log by the owner of `epoch`; `writer_id` is the producer id of all owners."""

    def __init__(self, writer_id: int, epoch: int, *, is_compacted: bool = False) -> None:
        self._writer_id = writer_id
        self._epoch = epoch
        self._is_compacted = is_compacted
        self._log_start = 0
        self._seen = _Seen()

    @property
    def free_below(self) -> int:
        """The highest offset that was announced to be free, in what was read."""
        return self._seen.free_below

    def log_begins_at(self, offset: int) -> None:
        """Notes that the log begins here, above the offset that was asked for."""
        self._log_start = offset
        self._seen = replace(self._seen, end=-1, is_first=True)

    def take(self, payload: Buffer, offset: int, partition: PartitionId) -> tuple[list[LogBatch], bool]:
        """Returns the batches from `offset` on, and whether this epoch's epoch record is the last of them.

        Raises `CorruptMessageError`, or another error of the decoder, and `LogLostError` when a newer epoch has begun.
        """
        tag = partition_tag(partition.topic_id, partition.partition)
        batches: list[LogBatch] = []
        seen, expected = self._seen, offset if self._seen.end < 0 else self._seen.end
        for header, data in iter_batches(payload):
            if header.next_offset <= offset:
                continue
            begin = (
                max(header.base_offset, offset) if expected == offset else header.base_offset
            )  # perhaps in its middle
            self._check(header, begin, expected, tag)
            expected = header.next_offset
            seen = replace(seen, end=expected)
            if header.is_control:
                continue
            found = [
                (record.key.decode(), record.value)
                for record in decode_batch(data, header)
                if record.offset >= offset and record.key is not None
            ]
            batches.append(LogBatch(begin, found, seen.is_first))
            seen = replace(seen, is_first=False)
            if header.producer_id == self._writer_id:
                self._check_epoch(header, seen.newest_epoch, found)
                free_below = max(seen.free_below, _announced(found))
                seen = replace(seen, newest_epoch=header.producer_epoch, free_below=free_below)
                if header.producer_epoch == self._epoch:
                    self._check_beginning(seen)
                    self._seen = seen
                    return batches, True
        self._seen = seen  # only now: after an error the same batches are fetched again
        return batches, False

    def _check(self, header: BatchHeader, begin: int, expected: int, tag: int) -> None:
        if begin != expected and not (self._is_compacted and begin > expected):
            raise CorruptMessageError(
                "batches of this log are missing, or overlap", base_offset=header.base_offset, expected_offset=expected
            )
        if header.partition_tag != tag:
            raise CorruptMessageError("a batch of another partition", base_offset=header.base_offset)

    def _check_epoch(self, header: BatchHeader, newest: int, found: list[LogItem]) -> None:
        epoch = header.producer_epoch
        if epoch < newest:
            raise CorruptMessageError(
                "a deposed owner has written behind a newer one", producer_epoch=epoch, newest=newest
            )
        if epoch > self._epoch:
            raise LogLostError("a newer owner writes this log", fenced=True, newest_epoch=epoch)
        if epoch == self._epoch and [key for key, _ in found] != [EPOCH_KEY]:
            raise CorruptMessageError("an epoch begins without its epoch record", producer_epoch=epoch)

    def _check_beginning(self, seen: _Seen) -> None:
        if self._log_start > seen.free_below and not self._is_compacted:
            raise CorruptMessageError(
                "the beginning of this log is missing, and no owner has announced that it is not needed: a replica that has "
                "the whole log has to lead the partition again",
                log_start_offset=self._log_start,
                free_below=seen.free_below,
            )


def _announced(items: list[LogItem]) -> int:
    """Returns the highest offset that epoch records among these announce to be free; 0 = none does."""
    values = [value for key, value in items if key == EPOCH_KEY and value is not None]
    try:
        return max((EpochRecord.decode(parse(value)).free_below for value in values), default=0)
    except MALFORMED as error:
        raise CorruptMessageError("an epoch record cannot be read") from error
