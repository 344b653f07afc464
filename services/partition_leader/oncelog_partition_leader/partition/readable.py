"""A replica's log as a reader may see it: how far it may be read, and what is said of an offset beyond that.

Rule 1: a leader knows where its log begins and ends, so it calls an offset beyond that out of range, for good.
Rule 2: a follower does not: it may know of less than its leader. It sends a reader to the leader by an error that passes, and
        never has a consumer reset its position.
Rule 3: a reader that names the epoch in which it read gets an error when the log has lost some of that (KIP-320). The offset
        alone would not show it once other records have taken the places of the lost ones.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog.errors import OffsetNotAvailableError, OffsetOutOfRangeError
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.partition.leadership import Leadership


class Readable(NamedTuple):
    """One look at a replica, taken at one instant."""

    log: PartitionLog
    epoch: int
    """The leader epoch in which this replica leads, or follows."""
    high_watermark: int
    log_start_offset: int
    is_leader: bool = True
    is_watermark_known: bool = True
    """False for a new leader that does not know yet that everything before its epoch is committed."""

    @classmethod
    def at_leader(cls, leadership: Leadership) -> Readable:
        """Returns what a leader lets read."""
        log, replicas = leadership.log, leadership.replicas
        return cls(
            log,
            leadership.epoch,
            leadership.high_watermark,
            log.log_start_offset,
            is_watermark_known=replicas.watermark_is_known,
        )

    def end(self, *, committed_only: bool) -> int:
        """Returns where reading ends: at the last stable offset, or at the high watermark."""
        return self.log.last_stable_offset(self.high_watermark) if committed_only else self.high_watermark

    def check_read(self, offset: int, read_epoch: int) -> None:
        """Checks that what a reader has read before the offset, in this leader epoch, is still there. Rule 3.

        Raises `OffsetOutOfRangeError` with `lost_from`, or `OffsetNotAvailableError`.
        """
        if read_epoch >= self.epoch:
            return
        end = self.log.epochs.end_offset_for(read_epoch)[1]
        if offset <= end:
            return
        if not self.is_leader:
            raise OffsetNotAvailableError(
                "this follower does not have what was read; ask the leader", offset=offset, read_epoch=read_epoch
            )
        raise OffsetOutOfRangeError(
            f"records that were read are lost, from offset {end} on: seek there to read what took their places",
            offset=offset,
            lost_from=end,
            read_epoch=read_epoch,
        )

    def check_offset(self, offset: int) -> None:
        """Checks that the log has this offset, or will have it soon: then the reader waits.

        Raises `OffsetOutOfRangeError`, which a leader alone can know, or `OffsetNotAvailableError`.
        """
        if self.log_start_offset <= offset <= self.high_watermark:
            return
        if self.high_watermark < offset <= self.log.log_end_offset and self.is_watermark_known:
            return  # appended, not committed yet: wait
        if not self.is_leader:
            raise OffsetNotAvailableError(
                "this follower does not have the offset; ask the leader",
                offset=offset,
                high_watermark=self.high_watermark,
            )
        if self.high_watermark < offset <= self.log.log_end_offset:
            raise OffsetNotAvailableError(offset=offset, high_watermark=self.high_watermark)
        raise OffsetOutOfRangeError(
            offset=offset, log_start_offset=self.log_start_offset, high_watermark=self.high_watermark
        )
