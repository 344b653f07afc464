"""A worker of a channel: it is given records one by one, and each is its own until it has settled it.

    async with client.worker("orders", channel="billing") as worker:
        async for message in worker:
            ...
            await message.ack()

Rule 1: a record that was acknowledged never comes again. One that was not comes again after `ack_wait_ms`, to whichever
        worker is free; so do those that the worker held when its process died, or when the leader of their partition changed.
Rule 2: a worker holds at most `max_in_flight` records of all brokers together, those included that have come and were not
        handed out yet. Whatever ends one makes room for the next.
Rule 3: only committed records come.
Rule 4: with `undecodable="reject"` a read hands out no record that a deserializer refuses: it is rejected, and counted.
"""

from __future__ import annotations

import re
from asyncio import Future, Lock
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Final, Generic

from oncelog import errors
from oncelog.client.home.closing import Closing
from oncelog.client.home.context import Context, now_ms
from oncelog.client.home.made_by_client import refuse_direct
from oncelog.client.home.pace import Pace
from oncelog.client.home.stays_here import StaysHere
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.client.work.channel_lookup import ChannelLookup
from oncelog.client.work.message import ChannelMessage, held_of, nack_of
from oncelog.client.work.observe.work_trace import work_observer
from oncelog.client.work.partitions import Partitions
from oncelog.client.work.receiving import Receiver
from oncelog.client.work.settling import Settler
from oncelog.client.work.touching import Toucher
from oncelog.config import REJECT, WorkerConfig
from oncelog.core.names import check_channel_name, check_topic_name
from oncelog.core.work.bounds import CLAIMED_MAX, PARTITION_MAX, claimed_offsets, whole_number
from oncelog.core.work.deadlines import ASKING_MS
from oncelog.core.work.settlements import ACK, REASON_CHARACTERS_MAX, Said, Verdict
from oncelog.trace import tracing
from oncelog.types import PartitionId
from oncelog.v1 import channel_pb2 as ch
from oncelog.v1 import coordinator_pb2 as co
from oncelog.value_types import K, V, fills_up
from oncelog.wire import methods

_NAME_CHARACTERS: Final = 31
_MOST_PER_TURN: Final = 500


