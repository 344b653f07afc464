"""Which leader epoch wrote which offsets of this log: the table by which two replicas find where they diverge.

Rule 1: epochs and start offsets only grow; an epoch is entered by its first batch, so the table is a function of the log.
Rule 2: a replica truncates by this table, never by a high watermark (KIP-101, KIP-279).
Rule 3: beside the epochs of the records that are there it keeps one more: that of the record right before the log start, for as
        long as it is known. So a log whose records were all deleted still knows the epoch of its last one, also after
        later batches were truncated. No other epoch is kept: an epoch all of whose records were truncated was never here.
Rule 4: when the log is truncated below its start, or reset, the epoch of the record before the log start is unknown: -1.
        Recovery finds it again where the record is still on disk.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Final

from crc32c import crc32c

from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer

NO_EPOCH: Final = -1

_HEAD: Final = struct.Struct("<IqI")
_ENTRY: Final = struct.Struct("<iq")
_MAGIC: Final = 0x4F4C4531


class LeaderEpochs:
    """Pairs (leader epoch, start offset), and the last one's end. The first pair is rule 3's; it begins at the log start."""

    __slots__ = ("_end", "_epochs", "_starts")

    def __init__(self, log_end_offset: int = 0) -> None:
        self._epochs: list[int] = [NO_EPOCH]
        self._starts: list[int] = [log_end_offset]
        self._end = log_end_offset

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch, which may have been deleted since; -1 = no batch, or not known."""
        return self._epochs[-1]

    @property
    def last_epoch_start(self) -> int:
        """First offset of that epoch; the log end when there is no batch."""
        return self._starts[-1]

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The table: (epoch, start offset), ascending in both; the first may have no record left."""
        pairs = list(zip(self._epochs, self._starts, strict=True))
        goes_on = self._epochs[:1] == self._epochs[1:2]
        return pairs[1:] if goes_on or self._epochs[0] == NO_EPOCH else pairs

    def assign(self, leader_epoch: int, start_offset: int, end_offset: int) -> bool:
        """Notes that `leader_epoch` wrote [start_offset, end_offset); True when that began a new epoch.

        Raises `CorruptMessageError` when the epoch falls: no correct leader writes that.
        """
        last = self.last_epoch
        if leader_epoch < last:
            raise CorruptMessageError("the leader epoch falls", leader_epoch=leader_epoch, last_epoch=last)
        self._end = end_offset
        if leader_epoch != last or len(self._epochs) == 1:
            self._epochs.append(leader_epoch)
            self._starts.append(start_offset)
        return leader_epoch != last

    def epoch_of(self, offset: int) -> int:
        """Returns the epoch that wrote `offset`; -1 below the table."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index > 0 else NO_EPOCH

    def end_offset_for(self, leader_epoch: int) -> tuple[int, int]:
        """Returns the largest epoch at or below `leader_epoch`, and its exclusive end in this log.

        (-1, start of the table) when there is none at or below: the asker's whole epoch is unknown here, and nothing
        from the table's start on agrees. With an empty table that start is the log end.
        """
        index = bisect_right(self._epochs, leader_epoch) - 1
        following = index + 1
        end = self._starts[following] if following < len(self._starts) else self._end
        return (self._epochs[index] if index >= 0 else NO_EPOCH), end

    def truncate_tail(self, end_offset: int) -> None:
        """Truncates the table to the log end `end_offset`: epochs that began at or after it are removed, except rule 3's."""
        keep = bisect_left(self._starts, end_offset, 1)
        del self._epochs[keep:], self._starts[keep:]
        if end_offset < self._starts[0]:
            self._epochs[0], self._starts[0] = NO_EPOCH, end_offset
        self._end = min(self._end, end_offset)

    def truncate_head(self, start_offset: int) -> None:
        """Moves the table to the log start `start_offset`: epochs that ended at or before it are removed, except rule 3's.

        The epoch that holds `start_offset` then begins there.
        """
        self._end = max(self._end, start_offset)
        if start_offset <= self._starts[0]:
            return
        before = bisect_left(self._starts, start_offset) - 1
        following = before + 1
        end = self._starts[following] if following < len(self._starts) else self._end
        first = before if before and end > start_offset else following
        self._epochs[:first] = [self._epochs[before] if before else NO_EPOCH]
        self._starts[:first] = [start_offset]
        if first == before:
            self._starts[1] = start_offset

    def reset(self, log_end_offset: int) -> None:
        """Empties the table, for a log that starts and ends here."""
        self._epochs[:], self._starts[:] = [NO_EPOCH], [log_end_offset]
        self._end = log_end_offset

    def dump(self) -> bytes:
        """Encodes the table with its checksum.

        Rule 3's pair comes after one of the epoch -1, which marks it as such; older versions skip that one.
        """
        pairs = [(NO_EPOCH, self._starts[0]), *zip(self._epochs, self._starts, strict=True)]
        body = b"".join(_ENTRY.pack(epoch, start) for epoch, start in pairs)
        return _HEAD.pack(_MAGIC, len(pairs), crc32c(body)) + body

    @classmethod
    def load(cls, data: Buffer, log_end_offset: int) -> LeaderEpochs:
        """Decodes a `dump` of this version or an older one. Raises `CorruptMessageError`.

        It may reach beyond the log end when the log has lost its tail since; the caller follows with `truncate_tail`.
        """
        if len(data) < _HEAD.size:
            raise CorruptMessageError("the leader epoch table is too short", bytes_present=len(data))
        magic, count, crc = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        if magic != _MAGIC or len(body) != count * _ENTRY.size or crc32c(body) != crc:
            raise CorruptMessageError("the leader epoch table does not match its checksum")
        before, pairs = _marked(list(_ENTRY.iter_unpack(body)), log_end_offset)
        table = cls(before[1])
        table._epochs[0] = before[0]
        for epoch, start in pairs:
            table.assign(epoch, start, log_end_offset)
        table._end = log_end_offset
        if contradiction := table._contradiction():
            raise CorruptMessageError(f"the leader epoch table contradicts itself: {contradiction}")
        return table

    def check(self) -> None:
        """Asserts the invariants."""
        assert not self._contradiction(), self._contradiction()
        assert self._starts[-1] + (len(self._starts) > 1) <= self._end, "the last epoch begins within the log"

    def _contradiction(self) -> str:
        """Returns the rule that the pairs break, whatever log they belong to; empty when they break none."""
        epochs, starts = self._epochs, self._starts
        broken = {
            "epochs do not grow": any(a >= b for a, b in pairwise(epochs[1:])),
            "starts do not grow": any(a >= b for a, b in pairwise(starts[1:])),
            "an offset is negative": starts[0] < 0,
            "a later epoch wrote the record before": epochs[:1] > epochs[1:2] and len(epochs) > 1,
            "the first epoch does not begin at the log start": starts[1:2] not in ([], starts[:1]),
        }
        return next((words for words, holds in broken.items() if holds), "")


def _marked(pairs: list[tuple[int, int]], log_end_offset: int) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Separates rule 3's pair from the others. In an older version's table it is the first, if that has no record left."""
    if not pairs:
        return (NO_EPOCH, log_end_offset), pairs
    if pairs[0][0] == NO_EPOCH:
        if len(pairs) == 1:
            raise CorruptMessageError("the leader epoch table ends after its mark")
        return pairs[1], pairs[2:]
    first_ends = pairs[1][1] if len(pairs) > 1 else log_end_offset
    if pairs[0][1] >= first_ends:
        return pairs[0], pairs[1:]
    return (NO_EPOCH, pairs[0][1]), pairs
