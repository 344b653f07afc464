"""The producer state in the middle of a log, for a follower that must begin there (hole 23)."""

from __future__ import annotations

from oncelog.core.control import control_of
from oncelog.errors import CorruptMessageError, StorageError
from oncelog_partition_leader import storage_recovery
from oncelog_partition_leader.storage import PartitionLog


async def snapshot_at(log: PartitionLog, offset: int) -> bytes:
    """The producer state at `offset`, the base of a batch or the log end. Raises `StorageError`."""
    if offset == log.log_end_offset:
        return log.producer_snapshot()
    disk, directory, segments = log._disk, log.directory, list(log._segments)

    def replay() -> bytes:
        states = storage_recovery._snapshot_at_or_below(
            disk, directory, log.config, offset, segments[0].base_offset
        )
        for segment in segments:
            if segment.next_offset <= states.end_offset:
                continue
            for batch in storage_recovery._from_offset(segment, states.end_offset, log.tag):
                header = batch.header
                if header.base_offset >= offset:
                    return states.snapshot()
                data = memoryview(batch.data)[batch.start : batch.start + header.batch_length]
                states.apply(header, header.base_offset, control_of(data) if header.is_control else None)
        return states.snapshot()

    try:
        return await disk.run(replay)
    except CorruptMessageError as error:
        raise StorageError("the log cannot be replayed", reason="rot") from error
