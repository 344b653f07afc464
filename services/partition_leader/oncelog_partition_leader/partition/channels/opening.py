"""Opens a channel on a partition: what is remembered of it, or where it begins.

Rule 1: nothing is delivered before the coordinator has answered: by then it refuses all older leaders.
Rule 2: where a channel begins is written before anything is delivered: a later leader would find the end, or a time, elsewhere,
        and the coordinator takes acknowledgements only of a channel whose beginning it knows. A leader that was not there when
        a channel was made with its beginning at the end, and finds that no leader has written it, goes by the time at which the
        channel was made: what was written since then must not be passed over.
Rule 3: every failure is tried again while the leadership lasts, but a newer leader's fence.
Rule 4: a log whose epochs up to the one that wrote last end before what is remembered lost records in a disaster. Their
        offsets are given out again, perhaps were already, to records that were never worked on. So what is remembered of them
        is forgotten before anything is delivered, and said loudly (the way of KIP-320: the end of a log alone says nothing).
Rule 5: when a leader opens a channel again in the same epoch, a write of its earlier attempt may still be on its way, with the
        number of the next one. So it makes one write that says nothing new, and reads again: by then the late one has counted,
        or never will. Otherwise it would count in the place of a write with other acknowledgements.
Rule 6: a worker hands out what an earlier leader gave it less than `SURE_MS` ago without asking. So this one delivers nothing
        for so long: what it delivers may be acknowledged at once. An election after a death takes longer than that; a move of
        the leadership, or of replicas, takes some milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from oncelog.core.work.deadlines import SURE_MS
from oncelog.errors import ErrorCode, OncelogError
from oncelog.ports import WallClock
from oncelog.v1 import coordinator_pb2 as co
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.stored_state import NOT_KNOWN, Stored, Write
from oncelog_partition_leader.partition.channels.coordinator_calls import ChannelCoordinators, pause_ms
from oncelog_partition_leader.partition.channels.reading.committed_reading import visible_end
from oncelog_partition_leader.partition.channels.wire_state import (
    ChannelPlace,
    forget_request,
    stored_of,
    write_request,
)
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.channel_values import START_EARLIEST, START_LATEST, Channel

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Beginning(Enum):
    """When a leader begins with a channel."""

    NEW = "it leads the partition and hears of a channel that was made just now"
    LATER = "the channel was there before its leadership"
    AGAIN = "it has begun with the channel before, in this leadership"


class Opening:
    """Opens one channel on one partition. `trouble`: what kept it from that last; empty = nothing."""

    def __init__(
        self,
        partition: LocalPartition,
        place: ChannelPlace,
        coordinators: ChannelCoordinators,
        clock: WallClock,
        beginning: Beginning,
    ) -> None:
        self.trouble = ""
        self._partition = partition
        self._place = place
        self._coordinators = coordinators
        self._clock = clock
        self._beginning = beginning
        self._latest = visible_end(partition)
        self._began_ms = clock.monotonic_ms()
        self._has_history = False
        """An earlier leader may have given records to workers."""

    async def delivery(self, channel: Channel) -> Delivery:
        """Returns the delivery. Raises `FencedLeaderEpochError` when a newer leader has opened the channel."""
        stored = await self._remembered(channel)
        await self._until_no_worker_is_sure()
        end = self._end_of(stored)
        delivery = Delivery(channel.options, stored, self._clock.monotonic_ms())
        if stored.end > end:  # an older coordinator knows no other way to forget
            self._tell_loss(stored, end)
            delivery.seek(min(stored.settled_before, end))
        return delivery

    async def confirm(self, delivery: Delivery) -> bool:
        """Returns when the coordinator has answered that no newer leader has opened the channel. So nothing has happened to
        it but what happened here. Raises `FencedLeaderEpochError`.

        False: the coordinator does not remember what was written here, since it has lost records in a disaster.
        """
        confirmed = delivery.confirmed_write_no
        reply = await self._until_done(lambda: self._coordinators.open(self._place.opening((0,))))  # not for all blocks
        is_remembered = reply.known and confirmed <= reply.write_no <= delivery.sent_write_no
        if not is_remembered:
            _log.error("%s: the coordinator has lost what was written: the channel is opened again", self._place)
        return is_remembered

    async def _remembered(self, channel: Channel) -> Stored:
        """Returns what is remembered, once no write of an earlier attempt can change it, and nothing of it is lost.

        While a loss shows, an earlier attempt has written nothing, and has at most sent the write that forgets it: either of
        the two may count. A write that says nothing new would hide the loss, since it is of this epoch.
        """
        reply = await self._read()
        self._has_history = reply.known
        stored = stored_of(reply, self._clock.now_ms())
        shows_loss = stored.written_epoch != NOT_KNOWN and stored.end > self._end_of(stored)
        if not reply.known or (self._beginning is Beginning.AGAIN and not shows_loss):
            before = reply.settled_before if reply.known else self._start(channel)
            write = Write(reply.write_no + 1, before, (), ())
            await self._write(write_request(self._place, write, self._clock.now_ms()))
            stored = stored_of(await self._read(), self._clock.now_ms())
        while stored.written_epoch != NOT_KNOWN and stored.end > (end := self._end_of(stored)):
            stored = await self._without_lost(stored, end)
        return stored

    async def _until_no_worker_is_sure(self) -> None:
        """Rule 6."""
        left_ms = self._began_ms + SURE_MS - self._clock.monotonic_ms()
        if self._has_history and left_ms > 0:
            await asyncio.sleep(left_ms / 1000)

    async def _read(self) -> co.OpenChannelPartitionReply:
        return await self._until_done(lambda: self._coordinators.open(self._place.opening()))

    async def _write(self, request: co.WriteChannelStateRequest) -> None:
        await self._until_done(lambda: self._coordinators.write(request))

    def _start(self, channel: Channel) -> int:
        """Returns the offset at which a new channel begins. Raises `StorageError`."""
        if channel.start_timestamp_ms == START_EARLIEST:
            return self._partition.log.log_start_offset
        if channel.start_timestamp_ms == START_LATEST:
            return self._latest if self._beginning is Beginning.NEW else self._at(channel.created_ms)
        return self._at(channel.start_timestamp_ms)

    def _at(self, timestamp_ms: int) -> int:
        found = self._partition.log.offset_for_timestamp(timestamp_ms)
        return min(found[0], self._latest) if found is not None else self._latest

    def _end_of(self, stored: Stored) -> int:
        """The offset before which this log has what was there when the state was written."""
        log = self._partition.log
        if stored.written_epoch == NOT_KNOWN:
            return log.log_end_offset
        return log.epochs.end_offset_for(stored.written_epoch)[1]

    async def _without_lost(self, stored: Stored, end: int) -> Stored:
        """Returns what is remembered without the records that the log has lost (rule 4)."""
        self._tell_loss(stored, end)
        await self._write(forget_request(self._place, stored.write_no + 1, end))
        return stored_of(await self._read(), self._clock.now_ms())

    def _tell_loss(self, stored: Stored, end: int) -> None:
        _log.error(
            "%s: the log has what was written before offset %d, and the channel remembers more (before %d): records were lost; "
            "those that take their places are delivered",
            self._place,
            end,
            stored.end,
        )

    async def _until_done(self, call: Callable[[], Awaitable[T]]) -> T:
        tries = 0
        while True:
            try:
                return await call()
            except OncelogError as error:
                if error.code == ErrorCode.FENCED_LEADER_EPOCH:
                    raise
                tries += 1
                self.trouble = error.message
                if tries in (10, 100):
                    _log.warning("%s cannot be opened yet: %s", self._place, error)
            await asyncio.sleep(pause_ms(tries) / 1000)
