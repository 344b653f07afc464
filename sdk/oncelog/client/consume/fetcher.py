"""Keeps fetched batches ready for a consumer: long polls to every leader, pipelined with the consumer's own work.

Rule 1: a partition has at most one fetch on its way; the next begins as soon as an answer is buffered and there is room.
Rule 2: everything from a leader that may be fetched travels in one call; several calls may be parked at one leader.
Rule 3: an answer counts only for the position that it was asked for (generation), and not from a deposed leader.
Rule 4: a failure that will not pass, or has not passed for `default_api_timeout_ms`, is buffered like data and raised once to
        the reader; then it is tried again.
Rule 5: an answer that breaks the protocol (`core/consume/fetch_answer.py`) is such a failure, and nothing of it is used.
Rule 6: a consumer that names its rack asks a follower there instead of the leader, as long as that one answers
        (`core/consume/near_replica.py`).
Rule 7: a defect of ours is such a failure too, of the partitions that met it: as one was asked for, in a call, or its answer.
Rule 8: each fetch says in which leader epoch the reader read what lies before. When the log has lost some of that, the reader
        goes on where the loss begins (KIP-320): what took the places of the lost records is not passed over.
Rule 9: a partition's answer is as large as its share of `max_buffered_bytes` at most, beside one batch: so a reader of many
        partitions that are far behind holds twice as much of all of them, and not `max_partition_fetch_bytes` of each.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.metadata import Metadata
from oncelog.client.routing.offset_lookup import isolation
from oncelog.config import ConsumerConfig
from oncelog.core.causes import because, for_caller
from oncelog.core.consume.consumer import Aborted, AbortedByName, Cursor, by_name
from oncelog.core.consume.fetch_answer import Bounds, check_bounds, check_extent
from oncelog.core.consume.near_replica import Replica
from oncelog.trace import tracing
from oncelog.types import Buffer, TopicPartition
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

_log = logging.getLogger(__name__)
_MAX_CALLS_PER_LEADER = 8
_CROWDED_CALLS = 4
_CROWDED_WAIT_MS = 100
"""With many parked calls to one leader, new ones come back sooner, so that they are put together again."""
_FOLLOWER_PATIENCE_MS = 5_000
"""A follower that is silent for so long beyond its long poll is given up: the leader has the same records."""
_LEAST_WAIT_MS = 100
"""A leader that answers a long poll with nothing at once is not asked again at once."""

_DEFECT = "a defect of ours keeps this partition from being read here: if it stays, seek past its position"


class Fetched:
    """One partition's part of an answer, or an error instead."""

    __slots__ = ("aborted", "cursor", "data", "error", "generation", "leader_epoch", "next_offset", "offset")

    def __init__(
        self,
        cursor: Cursor,
        data: Buffer = b"",
        next_offset: int = -1,
        aborted: AbortedByName | None = None,
        leader_epoch: int = -1,
        error: errors.OncelogError | None = None,
    ) -> None:
        self.cursor = cursor
        self.generation = cursor.generation
        self.data = data
        self.offset = cursor.fetch_offset  # that was asked for
        self.next_offset = next_offset
        self.aborted = aborted or {}
        self.leader_epoch = leader_epoch
        self.error = error

    @property
    def is_current(self) -> bool:
        """False after a seek or a new assignment."""
        return self.generation == self.cursor.generation


