"""How a leader makes a follower's log agree with its own: by leader epochs, never by high watermark (KIP-101, KIP-320).

A session is: hello -> (truncate)* -> stream. The follower reports its log end offset and the epoch of its last batch;
the leader answers where to truncate. Each truncation is strictly below the reported end, so the steps terminate. A log
whose records were all deleted holds nothing that could be truncated, whichever leader wrote the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class FollowerEnd(NamedTuple):
    """The end of a follower's log as the follower reports it. `last_epoch` -1 = empty.

    `last_epoch_start`: first offset of that epoch in its log; the log end if all records of that epoch were deleted and
    none came after them.
    """

    log_end_offset: int
    last_epoch: int
    last_epoch_start: int


class Stream(NamedTuple):
    """The logs agree up to `next_offset`: send batches from there on."""

    next_offset: int


class Truncate(NamedTuple):
    """The follower truncates its log to this end, and reports the new end."""

    to: int


class Reset(NamedTuple):
    """The leader has deleted the next records: the follower drops its log and starts at the leader's log start."""

    at: int


EndOfEpoch = Callable[[int], tuple[int, int]]
"""epoch -> (largest known epoch at or below it or -1, its exclusive end), in the leader's log."""


def next_step(told: FollowerEnd, end_of_epoch: EndOfEpoch, log_start: int, log_end: int) -> Stream | Truncate | Reset:
    """Decides what the leader asks of a follower that has reported its end."""
    if told.log_end_offset < log_start:
        return Reset(log_start)
    if told.last_epoch < 0:  # an empty log that begins at told.log_end_offset
        return Stream(told.log_end_offset) if told.log_end_offset <= log_end else Reset(log_start)
    epoch, end = end_of_epoch(told.last_epoch)
    if epoch == told.last_epoch:
        return Stream(told.log_end_offset) if told.log_end_offset <= end else _cut(end, log_start)
    # The leader has no record of the follower's last epoch: all of it goes, and what lies beyond the older epoch's end.
    to = min(told.last_epoch_start, max(end, log_start))
    return Stream(to) if to == told.log_end_offset else _cut(to, log_start)


def _cut(to: int, log_start: int) -> Truncate | Reset:
    return Truncate(to) if to >= log_start else Reset(log_start)
