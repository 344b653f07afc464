"""Administration of delayed records: which wait for their time, and how to take one out."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from oncelog.client.admin.admin_base import AdminBase
from oncelog.core.names import waiting_topic
from oncelog.errors import UnknownTopicError
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

_PAUSE_S: Final = 0.05


class DelayedPartition(NamedTuple):
    """The delayed records of one partition."""

    partition: int
    waiting: int
    """Records."""
    next_due_ms: int
    """No record is due before, in milliseconds since 1970; -1 = nothing waits."""
    moved: int
    """Records that came to their topic since this leader leads."""
    cancelled: int


class DelayAdmin(AdminBase):
    """See the module."""

    async def cancel_delayed(self, topic: str, partition: int, offset: int) -> None:
        """Takes a delayed record out before its time: when this returns, it will never be delivered.

        `topic`: the one it was sent to. `partition` and `offset`: where it waits, as `send` returned.
        Raises `NotScheduledError` when it was delivered or cancelled before, or never waited.
        """
        found = await self._waiting(topic)
        request = pb.CancelDelayedRequest(topic_id=found, partition=partition, offset=offset)
        await self._caller.to_leader(PartitionId(found, partition), methods.CANCEL_DELAYED, request)

    async def describe_delayed(self, topic: str) -> list[DelayedPartition]:
        """Returns what waits for each partition of a topic; nothing for a topic without delayed records."""
        try:
            found = await self._metadata.topic(waiting_topic(topic), self._context.deadline_ms(), grace_until_ms=0)
        except UnknownTopicError:
            return []
        return [await self._describe_one(PartitionId(found.topic_id, number)) for number in range(found.partitions)]

    async def _describe_one(self, where: PartitionId) -> DelayedPartition:
        """Asks again while a new leader still reads the waiting log: the error is in the answer, where `Caller` sees none."""
        request = pb.DescribeDelayedRequest(topic_id=where.topic_id, partitions=[where.partition])
        deadline_ms = self._context.deadline_ms()
        while True:
            reply = await self._caller.to_leader(where, methods.DESCRIBE_DELAYED, request)
            answer = reply.partitions[0]
            if not answer.HasField("error"):
                break
            error = from_detail(answer.error)
            if not error.retriable or self._context.now_ms() >= deadline_ms:
                raise error
            await asyncio.sleep(_PAUSE_S)
        return DelayedPartition(answer.partition, answer.waiting, answer.next_due_ms, answer.moved, answer.cancelled)

    async def _waiting(self, topic: str) -> str:
        return (await self._metadata.topic(waiting_topic(topic), self._context.deadline_ms())).topic_id
