"""The leader's side of replication: one link per follower broker and flush mode, for all partitions led here.

Rule 1: a link gathers the waiting data of all its partitions into one request, and has at most `replicate_in_flight_max`
        requests in flight. Their order is the transport's promise; the follower checks it by offset.
Rule 2: a session begins with a hello, continues with truncations until last epochs agree, and then streams. Any error,
        lost answer or silence ends it; the next one has a greater number, and only its acknowledgements count. Nothing is
        acknowledged before the stream's first message: with it a follower notes the epoch (`reached_epoch`).
Rule 3: fsync partitions have a link of their own, so that no other partition waits for the follower's disk.
Rule 4: the high watermark goes with the next data, or alone after `watermark_push_delay_ms`. A question whether this broker
        still leads (`leadership_confirmation`) is answered when the next message is accepted; without data an empty one.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from enum import Enum
from typing import Protocol

from oncelog.errors import ErrorCode, OffsetOutOfRangeError, OncelogError, StorageError
from oncelog.ports import Transport
from oncelog.trace import tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import BrokerRef, Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.replication.sessions import FollowerEnd, Reset, Stream, Truncate, next_step
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_BASE_AND_LENGTH = struct.Struct("<qi")
_DELTA = struct.Struct("<i")
_DELTA_AT = 52


class State(Enum):
    """The state of a session."""

    HELLO = 1
    TRUNCATE = 2
    PREPARE = 3
    RESET = 4
    ASKED = 5
    STREAM = 6


class Feed:
    """One partition's session with one follower."""

    __slots__ = (
        *("leadership", "next_offset", "ref", "retry", "sent_question", "sent_watermark", "session", "snapshot"),
        *("state", "to"),
    )

    def __init__(self, leadership: Leadership, ref: BrokerRef) -> None:
        self.leadership = leadership
        self.ref = ref
        self.state = State.HELLO
        self.session = 0
        self.snapshot: bytes | None = None
        self.next_offset = 0
        self.sent_watermark = -1
        self.sent_question = 0
        self.to = 0
        self.retry = False

    def restart(self) -> None:
        """Ends the session: late answers do not count. The next message is a hello."""
        self.state = State.HELLO
        self.session = 0
        self.snapshot = None
        self.sent_question = 0

    @property
    def has_news(self) -> bool:
        """True when there is data, a question or a high watermark that the follower was not sent."""
        if self.state is State.STREAM:
            log_end = self.leadership.log.log_end_offset
            is_asked = self.sent_question < self.leadership.confirming.asked
            return is_asked or self.next_offset < log_end or self.sent_watermark < self.leadership.high_watermark
        return self.state not in (State.ASKED, State.PREPARE)

    def item(self, room: int) -> tuple[pb.ReplicatePartition, Buffer]:
        """Makes the next message of this session, with at most about `room` bytes. Raises `OncelogError`."""
        leadership = self.leadership
        item = pb.ReplicatePartition(
            topic_id=leadership.partition.topic_id,
            partition=leadership.partition.partition,
            leader_epoch=leadership.epoch,
            high_watermark=leadership.high_watermark,
            log_start_offset=leadership.log.log_start_offset,
            fsync=leadership.topic_config.fsync,
        )
        bulk: Buffer = b""
        if self.state is State.STREAM:
            bulk = self._data(item, room)
            self.sent_watermark = item.high_watermark
        else:
            bulk = self._ask(item)
            self.state = State.ASKED
        item.session = self.session
        item.length = len(bulk)
        self.sent_question = leadership.confirming.asked
        return item, bulk

    def _data(self, item: pb.ReplicatePartition, room: int) -> Buffer:
        log = self.leadership.log
        item.base_offset = self.next_offset
        item.epoch_start_offset = self.leadership.replicas.epoch_start
        if self.next_offset >= log.log_end_offset:
            return b""
        data = log.read(max(self.next_offset, log.log_start_offset), max(room, 1), log.log_end_offset)
        first, next_offset = (
            span_of(data) if len(data) else (-1, -1)
        )  # empty: everything was deleted, up to the log end
        if first != item.base_offset:
            raise OffsetOutOfRangeError("the log no longer has what comes next", offset=item.base_offset)
        self.next_offset = next_offset
        return data

    def _ask(self, item: pb.ReplicatePartition) -> Buffer:
        if self.state is State.HELLO:
            self.session = self.leadership.next_session()
            self.leadership.start_session(self.ref, self.session)
            item.hello = True
        elif self.state is State.TRUNCATE:
            item.truncate_to = self.to
        else:
            assert self.state is State.RESET, "the other states say nothing"
            assert self.snapshot is not None, "a reset was prepared"
            item.reset = True
            item.base_offset = self.to
            return self.snapshot
        return b""

    async def prepare_reset(self) -> None:
        """Takes a snapshot of the producer state at the first batch of this log (hole 23). Raises `OncelogError`."""
        session, log = self.session, self.leadership.log
        data = log.read(log.log_start_offset, 1, log.log_end_offset)
        at = span_of(data)[0] if len(data) else log.log_start_offset
        snapshot = await log.producer_snapshot_at(at)
        if self.session == session and self.state is State.PREPARE:
            self.to, self.snapshot, self.state = at, snapshot, State.RESET

    def answered(self, answer: pb.ReplicatePartitionReply) -> None:
        """Takes the follower's answer to a message of this session."""
        if self.state is State.STREAM:
            self.leadership.acknowledge(self.ref, self.session, answer.log_end_offset)
            return
        log = self.leadership.log
        told = FollowerEnd(answer.log_end_offset, answer.last_epoch, answer.last_epoch_start)
        if self.snapshot is not None and told.last_epoch < 0 and told.log_end_offset == self.to:
            step: Stream | Truncate | Reset = Stream(self.to)
        else:
            step = next_step(told, log.epochs.end_offset_for, log.log_start_offset, log.log_end_offset)
        self.snapshot = None
        if isinstance(step, Stream):
            self.state = State.STREAM
            self.next_offset = step.next_offset
            self.sent_watermark = -1
        elif isinstance(step, Truncate):
            self.state, self.to = State.TRUNCATE, step.to
        else:
            self.state = State.PREPARE