def _share(max_bytes: int, partitions: int) -> int:
    """How many bytes each of so many partitions may hold in memory. `max_bytes`: all of them together."""
    return max(1, max_bytes // max(1, partitions))


class Fetcher:
    """See the module. One per consumer. Its methods are small steps around one buffer, on one event loop."""

    def __init__(self, context: Context, metadata: Metadata, config: ConsumerConfig) -> None:
        self._context = context
        self._metadata = metadata
        self._config = config
        self._isolation = isolation(config.isolation_level)
        self._buffer: deque[Fetched] = deque()
        self._news = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._calls: dict[str, int] = {}
        self._is_kicked = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._turn = context.random.getrandbits(16) if config.client_rack else 0
        self._background = tracing.background(context.tracer)
        self.cursors: dict[TopicPartition, Cursor] = {}

    # ------------------------------------------------------------ for the consumer

    def assign(self, cursors: list[Cursor]) -> None:
        """Replaces the assignment."""
        for cursor in self.cursors.values():
            cursor.unset()
        self.cursors = {cursor.partition: cursor for cursor in cursors}
        self._buffer.clear()
        self.kick()

    def add(self, cursor: Cursor) -> None:
        """One partition more."""
        self.cursors[cursor.partition] = cursor
        self.wake()

    def remove(self, partition: TopicPartition) -> None:
        """Reads this one no more; what is buffered of it no longer counts."""
        self.cursors.pop(partition).unset()

    def wake(self) -> None:
        """Has the readers that wait look again."""
        self._news.set()

    def kick(self) -> None:
        """Something changed: look for what may be fetched."""
        if not self._is_kicked and not self._is_closed:
            self._is_kicked = True
            asyncio.get_running_loop().call_soon(self._look)

    def peek(self) -> Fetched | None:
        """The oldest answer that still counts and whose partition is not paused. The order stays, also of what is paused."""
        first = self._buffer[0] if self._buffer else None
        if first is None or (first.is_current and not first.cursor.is_paused):
            return first
        self._buffer = deque(fetched for fetched in self._buffer if fetched.is_current)
        return next((fetched for fetched in self._buffer if not fetched.cursor.is_paused), None)

    def pop(self, fetched: Fetched) -> None:
        """The consumer is done with this answer."""
        self._buffer.remove(fetched)
        cursor = fetched.cursor
        if fetched.is_current:
            cursor.buffered_bytes -= len(fetched.data)
            if fetched.error is not None:
                cursor.is_fetching = False
            self.kick()

    async def wait(self, timeout_ms: int) -> None:
        """Returns on news, or after this long."""
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._news.wait()

    async def close(self) -> None:
        """Ends all calls."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            self._buffer.clear()
            self._news.set()

    # ------------------------------------------------------------ calling

    def _look(self) -> None:
        self._is_kicked = False
        if self._is_closed:
            return
        now = now_ms()
        if any(cursor.lacks_position(now) for cursor in self.cursors.values()):
            self._news.set()  # its reader looks for one
        groups: dict[tuple[str, bool], list[Cursor]] = {}
        throttled: list[int] = []
        share = _share(self._config.max_buffered_bytes, len(self.cursors))
        for cursor in (cursor for cursor in self.cursors.values() if cursor.may_fetch(now, share)):
            try:
                address, is_follower = self._source(cursor, now)
            except Exception as defect:
                self.meets(cursor, for_caller(_DEFECT, defect))
                continue
            if not address:
                self._try_later(cursor, errors.LeaderNotAvailableError(), now)
            elif (until := self._context.throttles.until_ms(address, methods.FETCH.name, now)) > 0:
                throttled.append(until)
            elif self._calls.get(address, 0) < _MAX_CALLS_PER_LEADER:
                groups.setdefault((address, is_follower), []).append(cursor)
        for (address, is_follower), cursors in groups.items():
            self._start(address, is_follower, cursors)
        self._set_timer(now, throttled)

    def _source(self, cursor: Cursor, now: int) -> tuple[str, bool]:
        """The address to ask, and whether that is a follower's; empty without a leader."""
        known = self._metadata.leader(cursor.id)
        if not self._config.client_rack:
            return known.address or "", False
        leader = Replica(known.address or "", known.rack)
        turn = self._turn + cursor.id.partition
        choice = cursor.source.choose(self._config.client_rack, leader, known.followers, now, turn)
        if choice.is_missed:
            cursor.source.refused(now)
            self._metadata.request_refresh()
        return choice.address, choice.is_follower

    def _set_timer(self, now: int, throttled: list[int]) -> None:
        later = [cursor.retry_at_ms for cursor in self.cursors.values() if cursor.retry_at_ms > now] + throttled
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if later:
            self._timer = asyncio.get_running_loop().call_later((min(later) - now + 1) / 1000, self.kick)

    def _start(self, address: str, is_follower: bool, cursors: list[Cursor]) -> None:
        for cursor in cursors:
            cursor.is_fetching = True
            cursor.source.is_follower = is_follower
        self._calls[address] = self._calls.get(address, 0) + 1
        asked = [(cursor, cursor.generation) for cursor in cursors]
        background = None if self._background is None else self._background.copy()
        work = self._fetch(address, is_follower, asked)
        task = asyncio.get_running_loop().create_task(work, name="oncelog-fetch", context=background)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._done(address, done))

    def _done(self, address: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._calls[address] -= 1
        self.kick()
        if not task.cancelled():
            task.result()  # a defect of ours goes to the loop's exception handler

    async def _fetch(self, address: str, is_follower: bool, asked: list[tuple[Cursor, int]]) -> None:
        most_ms = _CROWDED_WAIT_MS if self._calls[address] > _CROWDED_CALLS else self._config.fetch_max_wait_ms
        wait_ms = min(self._config.fetch_max_wait_ms, most_ms)
        patience_ms = self._context.config.request_timeout_ms
        timeout_ms = wait_ms + (min(patience_ms, _FOLLOWER_PATIENCE_MS) if is_follower else patience_ms)
        asked_ms = now_ms()
        try:
            request = self._request([cursor for cursor, _ in asked], wait_ms, is_follower)
            reply, payload = await methods.FETCH.call(self._context.transport, address, request, timeout_ms)
            self._take(address, asked, request, reply, memoryview(payload))
        except Exception as error:
            for cursor, generation in asked:
                if cursor.generation == generation:
                    self._failed(cursor, for_caller(_DEFECT, error))
            return
        least_ms = min(wait_ms, _LEAST_WAIT_MS)
        if not len(payload) and now_ms() - asked_ms < least_ms:
            for cursor, _ in asked:
                if not (is_follower and cursor.source.refusals):  # else the leader is asked at once
                    cursor.retry_at_ms = max(cursor.retry_at_ms, now_ms() + least_ms)

    def _request(self, cursors: list[Cursor], wait_ms: int, is_follower: bool) -> pb.FetchRequest:
        request = pb.FetchRequest(
            isolation_level=self._isolation,
            max_wait_ms=wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
            skip_lost_transactions=self._config.skip_lost_transactions,
            follower_may_answer=is_follower,
        )
        share = _share(self._config.max_buffered_bytes, len(self.cursors))
        for cursor in cursors:
            request.partitions.add(
                topic_id=cursor.id.topic_id,
                partition=cursor.id.partition,
                fetch_offset=cursor.fetch_offset,
                max_bytes=min(self._config.max_partition_fetch_bytes, share),
                leader_epoch=self._metadata.leader(cursor.id).leader_epoch,
                read_epoch=cursor.fetch_epoch if cursor.fetch_epoch >= 0 else None,
            )
        return request

    # ------------------------------------------------------------ answers

    def _take(
        self,
        address: str,
        asked: list[tuple[Cursor, int]],
        request: pb.FetchRequest,
        reply: pb.FetchReply,
        payload: memoryview,
    ) -> None:
        parts = _parts(reply, payload, len(asked))
        for (cursor, generation), question in zip(asked, request.partitions, strict=True):
            if cursor.generation != generation:
                continue
            found = parts.get(cursor.id)
            try:
                if found is None:
                    raise errors.InvalidResponseError(
                        "the broker's answer does not fit the question", broker=address, offset=question.fetch_offset
                    )
                self._take_one(address, cursor, question, *found)
            except Exception as error:
                self._failed(cursor, for_caller(_DEFECT, error))

    def _take_one(
        self,
        address: str,
        cursor: Cursor,
        question: pb.FetchPartition,
        item: pb.FetchedPartition,
        data: memoryview,
    ) -> None:
        """Raises why the answer is of no use."""
        if item.HasField("error"):
            raise from_detail(item.error)
        if item.leader_epoch < cursor.leader_epoch:
            raise errors.NotLeaderError("a deposed leader answered")
        if 0 <= question.leader_epoch != item.leader_epoch:
            raise errors.InvalidResponseError(
                "the leader answered for another leader epoch",
                leader_epoch=question.leader_epoch,
                answered=item.leader_epoch,
            )
        if cursor.source.answered(address):
            cursor.forget_bounds()
        told = Bounds(item.leader_epoch, item.high_watermark, item.last_stable_offset)
        check_bounds(cursor.bounds, told)
        is_committed = self._isolation == types_pb2.ISOLATION_LEVEL_READ_COMMITTED
        limit = told.last_stable_offset if is_committed else told.high_watermark
        check_extent(cursor.fetch_offset, item.next_offset, len(data), limit)
        self._arrived(cursor, item, data)

    def _arrived(self, cursor: Cursor, item: pb.FetchedPartition, data: memoryview) -> None:
        cursor.is_fetching = False
        cursor.source.was_right()
        cursor.failures, cursor.failing_since_ms = 0, -1
        cursor.leader_epoch = item.leader_epoch
        cursor.high_watermark = item.high_watermark
        cursor.last_stable_offset = item.last_stable_offset
        cursor.log_start_offset = item.log_start_offset
        if not len(data):
            return
        aborted = by_name(
            Aborted(a.txn_producer_id, a.txn_no, a.all, frozenset(a.winners), a.data_loss) for a in item.aborted
        )
        self._buffer.append(Fetched(cursor, data, item.next_offset, aborted, item.leader_epoch))
        cursor.fetched(len(data), item.next_offset, item.leader_epoch)
        self._news.set()

    def _failed(self, cursor: Cursor, error: errors.OncelogError) -> None:
        cursor.is_fetching = False
        if cursor.source.is_follower:
            cursor.source.refused(now_ms())
            if not isinstance(error, errors.InvalidResponseError | errors.IllegalStateError):
                self._look_again_after(error)
                self.kick()  # the leader has the last word
                return
        if isinstance(error, errors.OffsetOutOfRangeError) and self._config.auto_offset_reset != "none":
            cursor.seek(_goes_on_at(cursor, error))
            self._news.set()
        else:
            self.meets(cursor, error)

    def meets(self, cursor: Cursor, error: errors.OncelogError) -> None:
        """Tries again later, or has the reader get the error: rules 4 and 5. Also of a position that is not found."""
        if isinstance(error, errors.UnknownTopicError):
            self._check_topic(cursor)
        elif isinstance(error, errors.InvalidResponseError | errors.IllegalStateError):
            cursor.forget_bounds()
            self._back_off(cursor, error, now_ms())
            self._deliver(cursor, error)
        elif error.retriable:
            self._try_later(cursor, error, now_ms())
        else:
            self._deliver(cursor, error)

    def again(self, cursor: Cursor, error: errors.OncelogError) -> None:
        """Asks again from the position on, after a pause, since what was fetched cannot be used."""
        if cursor.source.is_follower:
            cursor.source.refused(now_ms())
        cursor.seek(cursor.position)
        cursor.forget_bounds()
        self._back_off(cursor, error, now_ms())
        self.kick()

    def _deliver(self, cursor: Cursor, error: errors.OncelogError) -> None:
        cursor.is_fetching = True  # until a reader has seen it
        error = _alone(error)
        error.context.setdefault("topic", cursor.partition.topic)
        error.context.setdefault("partition", str(cursor.partition.partition))
        self._buffer.append(Fetched(cursor, next_offset=cursor.fetch_offset, error=error))
        self._news.set()

    def _try_later(self, cursor: Cursor, error: errors.OncelogError, now: int) -> None:
        """Quietly for `default_api_timeout_ms`; then the reader learns why nothing comes."""
        self._back_off(cursor, error, now)
        if cursor.failing_since_ms < 0:
            cursor.failing_since_ms = now
        failing_ms = now - cursor.failing_since_ms
        if failing_ms >= self._context.config.default_api_timeout_ms:
            cursor.failing_since_ms = -1
            error.context["failing_for_ms"] = str(failing_ms)
            self._deliver(cursor, error)

    def _back_off(self, cursor: Cursor, error: errors.OncelogError, now: int) -> None:
        cursor.failures += 1
        cursor.retry_at_ms = now + self._context.delay_ms(cursor.failures, error.retry_after_ms)
        self._look_again_after(error)

    def _look_again_after(self, error: errors.OncelogError) -> None:
        """Asks for metadata when the error says that what is known of the cluster may be old."""
        lost = isinstance(error, errors.NetworkError | errors.RequestTimedOutError)
        if lost or error.action is errors.ErrorAction.REFRESH:
            self._metadata.request_refresh().add_done_callback(lambda _: self.kick())

    def _check_topic(self, cursor: Cursor) -> None:
        """Deleted, or only not known yet at that broker? Metadata tells."""
        self._try_later(cursor, errors.LeaderNotAvailableError(), now_ms())
        generation = cursor.generation

        def look(task: asyncio.Task[None]) -> None:
            is_fresh = not task.cancelled() and task.exception() is None
            gone = is_fresh and self._metadata.topic_name(cursor.id.topic_id) is None
            if gone and self._metadata.newer_topic(cursor.partition.topic, cursor.id.topic_id) is not None:
                self.wake()  # it was created again: see `Following`
            elif gone and cursor.generation == generation and not cursor.is_fetching and not self._is_closed:
                self._deliver(cursor, errors.UnknownTopicError.named(cursor.partition.topic))

        self._metadata.request_refresh().add_done_callback(look)


def _goes_on_at(cursor: Cursor, error: errors.OffsetOutOfRangeError) -> int:
    """Returns where the reader goes on: where a loss begins (rule 8), or -1 for where `auto_offset_reset` says."""
    lost_from = error.context.get("lost_from", "")
    if not lost_from.isdecimal():
        return -1
    _log.warning("%s-%d: %s (this reader does so now)", *cursor.partition, error.message)
    cursor.lost_from = int(lost_from)
    return min(cursor.position, cursor.lost_from)


def _parts(
    reply: pb.FetchReply, payload: memoryview, asked: int
) -> dict[tuple[str, int], tuple[pb.FetchedPartition, memoryview]]:
    """The answer by partition; empty when it does not fit a question about so many."""
    parts: dict[tuple[str, int], tuple[pb.FetchedPartition, memoryview]] = {}
    start = 0
    for item in reply.partitions:
        if item.length < 0:
            return {}
        parts[item.topic_id, item.partition] = (item, payload[start : start + item.length])
        start += item.length
    return parts if start == len(payload) and len(reply.partitions) == asked else {}


def _alone(error: errors.OncelogError) -> errors.OncelogError:
    """The same error for one reader."""
    found = errors.error_for(int(error.code), error.message, error.retry_after_ms, error.context)
    return because(found, error.__cause__)
