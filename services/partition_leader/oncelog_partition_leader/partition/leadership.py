"""Leads one partition in one epoch: decides about commands, appends them, and answers them at the high watermark.

Theory of operation: handlers `submit` commands (batches, markers, questions about a batch in doubt). One step, `_drain`, takes
all of them: the producer state decides about each, the accepted ones are written together, and the followers' links are woken.
`acknowledge` (a follower has the records), `synced` (the disk has them) and `isr_is` (etcd holds another ISR) change the
`ReplicaSet`, which computes the high watermark; when that passes the end of a command, its future gets the answer.

What can go wrong, and the rule that prevents it:
- A handler is cancelled, or its link breaks, between an append and its bookkeeping: handlers do neither (rule 1).
- The answer is sent, then the leader dies, and the next one lacks the batch: answers wait for the high watermark (rule 2).
- The leader is deposed, or its ISR shrinks, after the append: the error says "unknown", so the producer repeats the batch
  with the same sequence, and the next leader recognises it (rule 2).
- A command depends on an earlier one of the same group: it is decided after that group is written (`_Group.touches`).
- A coordinator is slow to enrol, or never answers: only batches of that producer wait (rule 3).
- A late callback belongs to an epoch that is past: `ended` is set, and it does nothing (rule 4).
- A bug raises between the append and the answer: state and log may differ, so the log fails and is recovered (rule 5).

Rule 1: the queue is drained by one synchronous step: all waiting commands are decided and appended together, so that no
        cancelled handler can leave log and state apart.
Rule 2: `acks=all` is answered only when the high watermark has passed the batch. After the append an error means
        *unknown*; a refusal before it leaves no trace.
Rule 3: a batch that waits for its enrolment holds back only its own producer, and its bytes count as waiting.
Rule 4: it ends once (`end`) and is never revived; the next epoch is another object.
Rule 5: an unexpected exception refuses, by a named error, only its own command; after the append it fails the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import NamedTuple, Protocol

from oncelog.core.batch.control import seal_fence, seal_marker
from oncelog.core.batch.header import BatchHeader, read_header
from oncelog.errors import (
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
    OncelogError,
    RequestTimedOutError,
    ResourceExhaustedError,
    StorageError,
    UnknownServerError,
)
from oncelog.ports import WallClock
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.producers.decisions import APPEND, AppendMarker, Duplicate, NeedsEnrolment, Origin
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.core.replication.waiters import Waiters
from oncelog_partition_leader.log.disk_watch import DiskWatch
from oncelog_partition_leader.log.partition_log import Appended, PartitionLog
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.append_trace import AppendTrace, TracedAppends
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.partition.commands import (
    ACKS_ALL,
    AppendBatch,
    AppendMarkerCommand,
    Command,
    SettleCommand,
    Settled,
    Written,
)
from oncelog_partition_leader.partition.leadership_confirmation import Confirming
from oncelog_runtime.metadata.cluster_keys import Partition
from oncelog_runtime.process.bugs import Bugs


class Host(Protocol):
    """The services of the broker that a leadership uses."""

    @property
    def clock(self) -> WallClock: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def metrics(self) -> BrokerMetrics: ...
    @property
    def disk_watch(self) -> DiskWatch: ...
    def appended(self, leadership: Leadership) -> None:
        """Sends new data, or a question, to the followers."""

    def watermark_moved(self, leadership: Leadership) -> None:
        """Tells readers and followers that the high watermark moved."""

    def isr_may_change(self, leadership: Leadership) -> None:
        """Looks whether a follower may join the ISR, or has to leave it."""

    def taken_out(self, leadership: Leadership, broker_id: int) -> None:
        """Begins a new session with a follower that is not in the ISR any more."""

    def enrol(self, leadership: Leadership, session: TxnSession, txn_shard: int, transactional_id: str) -> None:
        """Asks the coordinator, and calls `leadership.enrolled(session, error)` with the outcome."""

    def append_failed(self, leadership: Leadership, error: OncelogError) -> None:
        """Acts on an append that the disk refused."""

    def gone(self, brokers: Iterable[int]) -> Collection[int]:
        """Returns those whose process has ended, or that are not registered."""

    @property
    def bugs(self) -> Bugs: ...
    def broken(self, leadership: Leadership) -> None:
        """Fails the log, since the leadership's state in memory may contradict it."""