class LinkHost(Protocol):
    """The services of the broker that a link uses."""

    @property
    def view(self) -> ClusterView: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def transport(self) -> Transport: ...
    @property
    def tracer(self) -> tracing.Tracer | None: ...
    @property
    def bugs(self) -> Bugs: ...
    def broken(self, leadership: Leadership) -> None:
        """See `leadership.Host`."""
        ...

    def me(self) -> BrokerRef:
        """This broker's incarnation."""
        ...

    def fenced(self, leadership: Leadership, error: OncelogError) -> None:
        """Acts on a follower that knows a newer epoch."""
        ...

    def unreachable(self, ref: BrokerRef, error: OncelogError) -> None:
        """Acts on a broker that does not answer."""
        ...


class FollowerLink:
    """The sessions of all partitions of one flush mode with one follower broker."""

    def __init__(self, host: LinkHost, broker_id: int, tasks: TaskOwner, name: str) -> None:
        self._host = host
        self._tasks = tasks
        self.broker_id = broker_id
        self._tracer = host.tracer
        self._feeds: dict[Leadership, Feed] = {}
        self._dirty: dict[Feed, None] = {}
        self._quiet: dict[Feed, None] = {}
        self._idle: deque[asyncio.Future[None]] = deque()
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        for number in range(host.config.replicate_in_flight_max):
            tasks.spawn(self._work(), f"replicate-{broker_id}-{name}-{number}")

    # ------------------------------------------------------------ what to send

    def add(self, leadership: Leadership) -> None:
        """Starts to replicate a partition that has a replica on this follower."""
        entry = self._host.view.brokers.get(self.broker_id)
        feed = Feed(leadership, BrokerRef(self.broker_id, entry.mod_revision if entry is not None else 0))
        self._feeds[leadership] = feed
        self._mark(feed)

    def remove(self, leadership: Leadership) -> None:
        """Stops replicating a partition: this broker does not lead it any more."""
        feed = self._feeds.pop(leadership, None)
        if feed is not None:
            self._dirty.pop(feed, None)
            self._quiet.pop(feed, None)
            feed.restart()

    def appended(self, leadership: Leadership) -> None:
        """Sends new data."""
        feed = self._feeds.get(leadership)
        if feed is not None:
            self._mark(feed)

    def watermark_moved(self, leadership: Leadership) -> None:
        """Sends a new high watermark, with the next data or after a short delay."""
        feed = self._feeds.get(leadership)
        if feed is None or feed in self._dirty:
            return
        self._quiet[feed] = None
        if self._timer is None:
            delay_s = self._host.config.watermark_push_delay_ms / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._push_watermarks)

    def restart(self, leadership: Leadership) -> None:
        """Begins a new session, whatever the state of the old one."""
        feed = self._feeds.get(leadership)
        if feed is not None:
            feed.restart()
            self._mark(feed)

    def incarnation_is(self, ref: BrokerRef) -> None:
        """Begins new sessions with the follower's incarnation; those with an older one end."""
        for feed in self._feeds.values():
            if feed.ref != ref:
                feed.ref = ref
                feed.restart()
                self._mark(feed)

    def _push_watermarks(self) -> None:
        self._timer = None
        quiet, self._quiet = self._quiet, {}
        for feed in quiet:
            if feed.has_news:
                self._mark(feed)

    def _mark(self, feed: Feed) -> None:
        self._dirty[feed] = None
        self._wake()

    def _wake(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    # ------------------------------------------------------------ sending

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._dirty or self._paused or self.broker_id not in self._host.view.brokers:
                idle: asyncio.Future[None] = loop.create_future()
                self._idle.append(idle)
                await idle
                continue
            try:
                await self._send()
            except Exception as error:  # it is unknown how far it came: every session starts again
                self._host.bugs.met("task", error, f"feeding broker {self.broker_id}")
                self._back_off(list(self._feeds.values()))

    async def _send(self) -> None:
        address = self._host.view.address_of(self.broker_id)
        request, feeds, payload = self._gather()
        if not feeds:
            return
        if address is None or not request.follower.incarnation:
            self._back_off(feeds)
            return
        if self._tracer is not None:
            contexts = _contexts(request, feeds)
            if contexts or TRACEPARENT.get()[-3:] != tracing.UNRECORDED:
                tracing.work_for(contexts)
        sessions = [feed.session for feed in feeds]
        questions = [feed.sent_question for feed in feeds]
        if self._dirty:
            self._wake()
        timeout_ms = self._host.config.replicate_timeout_ms
        try:
            reply, _ = await methods.REPLICATE.call(self._host.transport, address, request, timeout_ms, payload)
        except OncelogError as error:
            self._lost(request, feeds, sessions, error)
            return
        for feed, session, question, answer in zip(feeds, sessions, questions, reply.partitions, strict=False):
            if feed.session == session and self._feeds.get(feed.leadership) is feed:
                self._answered(feed, question, answer)

    def _gather(self) -> tuple[pb.ReplicateRequest, list[Feed], Buffer]:
        """Gathers waiting messages into one request, for one incarnation of the follower."""
        request = pb.ReplicateRequest(leader=_ref(self._host.me()))
        room = self._host.config.replicate_max_bytes
        feeds: list[Feed] = []
        bulks: list[Buffer] = []
        ref: BrokerRef | None = None
        left: list[Feed] = []
        while self._dirty and (room > 0 or not feeds):
            feed = next(iter(self._dirty))
            del self._dirty[feed]
            if not feed.has_news:
                continue
            if ref is not None and feed.ref != ref:
                left.append(feed)
                continue
            try:
                item, bulk = feed.item(room)
            except OncelogError as error:
                _log.warning("cannot feed %s: %s", feed.leadership.partition, error)
                feed.restart()
                self._later(feed)
                continue
            ref = feed.ref
            room -= len(bulk)
            feeds.append(feed)
            request.partitions.append(item)
            if len(bulk):
                bulks.append(bulk)
            if feed.state is State.STREAM and feed.next_offset < feed.leadership.log.log_end_offset:
                left.append(feed)
        for feed in left:
            self._dirty[feed] = None
        if ref is not None:
            request.follower.CopyFrom(_ref(ref))
        return request, feeds, bulks[0] if len(bulks) == 1 else b"".join(bulks)

    def _answered(self, feed: Feed, question: int, answer: pb.ReplicatePartitionReply) -> None:
        if answer.HasField("error"):
            self._refused(feed, from_detail(answer.error))
            return
        try:
            feed.leadership.confirming.answered(self.broker_id, question)
            feed.answered(answer)
        except StorageError as error:
            _log.warning("cannot feed %s: %s", feed.leadership.partition, error)
            feed.restart()
            self._later(feed)
            return
        except Exception as error:  # in the leadership's own state, after the acknowledgement
            self._host.bugs.met("task", error, f"acknowledgement of {feed.leadership.partition}")
            self._host.broken(feed.leadership)
            return
        if feed.state is State.PREPARE:
            self._tasks.spawn(self._prepare_reset(feed), "prepare-reset")
        elif self._feeds.get(feed.leadership) is feed and feed.has_news:
            is_new = feed.sent_watermark < 0  # nothing is acknowledged before the stream's first message
            if feed.state is State.STREAM and not is_new and feed.next_offset >= feed.leadership.log.log_end_offset:
                self.watermark_moved(feed.leadership)
            else:
                self._mark(feed)

    async def _prepare_reset(self, feed: Feed) -> None:
        try:
            await feed.prepare_reset()
        except OncelogError as error:
            _log.warning("no snapshot for %s: %s", feed.leadership.partition, error)
            feed.restart()
            self._later(feed)
            return
        if self._feeds.get(feed.leadership) is feed:
            self._mark(feed)

    def _refused(self, feed: Feed, error: OncelogError) -> None:
        known = int(error.context.get("known_epoch", -1))
        if error.code == ErrorCode.FENCED_LEADER_EPOCH and known > feed.leadership.epoch:
            self._host.fenced(feed.leadership, error)
            return
        if error.code == ErrorCode.STORAGE_ERROR:
            feed.leadership.cannot_write(feed.ref, feed.session)
        feed.restart()
        self._later(feed)

    def _lost(self, request: pb.ReplicateRequest, feeds: list[Feed], sessions: list[int], error: OncelogError) -> None:
        """Begins new sessions after a pause: without an answer it is unknown whether the request arrived."""
        again = [f for f, session in zip(feeds, sessions, strict=True) if f.session == session]
        for feed in again:
            feed.restart()
        self._back_off(again)
        if error.code in (ErrorCode.NETWORK_ERROR, ErrorCode.REQUEST_TIMED_OUT):
            self._host.unreachable(BrokerRef(request.follower.broker_id, request.follower.incarnation), error)

    def _back_off(self, feeds: list[Feed]) -> None:
        for feed in feeds:
            if self._feeds.get(feed.leadership) is feed:
                feed.restart()
                self._dirty[feed] = None
        if not self._paused:
            self._paused = True
            delay_s = self._host.config.replicate_backoff_ms / 1000
            asyncio.get_running_loop().call_later(delay_s, self._resume)

    def _resume(self) -> None:
        self._paused = False
        self._wake()

    def _later(self, feed: Feed) -> None:
        """Tries one partition again after a while, without holding back the others."""
        if not feed.retry:
            feed.retry = True
            delay_s = self._host.config.replicate_backoff_ms / 1000
            asyncio.get_running_loop().call_later(delay_s, self._retry, feed)

    def _retry(self, feed: Feed) -> None:
        feed.retry = False
        if self._feeds.get(feed.leadership) is feed:
            self._mark(feed)


class Replicator:
    """All links of this broker to its followers."""

    def __init__(self, host: LinkHost, tasks: TaskOwner) -> None:
        self._host = host
        self._tasks = tasks
        self._links: dict[tuple[int, bool], FollowerLink] = {}
        self._of: dict[Leadership, tuple[FollowerLink, ...]] = {}

    def began(self, leadership: Leadership) -> None:
        """Starts to replicate to the followers of a leadership."""
        links = tuple(self._link(broker, leadership.topic_config.fsync) for broker in leadership.replicas.followers)
        self._of[leadership] = links
        for link in links:
            link.add(leadership)

    def ended(self, leadership: Leadership) -> None:
        """Stops replicating to the followers of a leadership."""
        for link in self._of.pop(leadership, ()):
            link.remove(leadership)

    def appended(self, leadership: Leadership) -> None:
        """Sends new data, or a question, to all followers."""
        for link in self._of.get(leadership, ()):
            link.appended(leadership)

    def watermark_moved(self, leadership: Leadership) -> None:
        """Sends the new high watermark to all followers."""
        for link in self._of.get(leadership, ()):
            link.watermark_moved(leadership)

    def restart(self, leadership: Leadership, broker_id: int) -> None:
        """Begins a new session with one follower."""
        for link in self._of.get(leadership, ()):
            if link.broker_id == broker_id:
                link.restart(leadership)

    def incarnation_is(self, ref: BrokerRef) -> None:
        """Begins new sessions with a broker that has a new incarnation."""
        for (broker_id, _), link in self._links.items():
            if broker_id == ref.broker_id:
                link.incarnation_is(ref)

    def _link(self, broker_id: int, fsync: bool) -> FollowerLink:
        link = self._links.get((broker_id, fsync))
        if link is None:
            name = "fsync" if fsync else "memory"
            link = self._links[broker_id, fsync] = FollowerLink(self._host, broker_id, self._tasks, name)
        return link


def _contexts(request: pb.ReplicateRequest, feeds: list[Feed]) -> list[str]:
    """Returns the traces for which data is sent. A high watermark alone belongs to none."""
    found: list[str] = []
    for place, feed in enumerate(feeds):
        if feed.leadership.traced.waiting and (item := request.partitions[place]).length:
            found += feed.leadership.traced.contexts(item.base_offset, feed.next_offset)
    return found


def span_of(batches: Buffer) -> tuple[int, int]:
    """Reads first offset and next offset of whole batches from their headers. `batches` is not empty."""
    position, end = 0, len(batches)
    first, length, delta = _first(batches, 0)
    base = first
    while position + length < end:
        position += length
        base, length, delta = _first(batches, position)
    return first, base + delta + 1


def _first(batches: Buffer, position: int) -> tuple[int, int, int]:
    base, length = _BASE_AND_LENGTH.unpack_from(batches, position)
    (delta,) = _DELTA.unpack_from(batches, position + _DELTA_AT)
    return base, length, delta


def _ref(ref: BrokerRef) -> types_pb2.BrokerRef:
    return types_pb2.BrokerRef(broker_id=ref.broker_id, incarnation=ref.incarnation)
