"""Looking at channels, and moving them: DescribeChannel and SeekChannel.

Rule: a depth counts records as far as a bounded look at the log tells, and offsets beyond.
"""

from __future__ import annotations

import asyncio
from typing import Final

from oncelog.errors import FencedLeaderEpochError, OffsetOutOfRangeError, OncelogError
from oncelog.types import Buffer
from oncelog.v1 import channel_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.partition.channels.host import ChannelHost
from oncelog_partition_leader.partition.channels.led_channel import LedChannel
from oncelog_partition_leader.partition.channels.reading.committed_reading import records_between
from oncelog_partition_leader.rpc.channels import channel_requests as checked
from oncelog_partition_leader.rpc.channels.channel_service import SETTLE_MS, ChannelService
from oncelog_runtime.metadata.channel_values import Channel
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.once import Once
from oncelog_runtime.serving.topic_access import TopicOperation

_LATEST: Final = -1
_EARLIEST: Final = -2


class ChannelInspection:
    """The handlers of both methods."""

    def __init__(self, config: BrokerConfig, service: ChannelService, host: ChannelHost) -> None:
        self._config = config
        self._service = service
        self._host = host
        self._once = Once(lambda: FencedLeaderEpochError("the call was meant for another leader epoch"))

    def register(self, server: RpcServer) -> None:
        """Registers both methods with the server."""
        register(server, methods.DESCRIBE_CHANNEL, self.describe)
        register(server, methods.SEEK_CHANNEL, self.seek)

    async def describe(
        self, request: pb.DescribeChannelRequest, _payload: Buffer = b""
    ) -> tuple[pb.DescribeChannelReply, Buffer]:
        """Tells how far a channel is; a partition's error is in its item.

        Raises `InvalidRequestError` and `UnknownChannelError`.
        """
        checked.check_describe(request, self._config.fetch_partitions_max)
        channel = await self._service.find(request.topic_id, request.channel, "", TopicOperation.DESCRIBE)
        found = await asyncio.gather(*(self._partition(request, channel, number) for number in request.partitions))
        return pb.DescribeChannelReply(partitions=found), b""

    async def _partition(
        self, request: pb.DescribeChannelRequest, channel: Channel, number: int
    ) -> pb.ChannelPartition:
        answer = pb.ChannelPartition(partition=number)
        try:
            led = await self._service.open_one(channel, number)
            self._describe(request, led, answer)
        except OncelogError as error:
            answer.error.CopyFrom(to_detail(error))
        return answer

    def _describe(self, request: pb.DescribeChannelRequest, led: LedChannel, answer: pb.ChannelPartition) -> None:
        led.skip_deleted()
        now_ms, delivery, end = led.now_ms(), led.delivery, led.end_offset
        counts = delivery.describe(now_ms)
        answer.leader_epoch = led.place.leader_epoch
        answer.settled_before = delivery.settled_before
        answer.end_offset = end
        answer.depth = counts.depth + records_between(
            led.partition, delivery.next_offset, end, delivery.unsettled_between
        )
        answer.in_flight = counts.in_flight
        answer.in_transaction = counts.in_transaction
        answer.waiting = counts.waiting
        answer.delivered = counts.delivered
        answer.redelivered = counts.redelivered
        answer.acknowledged = counts.acknowledged
        answer.dead = counts.dead
        shared = self._host.shared_of(led.channel)
        for worker in shared.workers.all() if shared is not None else ():
            answer.workers.add(
                worker_id=worker.worker_id,
                client=worker.client,
                max_in_flight=worker.max_in_flight,
                in_flight=delivery.in_flight_of(worker.worker_id),
                idle_ms=0 if worker.standing else max(now_ms - worker.heard_ms, 0),
            )
        self._add_pending(request, led, answer)

    @staticmethod
    def _add_pending(request: pb.DescribeChannelRequest, led: LedChannel, answer: pb.ChannelPartition) -> None:
        if not request.max_pending:
            return
        for item in led.delivery.pending(
            led.now_ms(), request.max_pending, request.worker_id, request.min_idle_ms, request.from_offset
        ):
            answer.pending.add(
                offset=item.offset,
                worker_id=item.worker_id,
                idle_ms=item.idle_ms,
                deliveries=item.deliveries,
                due_ms=item.due_ms,
                in_transaction=item.in_transaction,
                dead=item.dead,
                trouble=item.trouble,
            )

    # ------------------------------------------------------------ seek

    async def seek(self, request: pb.SeekChannelRequest, _payload: Buffer = b"") -> tuple[pb.SeekChannelReply, Buffer]:
        """Has a channel go on at another offset, and answers when that is durable.

        Raises `InvalidRequestError`, `UnknownChannelError`, `OffsetOutOfRangeError`, the partition's error, and
        `FencedLeaderEpochError` for a call that was meant for another leader epoch.
        """
        checked.check_seek(request)
        channel = await self._service.find(request.topic_id, request.channel, request.channel_id, TopicOperation.READ)
        led = await self._service.open_one(channel, request.partition)
        offset = await self._once.run(request.call, led.place.leader_epoch, lambda: self._seek(led, request))
        return pb.SeekChannelReply(offset=offset), b""

    async def _seek(self, led: LedChannel, request: pb.SeekChannelRequest) -> int:
        offset = self._wanted(led, request)
        led.delivery.seek(offset)
        led.changed()
        assert led.writer is not None
        await led.writer.wait(SETTLE_MS)
        return offset

    @staticmethod
    def _wanted(led: LedChannel, request: pb.SeekChannelRequest) -> int:
        """Returns the offset that the caller means. Raises `OffsetOutOfRangeError` or `StorageError`."""
        log, end = led.partition.log, led.end_offset
        if request.timestamp_ms > 0:
            found = log.offset_for_timestamp(request.timestamp_ms)
            return min(found[0], end) if found is not None else end
        if request.offset == _LATEST:
            return end
        if request.offset == _EARLIEST:
            return log.log_start_offset
        if not log.log_start_offset <= request.offset <= end:
            raise OffsetOutOfRangeError(
                offset=request.offset, log_start_offset=log.log_start_offset, last_stable_offset=end
            )
        return request.offset