class PartitionName(NamedTuple):
    """A partition by each of its names."""

    id: PartitionId
    topic: str
    tag: int
    """The partition tag that its batches carry (`header.partition_tag`)."""


class Leadership:
    """The leadership of one epoch. While it lasts, it is the only writer of `log`."""

    def __init__(
        self,
        host: Host,
        name: PartitionName,
        log: PartitionLog,
        topic_config: TopicConfig,
        epoch: int,
        replicas: ReplicaSet,
        request_sync: Callable[[], None],
    ) -> None:
        self.partition, self.topic, self._tag = name
        self.epoch = epoch
        self.replicas = replicas
        self.confirming = Confirming(replicas, host.gone)
        self.log = log
        self.topic_config = topic_config
        self.ended: OncelogError | None = None
        self.updating_isr = False
        self.traced = TracedAppends()
        self._host = host
        self._metrics = host.metrics
        self._traffic = host.metrics.traffic_of(name.topic)
        self._request_sync = request_sync
        self._inbox: list[Command] = []
        self._inbox_bytes = 0
        self._scheduled = False
        self._waiters: Waiters[Command] = Waiters()
        self._sync_waiters: Waiters[Command] = Waiters()
        self._parked: dict[int, list[AppendBatch]] = {}
        self._parked_bytes = 0
        self._enrolling: dict[TxnSession, list[int]] = {}
        self._verified: dict[TxnSession, None] = {}
        self._sessions = 0
        if topic_config.fsync and log.synced_end_offset < log.log_end_offset:
            request_sync()

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed."""
        return self.replicas.high_watermark

    @property
    def waiting(self) -> int:
        """Number of commands that wait for their append, their enrolment or their followers."""
        return len(self._inbox) + len(self._waiters) + sum(map(len, self._parked.values()))

    # ------------------------------------------------------------ the queue

    def submit(self, command: Command, size: int = 0) -> None:
        """Queues a command; its future gets the outcome.

        Raises `NotLeaderError`, `ResourceExhaustedError`, or `StorageError` when it would wait for a stalled disk.
        """
        if self.ended is not None:
            raise self.ended
        if self.topic_config.fsync:
            self._host.disk_watch.require_answering()
        config = self._host.config
        waiting_bytes = self._inbox_bytes + self._parked_bytes
        if self.waiting >= config.inbox_batches_max or waiting_bytes + size > config.inbox_bytes_max:
            raise ResourceExhaustedError("too much waits on this partition", retry_after_ms=50)
        command.since_s = self._metrics.now_s()
        self._inbox.append(command)
        self._inbox_bytes += size
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _ended_meanwhile(self) -> OncelogError | None:
        """Returns why this leadership has ended, if an append of the present step has ended it."""
        return self.ended

    def _drain(self) -> None:
        self._scheduled = False
        if self.ended is not None:
            return
        commands, self._inbox, self._inbox_bytes = self._inbox, [], 0
        try:
            self._decide_all(commands)
        except Exception as error:  # of the step itself: it is unknown how far it came, but all are answered
            self._break(commands, error)
        self._verified.clear()

    def _decide_all(self, commands: list[Command]) -> None:
        group = _Group()
        for command in commands:
            if (ended := self._ended_meanwhile()) is not None:
                self._refuse([command], ended)
                continue
            try:
                if group.touches(command):  # its decision needs the state after the group
                    self._append(group)
                    group = _Group()
                batch = self._decide(command)
            except OncelogError as error:
                self._refuse([command], error)
                continue
            except Exception as error:  # deciding only reads: the others are not affected
                self._refuse([command], self._host.bugs.met("decision", error, type(command).__name__))
                continue
            if batch is not None:
                group.add(command, *batch)
        self._append(group)

    def _refuse(self, commands: list[Command], error: OncelogError) -> None:
        for command in commands:
            self._metrics.refused(error)
            command.fail(error)

    def _decide(self, command: Command) -> tuple[BatchHeader, Buffer] | None:
        """Returns the batch to append, or None when there is nothing to append (yet). Raises the refusal."""
        if isinstance(command, AppendBatch):
            return self._decide_batch(command)
        if isinstance(command, AppendMarkerCommand):
            return self._decide_marker(command)
        assert isinstance(command, SettleCommand)
        return self._decide_settle(command)

    def _decide_batch(self, command: AppendBatch) -> tuple[BatchHeader, Buffer] | None:
        header = command.header
        parked = self._parked.get(header.producer_id)
        if parked is not None and header.producer_id >= 0:
            parked.append(command)
            self._parked_bytes += len(command.data)
            return None
        decision = self.log.producers.decide(header, Origin.CLIENT, self._verified)
        if isinstance(decision, Duplicate):
            timestamp_ms = decision.append_timestamp_ms
            command.answer = Written(decision.base_offset, timestamp_ms, self.log.log_start_offset, True)
            self._answer_at(decision.stable_after, command)
            return None
        self._require_in_sync(command)
        if isinstance(decision, NeedsEnrolment):
            self._park(command, decision)
            return None
        assert decision is APPEND
        return header, command.data

    def _decide_marker(self, command: AppendMarkerCommand) -> tuple[BatchHeader, Buffer] | None:
        decision = self.log.producers.decide_marker(command.name, command.txn_shard, command.marker)
        if not isinstance(decision, AppendMarker):
            command.answer = Written(decision.offset, -1, self.log.log_start_offset, True)
            self._answer_at(decision.offset + 1, command)
            return None
        self._require_in_sync(command)
        data = seal_marker(
            replace(command.marker, lost=decision.lost),
            txn_producer_id=command.name.txn_producer_id,
            txn_no=command.name.txn_no,
            txn_shard=command.txn_shard,
            timestamp_ms=self._host.clock.now_ms(),
            tag=self._tag,
        )
        return read_header(data), data

    def _decide_settle(self, command: SettleCommand) -> tuple[BatchHeader, Buffer] | None:
        producers = self.log.producers
        known = producers.producer(command.producer_id)
        written, base_offset, stable_after = producers.written(
            command.producer_id, command.producer_epoch, command.base_sequence, command.last_sequence
        )
        epoch = known.producer_epoch if known is not None else -1
        last = known.window.last_sequence if known is not None else -1
        command.answer = Written(base_offset, -1, self.log.log_start_offset, written)
        command.settled = Settled(known is not None, written, base_offset, epoch, last)
        if written or not command.settle:
            self._answer_at(stable_after if written else self.high_watermark, command)
            return None
        self._require_in_sync(command)
        fence_epoch = producers.fence_epoch(command.producer_id, command.producer_epoch)
        command.settled = Settled(known is not None, False, -1, fence_epoch, last if fence_epoch == epoch else -1)
        data = seal_fence(
            producer_id=command.producer_id,
            producer_epoch=fence_epoch,
            timestamp_ms=self._host.clock.now_ms(),
            tag=self._tag,
        )
        return read_header(data), data

    def _require_in_sync(self, command: Command) -> None:
        if command.acks == ACKS_ALL and not self.replicas.enough_in_sync:
            raise NotEnoughReplicasError(
                isr=len(self.replicas.committed), min_insync_replicas=self.topic_config.min_insync_replicas
            )

    def _append(self, group: _Group) -> None:
        """Writes a group, in parts if the log took only a part of it, and answers it. It raises nothing."""
        commands, batches = group.commands, group.batches
        now_ms = self._host.clock.now_ms()
        while commands:
            if (ended := self._ended_meanwhile()) is not None:
                self._refuse(commands, ended)
                return
            start_s = self._metrics.now_s()
            try:
                appended = self.log.append_as_leader(batches, self.epoch, now_ms)
            except OncelogError as error:
                self._refuse(commands, error)
                if isinstance(error, StorageError):  # other errors come before the write: nothing is in doubt
                    self._host.append_failed(self, error)
                return
            except Exception as error:  # before the write too: after it all are `StorageError`
                self._append_alone(commands, batches, error)
                return
            try:
                self._appended(commands[: len(appended)], appended, now_ms, start_s)
            except Exception as error:
                self._break(commands, error)
                return
            commands, batches = commands[len(appended) :], batches[len(appended) :]

    def _append_alone(
        self, commands: list[Command], batches: list[tuple[BatchHeader, Buffer]], error: Exception
    ) -> None:
        """Appends each batch by itself: one of the group cannot be written, and it is unknown which."""
        if len(commands) == 1:
            self._refuse(commands, self._host.bugs.met("append", error))
            return
        for command, batch in zip(commands, batches, strict=True):
            alone = _Group()
            alone.add(command, *batch)
            self._append(alone)

    def _break(self, commands: list[Command], error: Exception) -> None:
        """Answers "unknown" and fails the log, since a step after the append went wrong."""
        self._host.bugs.met("append", error)
        self._refuse(commands, UnknownServerError("the leader failed after the append; the outcome is unknown"))
        self._host.broken(self)

    def _appended(self, commands: list[Command], appended: list[Appended], now_ms: int, start_s: float) -> None:
        """Answers batches that are in the log, at once or when followers and disk have them."""
        assert appended[-1].next_offset == self.log.log_end_offset, "the log ends with the newest batch of the group"
        written_s = self._metrics.now_s()
        for command, batch in zip(commands, appended, strict=True):
            if command.answer is None:
                command.answer = Written(batch.base_offset, now_ms, self.log.log_start_offset, False)
            if isinstance(command, AppendBatch):
                command.data = b""  # it is in the log: a command that waits for followers holds no bytes
                self._count(command, start_s, written_s)
            if command.trace is not None:
                self._trace(command.trace, batch.base_offset, batch.next_offset, len(appended))
            self._answer_at(batch.next_offset, command)
        if self.topic_config.fsync:
            self._request_sync()
        self._host.appended(self)
        self._grew()

    def _trace(self, trace: AppendTrace, base_offset: int, next_offset: int, batches: int) -> None:
        followers = len(self.replicas.followers)
        trace.appended(base_offset, batches, leader_epoch=self.epoch, followers=followers)
        self.traced.add(base_offset, next_offset, trace.context)

    def _count(self, command: AppendBatch, start_s: float, written_s: float) -> None:
        """Counts a batch that is in the log."""
        metrics, traffic = self._metrics, self._traffic
        traffic.records_in += command.header.record_count
        traffic.bytes_in += command.header.batch_length
        metrics.queue.observe(start_s - command.since_s)
        metrics.append.observe(written_s - start_s)
        command.since_s = written_s

    # ------------------------------------------------------------ answers

    def _answer_at(self, end: int, command: Command) -> None:
        """Answers when `end` is committed, or at once, as `acks` asks for."""
        assert end <= self.log.log_end_offset, "no answer is about an offset that the log does not have"
        if command.acks == ACKS_ALL:
            if self.high_watermark >= end:
                command.finish()
            elif not self.replicas.enough_in_sync:
                command.fail(NotEnoughReplicasAfterAppendError())
            else:
                self._waiters.add(end, command.deadline_ms, command)
        elif command.acks == 1 and self.topic_config.fsync and self.log.synced_end_offset < end:
            self._sync_waiters.add(end, command.deadline_ms, command)
        else:
            command.finish()

    def _grew(self) -> None:
        synced = self.log.synced_end_offset
        # After a change to fsync the unsynced records that counted before still count: an end never goes back.
        own_end = max(synced, self.replicas.own_end) if self.topic_config.fsync else self.log.log_end_offset
        if self.replicas.wrote(self.log.log_end_offset, own_end, self._host.clock.monotonic_ms()):
            self._committed()
        for command in self._sync_waiters.advance(synced):
            command.finish()

    def synced(self) -> None:
        """Takes over the log's synced end, which has moved."""
        if self.ended is None:
            self._grew()

    def configure(self, config: TopicConfig) -> None:
        """Puts options in force: `flush_mode` for later appends, `min_insync_replicas` for waiting commands too."""
        if self.ended is not None:
            return
        self.topic_config = config
        if config.fsync:
            self._request_sync()
        else:
            for command in self._sync_waiters.drain():
                command.finish()
        self._grew()
        self._after_isr_change(self.replicas.require_in_sync(config.min_insync_replicas))

    def _committed(self) -> None:
        assert self.replicas.high_watermark <= self.log.log_end_offset, "only records of this log are committed"
        committed_s = self._metrics.now_s()
        for command in self._waiters.advance(self.replicas.high_watermark):
            if isinstance(command, AppendBatch):
                self._metrics.replicate.observe(committed_s - command.since_s)
            command.finish()
        if self.traced.waiting:
            self.traced.committed(self.replicas.high_watermark)
        self._host.watermark_moved(self)

    def expire(self, now_ms: int) -> None:
        """Fails the commands that have waited too long: their outcome is unknown."""
        for command in [*self._waiters.expire(now_ms), *self._sync_waiters.expire(now_ms)]:
            command.fail(RequestTimedOutError("not enough followers acknowledged in time"))
        self.confirming.expire(now_ms)

    def end(self, error: OncelogError | None = None) -> None:
        """Ends this leadership. Commands not yet appended fail with `error`, or `NotLeaderError`: they are not written here.
        Appended ones fail with `RequestTimedOutError`: the outcome is unknown, and a producer must not take it for unwritten.
        """
        if self.ended is not None:
            return
        self.ended = error or NotLeaderError("this broker no longer leads the partition", epoch=self.epoch)
        for command in (*self._waiters.drain(), *self._sync_waiters.drain()):
            command.fail(RequestTimedOutError(f"appended, but the outcome is unknown: {self.ended.message}"))
        self.confirming.end(self.ended)
        waiting, self._inbox = self._inbox, []
        for parked in self._parked.values():
            waiting.extend(parked)
        self._parked.clear()
        self._parked_bytes = 0
        for command in waiting:
            command.fail(self.ended)

    async def confirm(self) -> None:
        """Returns when no other leader can have acknowledged a record before this was called.

        Raises `NotLeaderError`, or `OffsetNotAvailableError` after `CONFIRM_MS`.
        """
        if self.ended is not None:
            raise self.ended
        waiter = self.confirming.ask(self._host.clock.monotonic_ms())
        if waiter is not None:
            self._host.appended(self)
            await waiter

    # ------------------------------------------------------------ followers

    def next_session(self) -> int:
        """Returns the next session number of this epoch."""
        self._sessions += 1
        return self._sessions

    def start_session(self, ref: BrokerRef, session: int) -> None:
        """See `ReplicaSet.start_session`."""
        self.replicas.start_session(ref, session, self._host.clock.monotonic_ms())

    def acknowledge(self, ref: BrokerRef, session: int, end: int) -> None:
        """Notes that a follower holds everything below `end`."""
        if self.ended is not None:
            return
        if self.replicas.acknowledge(ref, session, end, self._host.clock.monotonic_ms()):
            self._committed()
        if ref not in self.replicas.committed and not self.updating_isr:
            self._host.isr_may_change(self)

    def cannot_write(self, ref: BrokerRef, session: int) -> None:
        """Notes that a follower's disk is full, or its log has failed."""
        if self.ended is None and self.replicas.cannot_write(ref, session, self._host.clock.monotonic_ms()):
            self._host.isr_may_change(self)

    def isr_is(self, state: Partition, mod_revision: int) -> None:
        """Takes over the ISR and the eligible replicas that etcd holds, whichever broker wrote them."""
        if self.ended is not None:
            return
        now_ms = self._host.clock.monotonic_ms()
        taken_out = self.replicas.resolve(state.isr, mod_revision, now_ms, state.eligible)
        for broker_id in taken_out:
            self._host.taken_out(self, broker_id)
        self._after_isr_change(self.replicas.advanced())

    def unsealed(self) -> None:
        """Commits again, since the seal is gone from the disk (see `sealing`)."""
        if self.ended is None:
            self._after_isr_change(self.replicas.unseal())

    def isr_settled(self) -> None:
        """Ends our own ISR proposal, whose outcome is known."""
        if self.ended is None:
            self._after_isr_change(self.replicas.settled())

    def _after_isr_change(self, moved: bool) -> None:
        if moved:
            self._committed()
        if not self.replicas.enough_in_sync:
            for command in self._waiters.drain():
                command.fail(NotEnoughReplicasAfterAppendError(isr=len(self.replicas.committed)))

    # ------------------------------------------------------------ enrolment

    def _park(self, command: AppendBatch, needs: NeedsEnrolment) -> None:
        self._parked[command.header.producer_id] = [command]
        self._parked_bytes += len(command.data)
        waiting = self._enrolling.get(needs.name)
        if waiting is not None:
            waiting.append(command.header.producer_id)
            return
        self._enrolling[needs.name] = [command.header.producer_id]
        TRACEPARENT.set(command.trace.context if command.trace is not None else "")  # the trace that enrols
        try:
            self._host.enrol(self, needs.name, needs.txn_shard, command.transactional_id)
        except BaseException:  # it would never be answered
            del self._parked[command.header.producer_id], self._enrolling[needs.name]
            raise

    def enrolled(self, session: TxnSession, error: OncelogError | None) -> None:
        """Takes the coordinator's own answer: batches that waited for it are decided again, or refused with its error."""
        producers = self._enrolling.pop(session, [])
        if self.ended is not None:
            return
        again: list[AppendBatch] = []
        for producer_id in producers:
            for command in self._parked.pop(producer_id, []):
                self._parked_bytes -= len(command.data)
                header = command.header
                asked = TxnSession(header.txn_producer_id, header.txn_no, header.producer_epoch)
                if error is not None and header.is_transactional and asked == session:
                    command.fail(error)
                else:
                    again.append(command)
        if error is None:
            self._verified[session] = None
        self._inbox[:0] = again
        self._inbox_bytes += sum(len(command.data) for command in again)
        self._schedule()


class _Group:
    """The batches of one append. Each producer and each transaction occurs in it once."""

    __slots__ = ("_keys", "batches", "commands")

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.batches: list[tuple[BatchHeader, Buffer]] = []
        self._keys: set[int] = set()

    def touches(self, command: Command) -> bool:
        """Returns True when the decision about `command` depends on a batch of this group."""
        return bool(self._keys) and not self._keys.isdisjoint(_keys_of(command))

    def add(self, command: Command, header: BatchHeader, data: Buffer) -> None:
        """Adds a command and its batch."""
        self.commands.append(command)
        self.batches.append((header, data))
        self._keys.update(_keys_of(command))


def _keys_of(command: Command) -> tuple[int, ...]:
    if isinstance(command, AppendBatch):
        header = command.header
        if header.producer_id < 0:
            return ()
        return (header.producer_id, header.txn_producer_id) if header.txn_producer_id >= 0 else (header.producer_id,)
    if isinstance(command, AppendMarkerCommand):
        return (command.name.txn_producer_id,)
    assert isinstance(command, SettleCommand)
    return (command.producer_id,)