@fills_up
class Worker(StaysHere, Generic[K, V]):
    """See the module. Made by `Client.worker(...)`; use it with `async with`."""

    def __new__(cls, *given: object, **options: object) -> Worker[K, V]:
        """Raises `TypeError` that says how it is made."""
        refuse_direct(Context, "oncelog.Client", "worker", given, options)
        return super().__new__(cls)

    def __init__(
        self, context: Context, metadata: Metadata, caller: Caller, topic: str, channel: str, config: WorkerConfig
    ) -> None:
        self.config = config
        """The options, checked."""
        self.topic = check_topic_name(topic)
        """The topic's name."""
        self.channel = check_channel_name(channel)
        """The channel's name."""
        name = re.sub(r"[^a-zA-Z0-9._-]", "-", context.config.client_id)[:_NAME_CHARACTERS]
        self.worker_id = f"{name}-{context.nonce()}"
        """The name of this worker at the brokers; new for each start."""
        self.expired_count = 0
        """How many records were acknowledged unseen, since their time to live had passed."""
        self.undecodable_count = 0
        """How many records were rejected unseen, since a deserializer refused them (`undecodable="reject"`)."""
        self._context = context
        self._metadata = metadata
        self._lookup = ChannelLookup(context, caller, topic, channel, config)
        self._closing = Closing(context.home)
        self._starting = Lock()
        self._is_started = False
        self._pace = Pace(_MOST_PER_TURN)
        self._observer = work_observer(context.tracer, config, topic, channel, context.config.client_id)

    # ------------------------------------------------------------ life

    async def start(self) -> Worker[K, V]:
        """Finds or makes the channel, and asks for records. Idempotent; whatever reads does this by itself.

        Raises `UnknownTopicError`, `UnknownChannelError` with `create=False`, and what the controller refuses.
        """
        self._check_open()
        async with self._starting:
            if not self._is_started:
                await self._start()
        return self

    async def _start(self) -> None:
        topic = await self._metadata.topic(self.topic, self._context.deadline_ms())
        channel = await self._lookup.find()
        if topic.topic_id != channel.topic_id:
            topic = await self._metadata.topic_known_as(self.topic, channel.topic_id, self._context.deadline_ms())
        self._check_open()  # it may have been closed meanwhile
        self._partitions = Partitions(self._context, self._metadata, self.topic, channel.topic_id, topic.partitions)
        self._receiver = Receiver(
            self._context, self.config, self._partitions, self._lookup, self.topic, self.worker_id
        )
        self._settler = Settler(
            self._context, self._partitions, self._receiver.holding, self.worker_id, self._receiver.over
        )
        background = tracing.background(self._context.tracer)
        self._toucher = Toucher(self._receiver.holding, self._settler, background)
        self._receiver.expire = self._expire
        self._receiver.release = self._release
        self._settler.begin(channel)
        self._channel = channel
        if self.config.auto_touch:
            self._receiver.on_taken = self._settler.on_refused = self._toucher.wake
            self._toucher.begin()
        self._receiver.begin(channel, self)
        self._is_started = True

    def _expire(self, messages: list[ChannelMessage]) -> None:
        self.expired_count += len(messages)
        self._say_unseen(messages, ACK)

    def _say_unseen(self, messages: Sequence[ChannelMessage], said: Said) -> Future[None]:
        """Says this about messages that no caller gets: if it fails there is no further word, so they are not touched."""
        records = held_of(messages)
        told = self._settler.say(records, said)
        for held in records:
            held.is_left = True
        return told

    def _release(self, messages: list[ChannelMessage]) -> Future[None]:
        return self._settler.say(held_of(messages), Said(Verdict.RELEASE))

    async def __aenter__(self) -> Worker[K, V]:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """True from `close` on."""
        return self._closing.is_begun

    @property
    def in_flight(self) -> int:
        """How many records this worker holds, those included that were not handed out yet."""
        return len(self._receiver.holding) if self._is_started else 0

    async def close(self, timeout_ms: int | None = None) -> None:
        """Waits until everything that was said is confirmed, and gives back what was not handed out. Idempotent.

        What was handed out and not settled comes again too, at once, and that delivery counts. It takes at most `timeout_ms`
        (None = `close_timeout_ms`); then what is left is given back by the brokers, when they miss the worker.
        """
        patience_ms = self._context.config.close_timeout_ms if timeout_ms is None else timeout_ms
        await self._closing.once(partial(self._close, patience_ms))

    async def _close(self, timeout_ms: int) -> None:
        if not self._is_started:
            return
        deadline_ms = now_ms() + timeout_ms
        try:
            await self._receiver.stop()
            await self._toucher.stop()
            await self._settler.drained(timeout_ms)
            self._receiver.inbox.take_all()
            held = [*self._receiver.holding]
            await self._settler.farewell(self._receiver.asked, held, max(1, deadline_ms - now_ms()))
        finally:
            await self._settler.stop()
            self._receiver.inbox.wake()

    def _check_open(self) -> None:
        if self._closing.is_begun:
            raise errors.IllegalStateError("the worker is closed: make another one with client.worker(...)")
        self._context.home.check()

    # ------------------------------------------------------------ reading

    def __aiter__(self) -> Worker[K, V]:
        return self

    async def __anext__(self) -> ChannelMessage[K, V]:
        while not self._closing.is_begun:
            found = await self._take(1, None)
            if found:
                return found[0]
        raise StopAsyncIteration

    async def getmany(
        self, max_records: int | None = None, timeout_ms: int | None = None
    ) -> list[ChannelMessage[K, V]]:
        """Up to `max_records` (None = all that are there) messages; waits for the first one, at most `timeout_ms`.

        The list is empty when none came; without a `timeout_ms` it waits until one comes. While records that have waited here
        are asked about it waits for up to half a second, also with a shorter `timeout_ms`. Raises what keeps records from
        coming: once what may pass, and `UnknownChannelError` or `UnknownTopicError` each time when channel or topic are gone.
        """
        limit = self.config.max_in_flight if max_records is None else max_records
        if limit < 1:
            raise errors.ConfigError("max_records is at least 1", given=limit)
        return await self._take(limit, timeout_ms)

    async def _take(self, most: int, timeout_ms: int | None) -> list[ChannelMessage[K, V]]:
        begun = self._observer.poll_begins()
        found = await self._found(most, timeout_ms)
        self._observer.polled(found, begun)
        return found

    async def _found(self, most: int, timeout_ms: int | None) -> list[ChannelMessage[K, V]]:
        if not self._is_started:
            await self.start()
        self._check_open()
        if not self._pace.may_go_on():
            await self._pace.give_turn()
            self._pace.polled()
        until_ms = None if timeout_ms is None else now_ms() + timeout_ms
        asked_until_ms = None if timeout_ms is None else now_ms() + max(timeout_ms, ASKING_MS)
        while not self._closing.is_begun:
            taken = self._receiver.inbox.take(most)
            if self.config.undecodable == REJECT:
                found = [message for message in taken if self._is_decoded(message)]
                if taken and not found:
                    continue  # there may be more behind what was rejected
            else:
                found = taken
            if found or not await self._has_news(until_ms, asked_until_ms):
                return found
            self._pace.had_turn()
        return []

    async def _has_news(self, until_ms: int | None, asked_until_ms: int | None) -> bool:
        """Waits for more. Records that have to be asked about get the time for that, however little the caller gives."""
        inbox = self._receiver.inbox
        is_asking = self._receiver.assurance.ask(inbox, self._settler)
        return await inbox.wait(asked_until_ms if is_asking else until_ms)

    def _is_decoded(self, message: ChannelMessage[K, V]) -> bool:
        """Rule 4."""
        try:
            _ = (message.key, message.value)
        except Exception as error:
            self.undecodable_count += 1
            text = f"undecodable: {type(error).__name__}: {error}"
            reason = text.encode(errors="backslashreplace").decode()[:REASON_CHARACTERS_MAX]
            rejected = self._say_unseen((message,), Said(Verdict.REJECT, reason=reason))
            rejected.add_done_callback(self._rejected)
            return False
        return True

    def _rejected(self, done: Future[None]) -> None:
        """Tells a reader why a record cannot be rejected; it is tried again, or comes again."""
        error = None if done.cancelled() else done.exception()
        if isinstance(error, errors.OncelogError) and not isinstance(error, errors.NotOwnerError):
            self._receiver.inbox.tell(error)

    def processing(self, message: ChannelMessage[K, V]) -> AbstractContextManager[None]:
        """`with worker.processing(message):` gives the work on a record a span, linked to where the record was created.

        With `trace_consumer_parent="message"` it becomes a part of the trace of the record instead. Without tracing it does
        nothing.
        """
        return self._observer.processing(message)

    async def claim(
        self,
        partition: int,
        *,
        offsets: Iterable[int] = (),
        min_idle_ms: int = 0,
        from_offset: int = 0,
        max_records: int = 100,
    ) -> list[ChannelMessage[K, V]]:
        """Takes records from other workers, or those that one has held for long: they are this worker's, in a new delivery.

        `offsets`: these; none = whatever was delivered at least `min_idle_ms` ago, from `from_offset` on, 1 to 1,000 records at
        most. They come on top of `max_in_flight`, those included that a deserializer refuses. A record that was never delivered
        is not taken, nor one in its last delivery (`max_deliveries`), nor what another worker was given or has touched less
        than a second ago. Raises `ConfigError` for a number out of its range. Redis: XCLAIM and XAUTOCLAIM.
        """
        request = ch.ClaimRequest(
            worker_id=self.worker_id,
            partition=whole_number("partition", partition, 0, PARTITION_MAX),
            offsets=claimed_offsets(offsets),
            min_idle_ms=whole_number("min_idle_ms", min_idle_ms),
            from_offset=whole_number("from_offset", from_offset),
            max_records=whole_number("max_records", max_records, 1, CLAIMED_MAX),
        )
        await self.start()
        leader = await self._leader(request.partition)
        channel = self._channel
        request.topic_id, request.channel, request.channel_id = channel.topic_id, channel.channel, channel.channel_id
        timeout_ms = self._context.config.request_timeout_ms
        asked_ms = now_ms()
        reply, payload = await methods.CLAIM.call(self._context.transport, leader, request, timeout_ms)
        return self._receiver.claimed(leader, reply, payload, asked_ms)

    async def _leader(self, partition: int) -> str:
        deadline_ms = self._context.deadline_ms()
        topic = await self._metadata.topic_with(self.topic, partition, deadline_ms)
        address = self._metadata.leader(PartitionId(topic.topic_id, partition)).address
        if address is None:
            await self._metadata.refresh(deadline_ms)
            address = self._metadata.leader(PartitionId(topic.topic_id, partition)).address
        if address is None:
            raise errors.LeaderNotAvailableError(topic=self.topic, partition=partition)
        return address

    # ------------------------------------------------------------ settling

    async def ack(self, messages: Iterable[ChannelMessage]) -> None:
        """Acknowledges all of them, in one call for each broker. Returns when that is durable.

        Raises the first failure, as `ChannelMessage.ack`; the others are done all the same. An `IllegalStateError`, as for one
        that was settled already, comes before any of them is done.
        """
        await self._say([*messages], ACK)

    async def nack(self, messages: Iterable[ChannelMessage], delay_ms: int | None = None) -> None:
        """Gives all of them back, as `ChannelMessage.nack`. Raises as `ack`."""
        await self._say([*messages], nack_of(delay_ms))

    async def _say(self, messages: Sequence[ChannelMessage], said: Said) -> None:
        held = held_of(messages)
        self._check_mine(messages)
        with self._observer.settling(messages, said.verdict):
            await self._settler.say(held, said)

    async def _acknowledge_in(self, messages: Sequence[ChannelMessage], name: co.TransactionName) -> None:
        self._check_mine(messages)
        with self._observer.settling(messages, Verdict.ACK):
            await self._settler.acknowledge_in(held_of(messages), name)

    def _check_mine(self, messages: Sequence[ChannelMessage]) -> None:
        self._check_open()
        if any(message._worker is not self for message in messages):
            raise errors.IllegalStateError("a message is settled by the worker that handed it out")
