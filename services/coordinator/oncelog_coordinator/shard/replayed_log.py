"""Turns fetched batches of a shard's log into records, and checks that they are what an owner of the shard has written.

Rule 1: no batch is missing: each one begins where the last one ended, and the first one holds the offset that was asked for.
Rule 2: the epochs of the shard's writer never fall: an append of a deposed owner that lands behind a newer one would be
        replayed as if it were newer (hole 1).
Rule 3: the first batch of an epoch is its epoch record, alone; the replay ends with that of the present epoch.
Rule 4: a batch that breaks a rule is a named error, never an assertion: the bytes come from another process.
"""

from __future__ import annotations

from oncelog.core.batch.batch import decode_batch, iter_batches
from oncelog.core.batch.header import BatchHeader, partition_tag
from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer, PartitionId
from oncelog_coordinator.core.transactions.records import EPOCH_KEY
from oncelog_coordinator.shard.log_port import LogItem


class ReplayedLog:
    """The replay of one log by the owner of `epoch`; `writer_id` is the producer id of all owners."""

    def __init__(self, writer_id: int, epoch: int) -> None:
        self._writer_id = writer_id
        self._epoch = epoch
        self._newest_epoch = -1

    def take(self, payload: Buffer, offset: int, partition: PartitionId) -> tuple[list[LogItem], bool]:
        """Returns the records from `offset` on, and whether this epoch's epoch record is the last of them.

        Raises `CorruptMessageError`, or another error of the decoder.
        """
        tag = partition_tag(partition.topic_id, partition.partition)
        items: list[LogItem] = []
        expected, newest = offset, self._newest_epoch
        for header, data in iter_batches(payload):
            if header.next_offset <= offset:
                continue
            if expected == offset and header.base_offset < offset:
                expected = header.base_offset  # the first one holds the offset, perhaps in its middle
            _check(header, expected, tag)
            expected = header.next_offset
            if header.is_control:
                continue
            found = [
                (record.key.decode(), record.value)
                for record in decode_batch(data, header)
                if record.offset >= offset and record.key is not None
            ]
            items += found
            if header.producer_id == self._writer_id:
                self._check_epoch(header, newest, found)
                newest = header.producer_epoch
                if newest == self._epoch:
                    return items, True
        self._newest_epoch = newest  # only now: after an error the same batches are fetched again
        return items, False

    def _check_epoch(self, header: BatchHeader, newest: int, found: list[LogItem]) -> None:
        epoch = header.producer_epoch
        if epoch < newest:
            raise CorruptMessageError(
                "a deposed owner has written behind a newer one", producer_epoch=epoch, newest=newest
            )
        if epoch == self._epoch and [key for key, _ in found] != [EPOCH_KEY]:
            raise CorruptMessageError("an epoch begins without its epoch record", producer_epoch=epoch)


def _check(header: BatchHeader, expected: int, tag: int) -> None:
    if header.base_offset != expected:
        raise CorruptMessageError(
            "batches of this log are missing, or overlap", base_offset=header.base_offset, expected_offset=expected
        )
    if header.partition_tag != tag:
        raise CorruptMessageError("a batch of another partition", base_offset=header.base_offset)
