"""Confirms that a log is on disk at every in-sync replica, without any append waiting for it.

A topic in `replicated` mode acknowledges records that its ISR holds in memory. Before a coordinator forgets that a marker was
sent, the marker must be safer than that: it sends the marker once more, and is answered when the marker is on disk.

Rule 1: a member of the ISR holds everything that is committed, so its log below a committed offset is the leader's; the
        incarnation in the request proves that it is still the log that the ISR counts, and the epoch that the leader leads.
Rule 2: one call per follower at a time, for all that wait for it; the syncs themselves are group commits.
Rule 3: an error loses nothing: the coordinator asks again.
Rule 4: a follower of version 0.1 does not know the method; it counts as confirmed, as it did in that version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from oncelog.errors import (
    FencedLeaderEpochError,
    InvalidRequestError,
    LeaderNotAvailableError,
    OncelogError,
    StaleBrokerEpochError,
    UnknownTopicError,
)
from oncelog.ports import Transport
from oncelog.types import BrokerRef, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail, to_detail
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.tasks import TaskOwner

Waiting = tuple[pb.SyncPartition, "asyncio.Future[None]"]


class DiskConfirmation:
    """The leader's side of the confirmation."""

    def __init__(
        self, transport: Transport, view: ClusterView, me: Callable[[], BrokerRef], tasks: TaskOwner, timeout_ms: int
    ) -> None:
        self._transport = transport
        self._view = view
        self._me = me
        self._tasks = tasks
        self._timeout_ms = timeout_ms
        self._waiting: dict[BrokerRef, list[Waiting]] = {}

    async def confirm(self, partition: LocalPartition, end: int) -> None:
        """Returns when everything below `end`, which is committed, is on disk at the leader and each member of its ISR.

        Raises a retriable error when that cannot be confirmed now.
        """
        leadership = partition.require_leadership()
        members = [ref for ref in leadership.replicas.committed if ref.broker_id != self._me().broker_id]
        item = pb.SyncPartition(
            topic_id=partition.id.topic_id,
            partition=partition.id.partition,
            leader_epoch=leadership.epoch,
            end_offset=end,
        )
        await asyncio.gather(partition.sync.wait(end), *(self._ask(ref, item) for ref in members))
        if partition.require_leadership() is not leadership:
            raise LeaderNotAvailableError("another epoch began meanwhile", partition=partition.id.partition)

    def _ask(self, ref: BrokerRef, item: pb.SyncPartition) -> asyncio.Future[None]:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(ref)
        if waiting is None:
            self._waiting[ref] = [(item, answer)]
            self._tasks.spawn(self._serve(ref), f"disk-confirmation-{ref.broker_id}")
        else:
            waiting.append((item, answer))
        return answer

    async def _serve(self, ref: BrokerRef) -> None:
        """Calls one follower until no request waits for it."""
        while waiting := self._waiting[ref]:
            self._waiting[ref] = []
            try:
                errors = await self._call(ref, [item for item, _ in waiting])
            except OncelogError as error:
                errors = [error] * len(waiting)
            except Exception:  # no request may wait without end; the owner of the task reports it
                for _, answer in (*waiting, *self._waiting.pop(ref)):
                    if not answer.done():
                        answer.set_exception(LeaderNotAvailableError("a bug: ask again", broker=ref.broker_id))
                        answer.exception()
                raise
            for (_, answer), failed in zip(waiting, errors, strict=True):
                if answer.done():
                    continue  # its caller has gone
                if failed is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(failed)
                    answer.exception()
        del self._waiting[ref]

    async def _call(self, ref: BrokerRef, items: list[pb.SyncPartition]) -> list[OncelogError | None]:
        address = self._view.address_of(ref.broker_id)
        if address is None:
            raise LeaderNotAvailableError("a member of the ISR is not registered at the moment", broker=ref.broker_id)
        request = pb.SyncReplicaRequest(
            follower=types_pb2.BrokerRef(broker_id=ref.broker_id, incarnation=ref.incarnation), partitions=items
        )
        try:
            reply, _ = await methods.SYNC_REPLICA.call(self._transport, address, request, self._timeout_ms)
        except InvalidRequestError:
            return [None] * len(items)
        if len(reply.partitions) != len(items):
            raise LeaderNotAvailableError("the follower answered for another number of logs", broker=ref.broker_id)
        return [from_detail(one.error) if one.HasField("error") else None for one in reply.partitions]


async def sync_replica(
    partitions: Mapping[PartitionId, LocalPartition], me: BrokerRef, request: pb.SyncReplicaRequest
) -> pb.SyncReplicaReply:
    """Answers as the follower. Raises `StaleBrokerEpochError` when the leader addresses another incarnation."""
    if (request.follower.broker_id, request.follower.incarnation) != me:
        raise StaleBrokerEpochError("another incarnation was spoken to", incarnation=me.incarnation)
    reply = pb.SyncReplicaReply()
    answers = [reply.partitions.add(topic_id=item.topic_id, partition=item.partition) for item in request.partitions]
    steps = (_sync(partitions, item, answer) for item, answer in zip(request.partitions, answers, strict=True))
    await asyncio.gather(*steps)
    return reply


async def _sync(
    partitions: Mapping[PartitionId, LocalPartition], item: pb.SyncPartition, answer: pb.SyncPartitionReply
) -> None:
    try:
        partition = partitions.get(PartitionId(item.topic_id, item.partition))
        if partition is None:
            raise UnknownTopicError("no such replica here (yet)", partition=item.partition)
        _require_holds(partition, item)
        await partition.sync.wait(item.end_offset)
        _require_holds(partition, item)
    except OncelogError as error:
        answer.error.CopyFrom(to_detail(error))


def _require_holds(partition: LocalPartition, item: pb.SyncPartition) -> None:
    if partition.failed is not None:
        raise partition.failed
    if item.leader_epoch != partition.known_epoch:
        raise FencedLeaderEpochError(leader_epoch=item.leader_epoch, known_epoch=partition.known_epoch)
    if partition.log.log_end_offset < item.end_offset:
        raise LeaderNotAvailableError("this replica is not so far", log_end_offset=partition.log.log_end_offset)
