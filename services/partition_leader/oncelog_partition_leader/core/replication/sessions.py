"""How a leader brings a follower's log to agree with its own: by leader epochs, never by high watermark (KIP-101, KIP-320).

A session is: hello -> (truncate)* -> stream. The follower says where its log ends and in which epoch its last batch is;
the leader says where to cut. Each cut is strictly below the end that was told, so the steps end. A log whose records were all
deleted holds nothing that could be cut, whoever wrote the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class FollowerEnd(NamedTuple):
    """A follower's log as it tells it. `last_epoch` -1 = empty; `last_epoch_start`: where that epoch begins there.

    That is the log end where the records of that epoch were all deleted, and none came after them.
    """

    log_end_offset: int
    last_epoch: int
    last_epoch_start: int


class Stream(NamedTuple):
    """The logs agree up to here: send what follows."""

    next_offset: int


class Truncate(NamedTuple):
    """Cut to this end, then tell again."""

    to: int


class Reset(NamedTuple):
    """The leader no longer has what would come next: begin anew at its log start."""

    at: int


EndOfEpoch = Callable[[int], tuple[int, int]]
"""epoch -> (largest known epoch at or below it or -1, its exclusive end), in the leader's log."""


def next_step(told: FollowerEnd, end_of_epoch: EndOfEpoch, log_start: int, log_end: int) -> Stream | Truncate | Reset:
    """What the leader asks of a follower that told its end."""
    if told.log_end_offset < log_start:
        return Reset(log_start)
    if told.last_epoch < 0:  # an empty log that begins at told.log_end_offset
        return Stream(told.log_end_offset) if told.log_end_offset <= log_end else Reset(log_start)
    epoch, end = end_of_epoch(told.last_epoch)
    if epoch == told.last_epoch:
        return Stream(told.log_end_offset) if told.log_end_offset <= end else _cut(end, log_start)
    # The leader never saw the follower's last epoch: all of it goes, and whatever lies beyond the older epoch's end.
    to = min(told.last_epoch_start, max(end, log_start))
    return Stream(to) if to == told.log_end_offset else _cut(to, log_start)


def _cut(to: int, log_start: int) -> Truncate | Reset:
    return Truncate(to) if to >= log_start else Reset(log_start)
