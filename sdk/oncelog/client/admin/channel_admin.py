"""Administration of channels, and repairs by hand: a part of `client.admin`.

Rule 1: a channel is changed and deleted by its id, as the call found it: one that is made meanwhile under its name is left
        alone.
Rule 2: every leader is asked for its partitions; one that does not answer is named with its error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Unpack

from oncelog import errors
from oncelog.client.admin.admin_base import AdminBase
from oncelog.client.admin.channel_descriptions import (
    ChannelDescription,
    ChannelListing,
    ChannelOptions,
    ChannelPartitionState,
    ChannelWorker,
    ClaimedMessages,
    CreatedChannel,
    PendingMessage,
)
from oncelog.client.routing.metadata import no_partition
from oncelog.config import CHANNEL_OPTIONS, EARLIEST, LATEST, check_channel_options, start_time_ms
from oncelog.core.names import check_channel_name, check_topic_name
from oncelog.core.work.bounds import (
    CLAIMED_MAX,
    PARTITION_MAX,
    PENDING_MAX,
    check_reason,
    claimed_offsets,
    whole_number,
)
from oncelog.types import PartitionId
from oncelog.v1 import channel_pb2 as ch
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

if TYPE_CHECKING:
    from oncelog.option_types import ChannelOptionsGiven

_GRACE_MS: Final = 1_000
_VERDICTS: Final = {"release": ch.VERDICT_RELEASE, "ack": ch.VERDICT_ACK, "reject": ch.VERDICT_REJECT}
_ENDS: Final = {LATEST: -1, EARLIEST: -2}


class ChannelAdmin(AdminBase):
    """See the module."""

    # ------------------------------------------------------------ channels

    async def create_channel(
        self,
        topic: str,
        channel: str,
        *,
        start: str | int = EARLIEST,
        if_not_exists: bool = False,
        **options: Unpack[ChannelOptionsGiven],
    ) -> CreatedChannel:
        """Makes a channel. `start`: "earliest", "latest", or milliseconds since 1970: the first record at or after.

        `options` are those of `WorkerConfig` that belong to the channel. Raises `ChannelExistsError` unless `if_not_exists`,
        `UnknownTopicError`, `InvalidRequestError` for a name that is none, `ConfigError`.
        """
        check_channel_options(options)
        request = ch.CreateChannelRequest(
            topic=check_topic_name(topic),
            channel=check_channel_name(channel),
            options=ch.ChannelOptions(**options),
            start_timestamp_ms=start_time_ms(start),
            if_not_exists=if_not_exists,
            nonce=self._context.nonce(),
        )
        reply = await self._caller.to_controller(methods.CREATE_CHANNEL, request)
        return CreatedChannel(_listing(reply.channel), reply.created)

    async def alter_channel(self, topic: str, channel: str, **options: Unpack[ChannelOptionsGiven]) -> ChannelListing:
        """Changes options of a channel; the others stay. Returns how it is now.

        `order_by_key` and `ephemeral` cannot be changed. Raises `UnknownChannelError`, `ConfigError`, `InvalidRequestError`.
        """
        check_channel_options(options)
        return await self._alter_channel(topic, channel, ch.AlterChannelRequest(options=ch.ChannelOptions(**options)))

    async def pause_channel(self, topic: str, channel: str) -> ChannelListing:
        """Nothing is delivered until `resume_channel`; what was delivered may be settled. Raises `UnknownChannelError`."""
        return await self._alter_channel(topic, channel, ch.AlterChannelRequest(paused=True))

    async def resume_channel(self, topic: str, channel: str) -> ChannelListing:
        """Ends a pause. Raises `UnknownChannelError`."""
        return await self._alter_channel(topic, channel, ch.AlterChannelRequest(paused=False))

    async def _alter_channel(self, topic: str, channel: str, request: ch.AlterChannelRequest) -> ChannelListing:
        known = await self._known(topic, channel)
        request.topic, request.channel, request.channel_id = topic, channel, known.channel_id
        reply = await self._caller.to_controller(methods.ALTER_CHANNEL, request, once=True)
        return _listing(reply.channel)

    async def delete_channel(self, topic: str, channel: str) -> None:
        """Deletes a channel with all that it remembers; the records of the topic stay. Raises `UnknownChannelError`."""
        known = await self._known(topic, channel)
        request = ch.DeleteChannelRequest(topic=topic, channel=channel, channel_id=known.channel_id)
        await self._caller.to_controller(methods.DELETE_CHANNEL, request, once=True)

    async def list_channels(self, *topics: str) -> list[ChannelListing]:
        """The channels of these topics (none = of all), by topic and name, as some broker last saw them."""
        request = ch.ListChannelsRequest(topics=[check_topic_name(topic) for topic in topics])
        reply = await self._caller.to_any_broker(methods.LIST_CHANNELS, request)
        return sorted(map(_listing, reply.channels), key=lambda found: (found.topic, found.channel))

    async def _known(self, topic: str, channel: str) -> ChannelListing:
        """Raises `UnknownChannelError`; a broker that lags is asked again for a second."""
        check_channel_name(channel)
        until_ms = self._context.now_ms() + _GRACE_MS
        attempt = 0
        while True:
            for found in await self.list_channels(topic):
                if found.channel == channel:
                    return found
            attempt += 1
            if not await self._context.pause(attempt, until_ms):
                raise errors.UnknownChannelError(
                    f"topic `{topic}` has no channel `{channel}`", topic=topic, channel=channel
                )

    # ------------------------------------------------------------ looking

    async def describe_channel(self, topic: str, channel: str) -> ChannelDescription:
        """How far a channel is on each partition, and who works. Raises `UnknownChannelError`."""
        known = await self._known(topic, channel)
        request = ch.DescribeChannelRequest(topic_id=known.topic_id, channel=channel)
        found = await self._of_leaders(known, request)
        return ChannelDescription(known, tuple(map(_state, found)))

    async def pending(
        self,
        topic: str,
        channel: str,
        *,
        partition: int | None = None,
        worker_id: str = "",
        min_idle_ms: int = 0,
        from_offset: int = 0,
        limit: int = 100,
    ) -> list[PendingMessage]:
        """Records that were delivered and are not settled, by partition and offset, at most `limit` (1 to 10,000) of each
        partition.

        `partition`: only of this one; `worker_id`: only those that it holds; `min_idle_ms`: only those that were delivered
        at least so long ago. Raises `UnknownChannelError`, `ConfigError` for a number out of its range, `InvalidRequestError`
        for a name that no worker has, and why a leader did not answer. Redis: XPENDING.
        """
        request = ch.DescribeChannelRequest(
            channel=channel,
            max_pending=whole_number("limit", limit, 1, PENDING_MAX),
            worker_id=check_channel_name(worker_id) if worker_id else "",
            min_idle_ms=whole_number("min_idle_ms", min_idle_ms),
            from_offset=whole_number("from_offset", from_offset),
        )
        if partition is not None:
            partition = whole_number("partition", partition, 0, PARTITION_MAX)
        known = await self._known(topic, channel)
        request.topic_id = known.topic_id
        answers = await self._of_leaders(known, request, partition)
        for answer in answers:
            if answer.HasField("error"):
                raise from_detail(answer.error)
        return [
            PendingMessage(
                answer.partition,
                item.offset,
                item.worker_id,
                item.idle_ms,
                item.deliveries,
                item.due_ms,
                item.in_transaction,
                item.dead,
                item.trouble,
            )
            for answer in answers
            for item in answer.pending
        ]

    async def _of_leaders(
        self, known: ChannelListing, request: ch.DescribeChannelRequest, partition: int | None = None
    ) -> list[ch.ChannelPartition]:
        """The answer about each partition, by number. Rule 2."""
        numbers = await self._numbers(known, partition)
        return sorted(
            await asyncio.gather(*(self._of_leader(known, request, number) for number in numbers)),
            key=lambda found: found.partition,
        )

    async def _of_leader(
        self, known: ChannelListing, request: ch.DescribeChannelRequest, number: int
    ) -> ch.ChannelPartition:
        own = ch.DescribeChannelRequest()
        own.CopyFrom(request)
        own.partitions.append(number)

        def check(reply: ch.DescribeChannelReply) -> None:
            if [found.partition for found in reply.partitions] != [number]:
                raise errors.InvalidResponseError("the leader did not answer for this partition")
            if reply.partitions[0].HasField("error") and (error := from_detail(reply.partitions[0].error)).retriable:
                raise error

        where = PartitionId(known.topic_id, number)
        try:
            reply = await self._caller.to_leader(where, methods.DESCRIBE_CHANNEL, own, check=check)
        except errors.OncelogError as error:
            from oncelog.wire.wire_errors import to_detail

            return ch.ChannelPartition(partition=number, error=to_detail(error))
        return reply.partitions[0]

    async def _numbers(self, known: ChannelListing, partition: int | None) -> Sequence[int]:
        """All partitions of the channel's topic, or this one. Raises `UnknownTopicError`."""
        deadline_ms = self._context.deadline_ms()
        topic = await self._metadata.topic_known_as(known.topic, known.topic_id, deadline_ms)
        if partition is None:
            return range(topic.partitions)
        if not 0 <= partition < topic.partitions:
            raise no_partition(topic, partition)
        return [partition]

    # ------------------------------------------------------------ repairing

    async def claim(
        self,
        topic: str,
        channel: str,
        partition: int,
        *,
        offsets: Iterable[int] = (),
        min_idle_ms: int = 0,
        max_records: int = 100,
        then: str = "release",
        reason: str = "",
    ) -> list[ClaimedMessages]:
        """Takes records from the workers that hold them, and does with them what `then` says. Returns which it took.

        "release": they come again at once; "ack": they are done; "reject": they are dead, with the `reason`. `offsets`:
        these, whether a worker holds them or they wait to come again; none = what workers hold, delivered at least
        `min_idle_ms` ago. It takes at most `max_records`, which is 1 to 1,000. A claim is a delivery: a record that was
        never delivered is not taken, nor one in its last delivery (`max_deliveries`), which is dead when that ends,
        nor what a worker was given or has touched less than a second ago: that worker may hand it out in this moment.
        Raises `UnknownChannelError`, `ConfigError`, and `InvalidRequestError` for a long reason, before it takes anything. A
        worker takes records over for itself with `Worker.claim`. Redis: XCLAIM.
        """
        if then not in _VERDICTS:
            raise errors.ConfigError(f"`then` is one of {', '.join(_VERDICTS)}", given=ascii(then)[:66])
        check_reason(reason)
        request = ch.ClaimRequest(
            channel=channel,
            worker_id=f"admin-{self._context.nonce()}",
            partition=whole_number("partition", partition, 0, PARTITION_MAX),
            offsets=claimed_offsets(offsets),
            min_idle_ms=whole_number("min_idle_ms", min_idle_ms),
            max_records=whole_number("max_records", max_records, 1, CLAIMED_MAX),
            names_only=True,
        )
        known = await self._known(topic, channel)
        await self._numbers(known, request.partition)
        request.topic_id, request.channel_id = known.topic_id, known.channel_id
        where = PartitionId(known.topic_id, request.partition)
        reply = await self._caller.to_leader(where, methods.CLAIM, request)
        if reply.records:
            await self._settle_claimed(where, request, reply.records, then, reason)
        else:
            await self._take_leave(where, request)
        return [ClaimedMessages(i.partition, i.first_offset, i.last_offset, i.delivery) for i in reply.records]

    async def _take_leave(self, where: PartitionId, claim: ch.ClaimRequest) -> None:
        """Has the leader forget the worker of a claim that took nothing. One that does not answer misses it by itself."""
        with suppress(errors.OncelogError):
            await self._caller.to_leader(where, methods.SETTLE, _last_word(claim), _GRACE_MS)

    async def _settle_claimed(
        self, where: PartitionId, claim: ch.ClaimRequest, claimed: Iterable[ch.ReceivedRecords], then: str, reason: str
    ) -> None:
        """Settles claimed records. Raises why it could not: then they come again after the deadline of the claim."""
        request = _last_word(claim)
        for item in claimed:
            request.items.add(
                partition=item.partition,
                first_offset=item.first_offset,
                last_offset=item.last_offset,
                delivery=item.delivery,
                leader_epoch=item.leader_epoch,
                verdict=_VERDICTS[then],
                reason=reason if then == "reject" else "",
            )
        reply = await self._caller.to_leader(where, methods.SETTLE, request)
        for failed in reply.errors:
            error = from_detail(failed.error)
            is_released = then == "release" and isinstance(error, errors.NotOwnerError)  # by a copy of the call
            if not (failed.settled or is_released):
                raise error

    async def seek_channel(
        self, topic: str, channel: str, to: str | int, *, partition: int | None = None, timestamp_ms: int = 0
    ) -> dict[int, int]:
        """Goes on elsewhere: everything before is done, everything from there on comes (again). Returns partition -> offset.

        `to`: "earliest", "latest", or an offset, for which a `partition` is named; it is not looked at with a
        `timestamp_ms` above 0: then each partition goes on at its first record at or after that time. Raises
        `UnknownChannelError`, `ConfigError`.
        """
        self._context.home.check()
        offset = _place(to)
        timestamp_ms = whole_number("timestamp_ms", timestamp_ms)
        if partition is not None:
            partition = whole_number("partition", partition, 0, PARTITION_MAX)
        elif offset >= 0 and timestamp_ms == 0:
            raise errors.ConfigError("an offset is one partition's: name the partition")
        known = await self._known(topic, channel)
        numbers = await self._numbers(known, partition)
        ends = await asyncio.gather(*(self._seek(known, number, offset, timestamp_ms) for number in numbers))
        return dict(zip(numbers, ends, strict=True))

    async def _seek(self, known: ChannelListing, number: int, offset: int, timestamp_ms: int) -> int:
        request = ch.SeekChannelRequest(
            topic_id=known.topic_id,
            channel=known.channel,
            channel_id=known.channel_id,
            partition=number,
            offset=offset,
            timestamp_ms=timestamp_ms,
        )
        where = PartitionId(known.topic_id, number)
        reply = await self._caller.to_leader(where, methods.SEEK_CHANNEL, request, once=True)
        return reply.offset


