"""Administration of delayed records: which wait for their time, and how to take one out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from oncelog.client.admin.admin_base import AdminBase
from oncelog.client.routing.metadata import Topic, no_partition
from oncelog.core.names import waiting_topic
from oncelog.core.work.bounds import PARTITION_MAX, whole_number
from oncelog.errors import InvalidResponseError, LeaderNotAvailableError, UnknownTopicError
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

R = TypeVar("R")
_PAUSE_S: Final = 0.05
_SEARCHES: Final = (
    "etcd was restored from a backup, and not all brokers have told which logs they keep: start those that are down, or"
    " decommission them"
)


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
        Raises `NotScheduledError` when it was delivered or cancelled before, or never waited; `UnknownTopicError` when nothing
        has ever waited for the topic; `RequestTimedOutError` while an open transaction hides the record: it may be cancelled or
        not; `ConfigError` for what is no partition or offset.
        """
        partition, offset = whole_number("partition", partition, 0, PARTITION_MAX), whole_number("offset", offset)

        async def cancel(found: Topic) -> UnknownTopicError | None:
            if partition >= found.partitions:
                return no_partition(found, partition)
            request = pb.CancelDelayedRequest(topic_id=found.topic_id, partition=partition, offset=offset)
            await self._caller.to_leader(PartitionId(found.topic_id, partition), methods.CANCEL_DELAYED, request)
            return None

        error = await self._where_it_waits(topic, cancel, self._metadata.grace_until_ms())
        if error is not None:
            raise error

    async def describe_delayed(self, topic: str) -> list[DelayedPartition]:
        """Returns what waits for each partition of a topic; nothing for a topic without delayed records.

        Raises `LeaderNotAvailableError` while it is not known where they wait: etcd was restored, and a broker is away.
        """
        deadline_ms = self._context.deadline_ms()

        async def describe(found: Topic) -> list[DelayedPartition]:
            partitions = (PartitionId(found.topic_id, number) for number in range(found.partitions))
            return [await self._describe_one(where, deadline_ms) for where in partitions]

        try:
            return await self._where_it_waits(topic, describe, 0)
        except UnknownTopicError:
            return []

    async def _describe_one(self, where: PartitionId, deadline_ms: int) -> DelayedPartition:
        """Asks again, with new metadata, after another broker began to lead, and while a new leader still reads the waiting
        log.
        """

        def check(reply: pb.DescribeDelayedReply) -> None:
            if [found.partition for found in reply.partitions] != [where.partition]:
                raise InvalidResponseError("the leader did not answer for this partition")
            if reply.partitions[0].HasField("error"):
                raise from_detail(reply.partitions[0].error)

        request = pb.DescribeDelayedRequest(topic_id=where.topic_id, partitions=[where.partition])
        timeout_ms = max(1, deadline_ms - self._context.now_ms())
        reply = await self._caller.to_leader(where, methods.DESCRIBE_DELAYED, request, timeout_ms, check=check)
        answer = reply.partitions[0]
        return DelayedPartition(answer.partition, answer.waiting, answer.next_due_ms, answer.moved, answer.cancelled)

    async def _where_it_waits(self, topic: str, call: Callable[[Topic], Awaitable[R]], new_until_ms: int) -> R:
        """Returns what `call` returns for the topic where the records wait; calls again when that was elsewhere a moment ago.

        `new_until_ms`: until then one that no broker knows may be a new one. Raises `UnknownTopicError` when there is none,
        `LeaderNotAvailableError` when that is not known.
        """
        deadline_ms, grace_ms = self._context.deadline_ms(), self._metadata.grace_until_ms()
        while True:
            found = await self._waiting_topic(waiting_topic(topic), deadline_ms, new_until_ms)
            try:
                return await call(found)
            except (UnknownTopicError, LeaderNotAvailableError) as error:  # it was deleted, or etcd was restored
                if self._metadata.searches_logs:
                    self._raise_after(deadline_ms, found.name)
                elif isinstance(error, LeaderNotAvailableError) or self._context.now_ms() >= grace_ms:
                    raise
            self._metadata.forget(found.name)
            new_until_ms = grace_ms
            await asyncio.sleep(_PAUSE_S)

    def _raise_after(self, deadline_ms: int, name: str) -> None:
        if self._context.now_ms() >= deadline_ms:
            raise LeaderNotAvailableError(_SEARCHES, topic=name)

    async def _waiting_topic(self, name: str, deadline_ms: int, grace_ms: int) -> Topic:
        """Raises `UnknownTopicError` when all brokers have told that they know none, else `LeaderNotAvailableError`."""
        while True:
            try:
                return await self._metadata.topic(name, deadline_ms, grace_until_ms=grace_ms)
            except UnknownTopicError:
                if not self._metadata.searches_logs:
                    raise
                self._raise_after(deadline_ms, name)
            await asyncio.sleep(_PAUSE_S)
