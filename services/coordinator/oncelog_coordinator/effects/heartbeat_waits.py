"""Heartbeats of members that wait for news: a new assignment, or a partition that was let go.

Rule 1: a member has one waiting heartbeat; a newer one ends the wait of the one before.
Rule 2: a wait only delays an answer, by less than a session: when its shard closes, or nothing happens, the heartbeat is
        answered as it would have been at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from oncelog_coordinator.core.groups.group_commands import GroupNews


@dataclass(slots=True, eq=False)
class HeartbeatWait:
    """One heartbeat that may wait. It notes news from the time of its making, so none is missed in between."""

    shard: int
    group_id: str
    member_id: str
    news: asyncio.Event
    has_news: bool = False

    async def wait(self, timeout_ms: int) -> bool:
        """Returns True when there is news for the member, False after the time-out or when the wait was ended."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.news.wait()
        except TimeoutError:
            return False
        return self.has_news


class HeartbeatWaits:
    """All of one process."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, HeartbeatWait]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def begin(self, shard: int, group_id: str, member_id: str) -> HeartbeatWait:
        """Returns a wait that notes news from now on; it has to be ended with `end`."""
        wait = HeartbeatWait(shard, group_id, member_id, asyncio.Event())
        members = self._groups.setdefault(group_id, {})
        before, members[member_id] = members.get(member_id), wait
        if before is not None:
            before.news.set()
        return wait

    def end(self, wait: HeartbeatWait) -> None:
        """Forgets a wait, unless a newer one of the member has replaced it."""
        members = self._groups.get(wait.group_id, {})
        if members.get(wait.member_id) is wait:
            del members[wait.member_id]
            if not members:
                del self._groups[wait.group_id]

    def tell(self, news: GroupNews) -> None:
        """Ends the waits of the members that the news is about."""
        members = self._groups.get(news.group_id, {})
        for member_id in members if news.member_ids is None else news.member_ids:
            wait = members.get(member_id)
            if wait is not None:
                wait.has_news = True
                wait.news.set()

    def close(self, shard: int) -> None:
        """Ends the waits for groups of a shard, whose life has ended."""
        for members in self._groups.values():
            for wait in members.values():
                if wait.shard == shard:
                    wait.news.set()
