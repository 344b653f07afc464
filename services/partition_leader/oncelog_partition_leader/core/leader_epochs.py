"""Which leader epoch wrote which offsets of this log: the table by which two replicas find where they part.

Rule 1: epochs and start offsets only grow; an epoch is entered by its first batch, so the table is a function of the log.
Rule 2: a replica truncates by this table, never by a high watermark (KIP-101, KIP-279).
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import Final

from crc32c import crc32c

from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer

NO_EPOCH: Final = -1

_HEAD: Final = struct.Struct("<IqI")
_ENTRY: Final = struct.Struct("<iq")
_MAGIC: Final = 0x4F4C4531


class LeaderEpochs:
    """Pairs (leader epoch, start offset), and the end of the last one."""

    __slots__ = ("_end", "_epochs", "_starts")

    def __init__(self, log_end_offset: int = 0) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._end = log_end_offset

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch; -1 = no batch."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def last_epoch_start(self) -> int:
        """Where that epoch begins; the log end when there is no batch."""
        return self._starts[-1] if self._starts else self._end

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The table: (epoch, start offset), ascending in both."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, leader_epoch: int, start_offset: int, end_offset: int) -> bool:
        """Notes that `leader_epoch` wrote [start_offset, end_offset); True when that began a new epoch.

        Raises `CorruptMessageError` when the epoch falls: no correct leader writes that.
        """
        last = self.last_epoch
        if leader_epoch < last:
            raise CorruptMessageError("the leader epoch falls", leader_epoch=leader_epoch, last_epoch=last)
        self._end = end_offset
        if leader_epoch == last:
            return False
        self._epochs.append(leader_epoch)
        self._starts.append(start_offset)
        return True

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 below the table."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def end_offset_for(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch at or below `leader_epoch` and its exclusive end here.

        (-1, start of the table) when there is none at or below: the asker's whole epoch is unknown here, and nothing
        from the table's start on agrees. With an empty table that start is the log end.
        """
        index = bisect_right(self._epochs, leader_epoch) - 1
        following = index + 1
        end = self._starts[following] if following < len(self._starts) else self._end
        return (self._epochs[index] if index >= 0 else NO_EPOCH), end

    def truncate_tail(self, end_offset: int, emptied_at: int = -1) -> None:
        """The log now ends at `end_offset`: epochs that began at or after it are gone.

        `emptied_at`: where its records up to the end were deleted, the first epoch stays: it wrote the last of them.
        """
        keep = bisect_left(self._starts, end_offset)
        if not keep and end_offset == emptied_at:
            keep = 1
        del self._epochs[keep:], self._starts[keep:]
        self._end = min(self._end, end_offset)

    def truncate_head(self, start_offset: int) -> None:
        """The log now starts at `start_offset`: epochs that ended at or before it are gone.

        The epoch that holds `start_offset` then begins there; the last epoch stays, even with nothing left of it.
        """
        first = bisect_right(self._starts, start_offset) - 1
        if first > 0:
            del self._epochs[:first], self._starts[:first]
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset
        self._end = max(self._end, start_offset)

    def reset(self, log_end_offset: int) -> None:
        """An empty table of a log that starts and ends here."""
        self._epochs.clear()
        self._starts.clear()
        self._end = log_end_offset

    def dump(self) -> bytes:
        """The table with its checksum."""
        body = b"".join(_ENTRY.pack(epoch, start) for epoch, start in self.entries)
        return _HEAD.pack(_MAGIC, len(self._epochs), crc32c(body)) + body

    @classmethod
    def load(cls, data: Buffer, log_end_offset: int) -> LeaderEpochs:
        """From `dump`. Raises `CorruptMessageError`."""
        if len(data) < _HEAD.size:
            raise CorruptMessageError("the leader epoch table is too short", bytes_present=len(data))
        magic, count, crc = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        if magic != _MAGIC or len(body) != count * _ENTRY.size or crc32c(body) != crc:
            raise CorruptMessageError("the leader epoch table does not match its checksum")
        table = cls(log_end_offset)
        for epoch, start in _ENTRY.iter_unpack(body):
            table.assign(epoch, start, log_end_offset)
        return table

    def check(self) -> None:
        """Asserts the invariants."""
        assert all(a < b for a, b in zip(self._epochs, self._epochs[1:], strict=False)), "epochs grow"
        assert all(a <= b for a, b in zip(self._starts, self._starts[1:], strict=False)), "starts grow"
        assert not self._starts or self._starts[-1] <= self._end, "the last epoch begins within the log"
