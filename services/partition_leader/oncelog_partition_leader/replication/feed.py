"""Translates one partition's session with one follower to messages, and the follower's answers back.

Rule: which message comes next, and what an answer means, is decided in `core/replication/replication_session.py`.
"""

from __future__ import annotations

from oncelog.core.batch.header import span_of
from oncelog.errors import OffsetOutOfRangeError
from oncelog.types import BrokerRef, Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.core.compaction.rewriting import from_offset_on
from oncelog_partition_leader.core.replication.replication_session import (
    Hello,
    Next,
    ReplicationSession,
    SessionState,
)
from oncelog_partition_leader.core.replication.sessions import FollowerEnd, Truncate
from oncelog_partition_leader.partition.leadership import Leadership


class Feed:
    """One partition's session with one follower."""

    __slots__ = ("leadership", "readers_wait", "ref", "refusals", "retry", "session")

    def __init__(self, leadership: Leadership, ref: BrokerRef) -> None:
        self.leadership = leadership
        self.ref = ref
        """The follower's incarnation that the session is with."""
        self.session = ReplicationSession()
        self.retry = False
        """True while a timer runs after which this partition is looked at again."""
        self.readers_wait = False
        """Readers waited at this follower when it answered last."""
        self.refusals = 0
        """How often in a row the follower has refused it."""

    @property
    def has_news(self) -> bool:
        """True when there is data, a question or a high watermark that the follower was not sent."""
        leadership = self.leadership
        return self.session.has_news(
            leadership.log.log_end_offset, leadership.high_watermark, leadership.confirming.asked
        )

    @property
    def has_more_data(self) -> bool:
        """True when one message could not take along everything that the follower lacks."""
        session = self.session
        return session.state is SessionState.STREAM and session.next_offset < self.leadership.log.log_end_offset

    def next_work(self) -> Next:
        """See `ReplicationSession.next_work`."""
        leadership = self.leadership
        return self.session.next_work(
            leadership.log.log_end_offset, leadership.high_watermark, leadership.confirming.asked
        )

    def item(self, room: int) -> tuple[pb.ReplicatePartition, Buffer]:
        """Makes the next message of this session, with at most about `room` bytes. Raises `OncelogError`."""
        leadership, session = self.leadership, self.session
        item = pb.ReplicatePartition(
            topic_id=leadership.partition.topic_id,
            partition=leadership.partition.partition,
            leader_epoch=leadership.epoch,
            high_watermark=leadership.high_watermark,
            log_start_offset=leadership.log.log_start_offset,
            fsync=leadership.topic_config.fsync,
            held_everywhere=leadership.held_everywhere,
        )
        is_stream = session.state is SessionState.STREAM
        bulk = self._data(item, room) if is_stream else self._ask(item)
        item.session = session.number
        item.length = len(bulk)
        return item, bulk

    def _data(self, item: pb.ReplicatePartition, room: int) -> Buffer:
        leadership, session = self.leadership, self.session
        log, asked = leadership.log, leadership.confirming.asked
        item.base_offset = session.next_offset
        item.epoch_start_offset = leadership.replicas.epoch_start
        if session.next_offset >= log.log_end_offset:
            session.streamed(session.next_offset, item.high_watermark, asked)
            return b""
        data = log.read(max(session.next_offset, log.log_start_offset), max(room, 1), log.log_end_offset)
        first, next_offset = span_of(data) if len(data) else (-1, -1)  # empty: all was deleted, up to the log end
        if 0 <= first < item.base_offset:  # the follower's log may end where ours has a longer gap
            data = from_offset_on(data, item.base_offset)
            first, next_offset = span_of(data)
        if first != item.base_offset:
            raise OffsetOutOfRangeError("the log no longer has what comes next", offset=item.base_offset)
        session.streamed(next_offset, item.high_watermark, asked)
        return data

    def _ask(self, item: pb.ReplicatePartition) -> Buffer:
        leadership, session = self.leadership, self.session
        question, bulk = session.question(), b""
        if isinstance(question, Hello):
            session.begin(leadership.next_session())
            leadership.start_session(self.ref, session.number)
            item.hello = True
        elif isinstance(question, Truncate):
            item.truncate_to = question.to
        else:
            assert session.snapshot is not None, "a reset carries its snapshot"
            item.reset, item.base_offset, bulk = True, question.at, session.snapshot
        session.asked()
        return bulk

    async def prepare_reset(self) -> None:
        """Takes a snapshot of the producer state at the first batch of this log (hole 23). Raises `OncelogError`."""
        number, log = self.session.number, self.leadership.log
        data = log.read(log.log_start_offset, 1, log.log_end_offset)
        at = span_of(data)[0] if len(data) else log.log_start_offset
        self.session.prepared(number, at, await log.producer_snapshot_at(at))

    def answered(self, answer: pb.ReplicatePartitionReply) -> None:
        """Takes the follower's answer to a message of this session."""
        session, log = self.session, self.leadership.log
        self.readers_wait = answer.readers_wait
        if session.state is SessionState.STREAM:
            ends = answer.log_end_offset, answer.synced_end_offset
            self.leadership.acknowledge(self.ref, session.number, *ends)
            return
        told = FollowerEnd(answer.log_end_offset, answer.last_epoch, answer.last_epoch_start)
        session.apply(session.decide(told, log.epochs.end_offset_for, log.log_start_offset, log.log_end_offset))
