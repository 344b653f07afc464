"""Opens a channel on a partition: what is remembered of it, or where it begins.

Rule 1: nothing is delivered before the coordinator has answered: by then it refuses all older leaders.
Rule 2: where a channel begins is written before anything is delivered: a later leader would find the end, or a time, elsewhere,
        and the coordinator takes acknowledgements only of a channel whose beginning it knows.
Rule 3: every failure is tried again while the leadership lasts, but a newer leader's fence.
Rule 4: a log that ends before what is remembered lost records in a disaster. Their offsets will be given out again, so what is
        remembered of them is forgotten, and said loudly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ports import WallClock
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.stored_state import Stored, Write
from oncelog_partition_leader.partition.channels.coordinator_calls import ChannelCoordinators, pause_ms
from oncelog_partition_leader.partition.channels.reading.committed_reading import visible_end
from oncelog_partition_leader.partition.channels.wire_state import ChannelPlace, stored_of, write_request
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.channel_values import START_EARLIEST, START_LATEST, Channel

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Opening:
    """Opens one channel on one partition. `latest`: the last stable offset when this leader first heard of the channel."""

    def __init__(
        self, partition: LocalPartition, place: ChannelPlace, coordinators: ChannelCoordinators, clock: WallClock
    ) -> None:
        self._partition = partition
        self._place = place
        self._coordinators = coordinators
        self._clock = clock
        self._latest = visible_end(partition)

    async def delivery(self, channel: Channel) -> Delivery:
        """Returns the delivery. Raises `FencedLeaderEpochError` when a newer leader has opened the channel."""
        reply = await self._until_done(lambda: self._coordinators.open(self._place.opening()))
        if reply.known:
            stored = stored_of(reply, self._clock.now_ms())
        else:
            stored = await self._begin(channel, reply.write_no + 1, reply.seeks)
        delivery = Delivery(channel.options, stored, self._clock.monotonic_ms())
        self._forget_lost(delivery, stored)
        return delivery

    async def _begin(self, channel: Channel, write_no: int, seeks: int) -> Stored:
        start = self._start(channel)
        write = write_request(self._place, Write(write_no, start, (), ()), self._clock.now_ms())
        await self._until_done(lambda: self._coordinators.write(write))
        return Stored(settled_before=start, write_no=write_no, seeks=seeks)

    def _start(self, channel: Channel) -> int:
        """Returns the offset at which a new channel begins. Raises `StorageError`."""
        if channel.start_timestamp_ms == START_EARLIEST:
            return self._partition.log.log_start_offset
        if channel.start_timestamp_ms == START_LATEST:
            return self._latest
        found = self._partition.log.offset_for_timestamp(channel.start_timestamp_ms)
        return min(found[0], self._latest) if found is not None else self._latest

    def _forget_lost(self, delivery: Delivery, stored: Stored) -> None:
        ends = [stored.settled_before, *(last + 1 for _, last in stored.settled)]
        ends += [item.offset + 1 for item in stored.retried]
        end = self._partition.log.log_end_offset
        if max(ends) > end:
            _log.error(
                "%s: the log ends at %d, before what the channel remembers (%d): records were lost; it goes on at %d",
                self._place,
                end,
                max(ends),
                min(stored.settled_before, end),
            )
            delivery.seek(min(stored.settled_before, end))

    async def _until_done(self, call: Callable[[], Awaitable[T]]) -> T:
        tries = 0
        while True:
            try:
                return await call()
            except OncelogError as error:
                if error.code == ErrorCode.FENCED_LEADER_EPOCH:
                    raise
                tries += 1
                if tries in (10, 100):
                    _log.warning("%s cannot be opened yet: %s", self._place, error)
            await asyncio.sleep(pause_ms(tries) / 1000)
