"""The link of a leader to one follower broker: gathers what all its partitions have to send, and takes the answers.

Rule 1: a link gathers the waiting data of all its partitions into one request, and has at most `replicate_in_flight_max`
        requests in flight. Their order is the transport's promise; the follower checks it by offset.
Rule 2: a session (`core/replication/replication_session.py`) ends by any error, lost answer or silence; the next one has a
        greater number, and only its acknowledgements count.
        Sessions begin together, and those that the follower refuses are tried again a few at a time
        (`core/replication/beginnings.py`).
        Data for a replica that is being moved may have to wait (`moved_replicas`), and holds up no other partition.
Rule 3: the high watermark goes with the next data, or alone after `watermark_push_delay_ms`; at once to a follower at which
        readers wait. A question whether this broker still leads (`leadership_confirmation`) is answered when the next
        message is accepted; without data an empty one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

from oncelog.errors import OncelogError, StorageError
from oncelog.ports import Transport
from oncelog.types import BrokerRef, Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.replication.beginnings import Beginnings
from oncelog_partition_leader.core.replication.replication_session import Next, Refusal, is_silence, refusal
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.replication.feed import Feed
from oncelog_partition_leader.replication.moved_replicas import Allowance, MovedReplicas
from oncelog_partition_leader.replication.observe.observer import BrokerObserver
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_NEVER_MS: Final = -1


class LinkHost(Protocol):
    """The services of the broker that a link uses."""

    @property
    def view(self) -> ClusterView: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def transport(self) -> Transport: ...
    @property
    def observer(self) -> BrokerObserver: ...
    @property
    def bugs(self) -> Bugs: ...
    @property
    def moved(self) -> MovedReplicas: ...
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
    """The sessions of all partitions of one flush mode with one follower broker.

    It has 23 methods of a few lines: one for each event of a leadership, of a session, and of the pauses between.
    """

    def __init__(self, host: LinkHost, broker_id: int, tasks: TaskOwner, name: str) -> None:
        self._host = host
        self._tasks = tasks
        self.broker_id = broker_id
        self._feeds: dict[Leadership, Feed] = {}
        self._dirty: dict[Feed, None] = {}
        self._quiet: dict[Feed, None] = {}
        self._idle: deque[asyncio.Future[None]] = deque()
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._beginnings: Beginnings[Feed] = Beginnings(host.config.replicate_backoff_ms)
        self._begins_ms = _NEVER_MS
        """When a timer looks at the sessions that wait to begin."""
        for number in range(host.config.replicate_in_flight_max):
            tasks.spawn(self._work(), f"replicate-{broker_id}-{name}-{number}")

    # ------------------------------------------------------------ what to send

    def add(self, leadership: Leadership) -> None:
        """Starts to replicate a partition that has a replica on this follower."""
        entry = self._host.view.brokers.get(self.broker_id)
        feed = Feed(leadership, BrokerRef(self.broker_id, entry.mod_revision if entry is not None else 0))
        self._feeds[leadership] = feed
        self._beginnings.add(feed)
        self._begin_soon()

    def remove(self, leadership: Leadership) -> None:
        """Stops replicating a partition: this broker does not lead it any more."""
        feed = self._feeds.pop(leadership, None)
        if feed is not None:
            self._dirty.pop(feed, None)
            self._quiet.pop(feed, None)
            feed.session.over()

    def appended(self, leadership: Leadership) -> None:
        """Sends new data."""
        feed = self._feeds.get(leadership)
        if feed is not None:
            self._mark(feed)

    def watermark_moved(self, leadership: Leadership) -> None:
        """Sends a new high watermark, with the next data or after a short delay; at once where readers wait for it."""
        feed = self._feeds.get(leadership)
        if feed is None or feed in self._dirty:
            return
        if feed.readers_wait:
            self._mark(feed)
            return
        self._quiet[feed] = None
        if self._timer is None:
            delay_s = self._host.config.watermark_push_delay_ms / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._push_watermarks)

    def restart(self, leadership: Leadership) -> None:
        """Begins a new session, whatever the state of the old one."""
        feed = self._feeds.get(leadership)
        if feed is not None:
            feed.session.over()
            self._mark(feed)

    def incarnation_is(self, ref: BrokerRef) -> None:
        """Begins new sessions with the follower's incarnation; those with an older one end."""
        for feed in self._feeds.values():
            if feed.ref != ref:
                feed.ref = ref
                feed.refusals = 0
                feed.session.over()
                self._later(feed)  # a few at a time: a process that has just begun opens its logs, and refuses

    def _push_watermarks(self) -> None:
        self._timer = None
        quiet, self._quiet = self._quiet, {}
        for feed in quiet:
            if feed.has_news:
                self._mark(feed)

    def _begin(self) -> None:
        """Begins the sessions that are due, and looks again when others are."""
        for feed in self._beginnings.due(_now_ms()):
            self._retry(feed)
        self._begin_soon()

    def _begin_soon(self) -> None:
        now_ms = _now_ms()
        next_ms = self._beginnings.next_ms(now_ms)
        if next_ms is not None and not now_ms <= self._begins_ms <= next_ms:
            self._begins_ms = next_ms
            asyncio.get_running_loop().call_later((next_ms - now_ms) / 1000, self._begin_at, next_ms)

    def _begin_at(self, at_ms: int) -> None:
        if self._begins_ms == at_ms:
            self._begins_ms = _NEVER_MS
        self._begin()

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
        self._host.observer.sends(request, feeds)
        sessions = [feed.session.number for feed in feeds]
        questions = [feed.session.sent_question for feed in feeds]
        if self._dirty:
            self._wake()
        timeout_ms = self._host.config.replicate_timeout_ms
        try:
            reply, _ = await methods.REPLICATE.call(self._host.transport, address, request, timeout_ms, payload)
        except OncelogError as error:
            self._lost(request, feeds, sessions, error)
            return
        for feed, session, question, answer in zip(feeds, sessions, questions, reply.partitions, strict=False):
            if feed.session.number == session and self._feeds.get(feed.leadership) is feed:
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
            allowed = self._allowance(feed, room)
            if allowed.wait_ms:
                self._hold(feed, allowed.wait_ms)
                continue
            try:
                item, bulk = feed.item(allowed.room)
            except OncelogError as error:
                _log.warning("cannot feed %s: %s", feed.leadership.partition, error)
                feed.session.over()
                self._later(feed)
                continue
            ref = feed.ref
            room -= len(bulk)
            if allowed.is_bounded:
                self._host.moved.sent(len(bulk))
            feeds.append(feed)
            request.partitions.append(item)
            if len(bulk):
                bulks.append(bulk)
            if feed.has_more_data:
                left.append(feed)
        for feed in left:
            self._dirty[feed] = None
        if ref is not None:
            request.follower.CopyFrom(_ref(ref))
        return request, feeds, bulks[0] if len(bulks) == 1 else b"".join(bulks)

    def _allowance(self, feed: Feed, room: int) -> Allowance:
        """Returns what this partition may be sent now; only data may have to wait."""
        if not feed.has_more_data:
            return Allowance(room)
        return self._host.moved.allowance(feed.leadership, self.broker_id, room)

    def _answered(self, feed: Feed, question: int, answer: pb.ReplicatePartitionReply) -> None:
        if answer.HasField("error"):
            self._refused(feed, from_detail(answer.error))
            return
        try:
            if feed.refusals:
                feed.refusals = 0
                self._beginnings.accepted()
                self._begin_soon()
            feed.leadership.confirming.answered(self.broker_id, question)
            feed.answered(answer)
        except StorageError as error:
            _log.warning("cannot feed %s: %s", feed.leadership.partition, error)
            feed.session.over()
            self._later(feed)
            return
        except Exception as error:  # in the leadership's own state, after the acknowledgement
            self._host.bugs.met("task", error, f"acknowledgement of {feed.leadership.partition}")
            self._host.broken(feed.leadership)
            return
        work = feed.next_work()
        if work is Next.TAKE_SNAPSHOT:
            self._tasks.spawn(self._prepare_reset(feed), "prepare-reset")
        elif self._feeds.get(feed.leadership) is not feed:
            return  # the leadership ended with this answer
        elif work is Next.SEND_WATERMARK:
            self.watermark_moved(feed.leadership)
        elif work is Next.SEND:
            self._mark(feed)

    async def _prepare_reset(self, feed: Feed) -> None:
        try:
            await feed.prepare_reset()
        except OncelogError as error:
            _log.warning("no snapshot for %s: %s", feed.leadership.partition, error)
            feed.session.over()
            self._later(feed)
            return
        if self._feeds.get(feed.leadership) is feed:
            self._mark(feed)

    def _refused(self, feed: Feed, error: OncelogError) -> None:
        known_epoch = int(error.context.get("known_epoch", -1))
        meaning = refusal(error.code, known_epoch, feed.leadership.epoch)
        if meaning is Refusal.DEPOSED:
            self._host.fenced(feed.leadership, error)
            return
        if meaning is Refusal.CANNOT_WRITE:
            feed.leadership.cannot_write(feed.ref, feed.session.number)
        feed.session.over()
        self._later(feed)

    def _lost(self, request: pb.ReplicateRequest, feeds: list[Feed], sessions: list[int], error: OncelogError) -> None:
        """Begins new sessions after a pause: without an answer it is unknown whether the request arrived."""
        again = [f for f, session in zip(feeds, sessions, strict=True) if f.session.number == session]
        for feed in again:
            feed.session.over()
        self._back_off(again)
        if is_silence(error.code):
            self._host.unreachable(BrokerRef(request.follower.broker_id, request.follower.incarnation), error)

    def _back_off(self, feeds: list[Feed]) -> None:
        for feed in feeds:
            if self._feeds.get(feed.leadership) is feed:
                feed.session.over()
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
            self._beginnings.refused(feed, feed.refusals, _now_ms())
            feed.refusals += 1
            self._begin_soon()

    def _hold(self, feed: Feed, wait_ms: int) -> None:
        """Looks at this partition again when it may be sent something."""
        if not feed.retry:
            feed.retry = True
            asyncio.get_running_loop().call_later(wait_ms / 1000, self._retry, feed)

    def _retry(self, feed: Feed) -> None:
        feed.retry = False
        if self._feeds.get(feed.leadership) is feed:
            self._mark(feed)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


def _ref(ref: BrokerRef) -> types_pb2.BrokerRef:
    return types_pb2.BrokerRef(broker_id=ref.broker_id, incarnation=ref.incarnation)
