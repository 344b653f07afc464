"""Deletes ephemeral channels that have no worker any more: the leader of partition 0 of the topic sees to that.

Rule 1: a channel is deleted when this leader has had no worker for the worker's time-out, and all other leaders, asked twice
        with that time in between, had none either, in the same leader epochs. Who does not answer may have workers.
Rule 2: a channel that never had a worker gets half a minute from when this leader began, and so do workers after a fail-over.
Rule 3: a call names the channel by its id, so a channel that was made again meanwhile is left alone. A worker that comes at
        the last moment gets the error that the channel is unknown, as one that comes later.
Rule 4: nothing runs for a channel that has workers here: the last one that leaves begins the watch. After a worker
        that came and left meanwhile the wait begins again.
Rule 5: a deletion that fails, for whatever reason, is tried again; only a channel that is gone needs none.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from oncelog.errors import LeaderNotAvailableError, OncelogError, UnknownChannelError, UnknownTopicError
from oncelog.ports import Transport
from oncelog.types import PartitionId
from oncelog.v1 import channel_pb2 as pb
from oncelog.wire import methods
from oncelog_partition_leader.core.channels.workers import worker_timeout_ms
from oncelog_partition_leader.partition.channels.led_channel import Surroundings
from oncelog_partition_leader.partition.channels.shared_channel import SharedChannel
from oncelog_runtime.metadata.channel_values import Channel
from oncelog_runtime.metadata.cluster_view import ClusterView

GRACE_MS: Final = 30_000
"""The time for workers to come after this leader has begun."""
_TIMEOUT_MS: Final = 3_000
_PAUSE_MIN_MS: Final = 500
Epochs = dict[int, int]
"""Partition -> leader epoch, of partitions without workers."""
_log = logging.getLogger(__name__)


class EphemeralChannels:
    """Watches the ephemeral channels whose partition 0 is led here. One per broker."""

    def __init__(self, transport: Transport, view: ClusterView, around: Surroundings) -> None:
        self._transport = transport
        self._view = view
        self._around = around
        self._watched: set[SharedChannel] = set()

    def look(self, shared: SharedChannel) -> None:
        """Begins to watch a channel that has no workers here. Called when it begins and when its last worker leaves."""
        channel = shared.channel
        if 0 not in shared.led or not channel.options.ephemeral or shared in self._watched or len(shared.workers):
            return
        self._watched.add(shared)
        self._around.tasks.spawn(self._watch(shared), f"ephemeral channel {channel.name}")

    async def _watch(self, shared: SharedChannel) -> None:
        try:
            await self._delete_when_deserted(shared)
        finally:
            self._watched.discard(shared)

    async def _delete_when_deserted(self, shared: SharedChannel) -> None:
        """Returns when the channel has a worker here, is led here no longer, or was deleted."""
        quiet: Epochs | None = None
        since_ms = -1
        while _is_deserted(shared):
            pause_ms = max(worker_timeout_ms(shared.channel.options), _PAUSE_MIN_MS)
            left_ms = max(shared.quiet_since_ms + pause_ms, shared.began_ms + GRACE_MS) - self._now_ms()
            await asyncio.sleep(max(left_ms, pause_ms) / 1000)
            if not _is_deserted(shared):
                return
            if shared.quiet_since_ms != since_ms:  # a worker came and left meanwhile
                quiet, since_ms = None, shared.quiet_since_ms
                if since_ms + pause_ms > self._now_ms():
                    continue
            before, quiet = quiet, await self._quiet(shared.channel)
            is_over = quiet is not None and quiet == before and _is_deserted(shared)
            if is_over and shared.quiet_since_ms == since_ms and await self._delete(shared):
                return

    async def _quiet(self, channel: Channel) -> Epochs | None:
        """Returns the leader epochs of all partitions, none of which has a worker; None = one may have some."""
        topic = self._view.topic_by_id(channel.topic_id)
        if topic is None:
            return None
        try:
            by_address = self._leaders(channel.topic_id, topic.partitions)
            found = await asyncio.gather(
                *(self._ask(address, channel, partitions) for address, partitions in by_address.items())
            )
        except OncelogError:
            return None
        answers = [answer for answered in found for answer in answered]
        if any(answer.HasField("error") or answer.workers for answer in answers):
            return None
        return {answer.partition: answer.leader_epoch for answer in answers}

    def _leaders(self, topic_id: str, partitions: int) -> dict[str, list[int]]:
        """Returns the partitions by the address of their leader. Raises `LeaderNotAvailableError`."""
        found: dict[str, list[int]] = {}
        for partition in range(partitions):
            leader = self._view.require_leader(PartitionId(topic_id, partition))
            address = self._view.address_of(leader.broker_id)
            if address is None:
                raise LeaderNotAvailableError("a leader is not registered at the moment", partition=partition)
            found.setdefault(address, []).append(partition)
        return found

    async def _ask(self, address: str, channel: Channel, partitions: list[int]) -> list[pb.ChannelPartition]:
        request = pb.DescribeChannelRequest(topic_id=channel.topic_id, channel=channel.name, partitions=partitions)
        reply, _ = await methods.DESCRIBE_CHANNEL.call(self._transport, address, request, _TIMEOUT_MS)
        if len(reply.partitions) != len(partitions):
            raise LeaderNotAvailableError("a leader answered for another number of partitions")
        return list(reply.partitions)

    async def _delete(self, shared: SharedChannel) -> bool:
        """Has the controller delete the channel. Returns False when that has to be tried again."""
        controller = self._view.controller
        address = self._view.address_of(controller.value.broker_id) if controller is not None else None
        if address is None:
            return False
        channel = shared.channel
        request = pb.DeleteChannelRequest(topic=shared.topic, channel=channel.name, channel_id=channel.channel_id)
        try:
            await methods.DELETE_CHANNEL.call(self._transport, address, request, _TIMEOUT_MS)
        except (UnknownChannelError, UnknownTopicError):
            return True  # it is gone already
        except OncelogError as error:
            level = logging.INFO if error.retriable else logging.WARNING
            _log.log(level, "the ephemeral channel %s is not deleted yet: %s", channel.name, error)
            return False
        _log.info("the ephemeral channel %s of %s had no worker any more, and is deleted", channel.name, shared.topic)
        return True

    def _now_ms(self) -> int:
        return self._around.clock.monotonic_ms()


def _is_deserted(shared: SharedChannel) -> bool:
    """Returns True while partition 0 is led here and no worker is known here."""
    return 0 in shared.led and not len(shared.workers)
