"""A group's coordinator that does what a test says: who is assigned what, and whose membership ends."""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster

INTERVAL_MS, SESSION_MS = 3_000, 45_000


class ScriptedGroup:
    """Answers the heartbeats that reach this cluster. `heartbeats` has all of them, `assigned` the partitions of its member."""

    def __init__(self, cluster: FakeCluster, *assigned: int) -> None:
        self._cluster = cluster
        self._news = asyncio.Condition()
        self.heartbeats: list[co.GroupHeartbeatRequest] = []
        self.member_id = ""
        self.spent: set[str] = set()
        self.epoch = 0
        self.number = 0
        self.assigned = assigned
        self.is_silent = False
        cluster._GroupHeartbeat = self._heartbeat  # type: ignore[attr-defined]

    async def assign(self, *partitions: int) -> None:
        """The member owns these from now on."""
        async with self._news:
            self.assigned, self.number, self.epoch = partitions, self.number + 1, self.epoch + 1
            self._news.notify_all()

    async def fence(self) -> None:
        """The membership has ended."""
        async with self._news:
            self.spent.add(self.member_id)
            self._news.notify_all()

    @property
    def applied(self) -> int:
        """The number of the assignment that the member has carried out, as it says."""
        return self.heartbeats[-1].assignment_applied

    async def until_applied(self) -> None:
        """Returns when the member has carried out the newest assignment; `read` lets it."""
        async with asyncio.timeout(60):
            while self.applied != self.number:
                await self._cluster.pause()

    def leaves(self) -> list[tuple[str, int]]:
        """Who left, and with which epoch."""
        return [(beat.member_id, beat.member_epoch) for beat in self.heartbeats if beat.member_epoch < 0]

    async def _heartbeat(self, address: str, request: co.GroupHeartbeatRequest, _: bytes) -> tuple[Any, bytes]:
        self.heartbeats.append(request)
        if request.member_epoch < 0:
            self.spent.add(request.member_id)
            return co.GroupHeartbeatReply(member_epoch=request.member_epoch), b""
        if request.member_id not in (self.member_id, *self.spent):
            self.member_id, self.epoch, self.number = request.member_id, self.epoch + 1, 1
        async with self._news:
            try:
                async with asyncio.timeout(request.max_wait_ms / 1000):
                    await self._news.wait_for(lambda: self._has_news(request))
            except TimeoutError:
                pass
        while self.is_silent:
            await self._cluster.pause()
        if request.member_id in self.spent:
            raise errors.UnknownMemberError("the session has ended")
        return self._reply(request), b""

    def _has_news(self, request: co.GroupHeartbeatRequest) -> bool:
        is_old = (request.member_epoch, request.assignment_received) != (self.epoch, self.number)
        return is_old or request.member_id in self.spent

    def _reply(self, request: co.GroupHeartbeatRequest) -> co.GroupHeartbeatReply:
        reply = co.GroupHeartbeatReply(
            member_epoch=self.epoch, heartbeat_interval_ms=INTERVAL_MS, session_timeout_ms=SESSION_MS
        )
        if request.assignment_received != self.number:
            reply.assignment.number = self.number
            topic_id = self._cluster.topic_id
            reply.assignment.topics.add(topic_id=topic_id, topic=TOPIC, partitions=self.assigned)
        return reply