def _place(to: str | int) -> int:
    """Where a channel goes on, as requests have it. Raises `ConfigError`."""
    if isinstance(to, str):
        if to not in _ENDS:
            raise errors.ConfigError("`to` is earliest, latest, or an offset of 0 or above", given=ascii(to)[:66])
        return _ENDS[to]
    return whole_number("to", to)


def _last_word(claim: ch.ClaimRequest) -> ch.SettleRequest:
    """The settlement with which the worker of a claim leaves."""
    return ch.SettleRequest(
        topic_id=claim.topic_id,
        channel=claim.channel,
        channel_id=claim.channel_id,
        worker_id=claim.worker_id,
        leaves=True,
    )


def _listing(item: ch.Channel) -> ChannelListing:
    options: dict[str, Any] = {name: getattr(item.options, name) for name in CHANNEL_OPTIONS}
    return ChannelListing(
        item.topic,
        item.topic_id,
        item.channel,
        item.channel_id,
        ChannelOptions(**options),
        item.paused,
        item.start_timestamp_ms,
        item.created_ms,
    )


def _state(item: ch.ChannelPartition) -> ChannelPartitionState:
    if item.HasField("error"):
        return ChannelPartitionState(item.partition, from_detail(item.error))
    return ChannelPartitionState(
        item.partition,
        None,
        item.leader_epoch,
        item.settled_before,
        item.end_offset,
        item.depth,
        item.in_flight,
        item.in_transaction,
        item.waiting,
        item.delivered,
        item.redelivered,
        item.acknowledged,
        item.dead,
        tuple(
            ChannelWorker(w.worker_id, w.client, w.max_in_flight, w.in_flight, w.idle_ms)
            for w in sorted(item.workers, key=lambda w: w.worker_id)
        ),
    )
