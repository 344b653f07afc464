"""Appends done batches to the log of a waiting partition, in one leadership and in no other.

Rule 1: what leaders after this one have moved is not in this log. So a move counts only when its done batch was committed in
        the same leadership whose log was read: that batch is never sent to another leader.
Rule 2: a done batch has a time that no leader takes from a client (`waiting_log`), so it goes past those checks.
"""

from __future__ import annotations

import asyncio

from oncelog.core.batch.header import read_header
from oncelog.errors import NotLeaderError
from oncelog.ports import WallClock
from oncelog_partition_leader.core.appends.commands import ACKS_ALL, AppendBatch, Written
from oncelog_partition_leader.partition.leadership import Leadership


class OwnLog:
    """The log of one leadership, as a mover writes to it."""

    def __init__(self, leadership: Leadership, clock: WallClock) -> None:
        self._leadership = leadership
        self._clock = clock

    @property
    def is_over(self) -> bool:
        """True when the leadership has ended."""
        return self._leadership.ended is not None

    async def append(self, data: bytes, transactional_id: str, timeout_ms: int) -> None:
        """Returns when the batch is committed; a repeat with the same bytes is appended once.

        Raises `NotLeaderError` once the leadership has ended, and what `Produce` raises.
        """
        if self.is_over:
            raise NotLeaderError("the leadership of the waiting partition has ended")
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        command = AppendBatch(
            done, deadline_ms, ACKS_ALL, header=read_header(data), data=data, transactional_id=transactional_id
        )
        self._leadership.submit(command, len(data))
        await done
