"""A replica's log as a reader may see it: how far it may be read, and what is said of an offset beyond that.

Rule 1: a leader knows where its log begins and ends, so it calls an offset beyond that out of range, for good.
Rule 2: a follower does not: it may know of less than its leader. It sends a reader to the leader by an error that passes, and
        never has a consumer reset its position.
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
