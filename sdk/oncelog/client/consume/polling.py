"""Waits for records: looks, waits for news, looks again, until something is there or the time has passed.

Rule 1: before each look every assigned partition has a position, and topics that changed are seen (`Positions.find`).
        Before that, auto-commit and the group get their turn: what earlier reads returned is processed now.
        With `delivery="at_most_once"` what was found is committed before it is returned (`CommitFirst`).
Rule 2: a wait without a limit is made of many waits with one, and ends when the consumer closes.
Rule 3: a caller that reads on and on what is here already gives the event loop its turn here (`Pace`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.following import Following
from oncelog.client.consume.group.auto_commit import AutoCommit
from oncelog.client.consume.group.commit_first import CommitFirst
from oncelog.client.consume.group.group_reading import GroupReading
from oncelog.client.consume.positions import Positions
from oncelog.client.home.closing import Closing
from oncelog.client.home.context import now_ms
from oncelog.client.home.pace import Pace

T = TypeVar("T")
_FOREVER_MS = 3_600_000
"""A wait without a limit lasts so long at a time."""


class Polling:
    """See the module. One per consumer."""

    def __init__(
        self,
        positions: Positions,
        fetcher: Fetcher,
        following: Following,
        closing: Closing,
        commits: AutoCommit,
        group: GroupReading,
        first: CommitFirst,
        pace: Pace,
    ) -> None:
        self._positions = positions
        self._fetcher = fetcher
        self._following = following
        self._closing = closing
        self._commits = commits
        self._group = group
        self._first = first
        self._pace = pace

    async def until(self, look: Callable[[], T | None], timeout_ms: int | None) -> T | None:
        """Returns what `look` finds; None when the time has passed (`timeout_ms` None: never), or the consumer closes."""
        deadline_ms = None if timeout_ms is None else now_ms() + timeout_ms
        await self._pace.give_turn()
        while not self._closing.is_begun:
            self._commits.look()
            if self._group.is_active:
                await self._group.look()
            await self._positions.find()
            found = await self._first.taken(look) if self._first.is_on else look()
            if found is not None:
                return found
            left_ms = _FOREVER_MS if deadline_ms is None else deadline_ms - now_ms()
            if left_ms <= 0:
                return None
            if self._positions.are_due or self._closing.is_begun:
                continue
            await self._fetcher.wait(self._group.wait_ms(self._following.wait_ms(left_ms)))
            self._pace.had_turn()
        return None
