"""Leads one partition in one epoch: takes commands in, and answers them when they are committed.

Theory of operation
-------------------
In: handlers `submit` commands (batches, markers, questions about a batch in doubt). Followers' links call `acknowledge` and
`cannot_write`, the disk calls `synced`, the view of etcd `isr_is`, the coordinator's answer `enrolled`, and a timer `expire`.
Out: effects (`core/appends/effects.py`), which the partition carries out (`leadership_effects.py`): answers to commands, news
for followers and readers, a question to a coordinator, a failed log.

The decisions are made in pure pieces: what waits, and how much may (`core/appends/command_queue.py`, `enrolments.py`); what
is done with a command (`verdicts.py`, which asks the producer state); who is in sync and what is committed
(`core/replication/replica_set.py`); when a command is answered (`answers.py`). This file gives them the clock and the ends of
the log.

A command's way: `submit` queues it and schedules one step (`append_step.py`). The step takes all that waits, decides about
each, writes the accepted ones with one append, and wakes the followers' links. Whenever the high watermark passes the end of
a command's batch, its future gets the answer.

What can go wrong, and the rule that prevents it:

- A handler is cancelled, or its link breaks, between an append and its bookkeeping: handlers do neither (rule 1).
- The answer is sent, then the leader dies, and the next one lacks the batch: answers wait for the high watermark (rule 2).
- The leader is deposed, or its ISR shrinks, after the append: the error says "unknown", so the producer repeats the batch
  with the same sequence, and the next leader recognises it (rule 2).
- A command depends on an earlier one of the same group: it is decided after that group is written (`AppendGroup.touches`).
- A coordinator is slow to enrol, or never answers: only batches of that producer wait (rule 3).
- A late callback belongs to an epoch that is past: `ended` is set, and it does nothing (rule 4).
- A bug raises between the append and the answer: state and log may differ, so the log fails and is recovered (rule 5).

Rules
-----
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
from functools import partial
from typing import NamedTuple, Protocol

from oncelog.errors import NotLeaderError, OncelogError, ResourceExhaustedError
from oncelog.ports import WallClock
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.appends.answers import Answers
from oncelog_partition_leader.core.appends.command_queue import Bounds, CommandQueue
from oncelog_partition_leader.core.appends.commands import AppendBatch, Command
from oncelog_partition_leader.core.appends.effects import (
    Effect,
    Fail,
    LacksRoom,
    LookAtIsr,
    RestartSession,
    SendToFollowers,
    SyncLog,
)
from oncelog_partition_leader.core.producers.transactions import TxnName, TxnSession
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.log.data_dir.disk_room import DiskRoom
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.append_observer import Observed, observe
from oncelog_partition_leader.partition.append_step import AppendStep
from oncelog_partition_leader.partition.append_trace import TracedAppends
from oncelog_partition_leader.partition.leadership_confirmation import Confirming
from oncelog_runtime.metadata.cluster_keys import Partition
from oncelog_runtime.process.bugs import Bugs


class Host(Observed, Protocol):
    """The things of the broker that a leadership reads."""

    @property
    def clock(self) -> WallClock: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def disk_watch(self) -> DiskWatch: ...
    @property
    def disk_room(self) -> DiskRoom: ...
    @property
    def bugs(self) -> Bugs: ...
    def gone(self, brokers: Iterable[int]) -> Collection[int]:
        """Returns those whose process has ended, or that are not registered."""

    def waits(self, leadership: Leadership) -> None:
        """Has `expire` called at each tick until nothing waits here any more (`is_waiting`)."""


class PartitionName(NamedTuple):
    """A partition by each of its names."""

    id: PartitionId
    topic: str
    tag: int
    """The partition tag that its batches carry (`header.partition_tag`)."""


CarryOut = Callable[["Leadership", Iterable[Effect]], None]


class Leadership:
    """The leadership of one epoch. While it lasts, it is the only writer of `log`.

    Its methods are many and small: one for each thing that can happen to a leader. Its fields are read by the broker's other
    parts (fetch, ISR, sealing, metrics), which look at a leadership and change nothing.
    """

    def __init__(
        self,
        host: Host,
        name: PartitionName,
        log: PartitionLog,
        topic_config: TopicConfig,
        epoch: int,
        replicas: ReplicaSet,
        carry_out: CarryOut,
    ) -> None:
        self.partition, self.topic, self.tag = name
        self.epoch = epoch
        self.log = log
        self.topic_config = topic_config
        self.replicas = replicas
        self.queue = CommandQueue(Bounds(host.config.inbox_batches_max, host.config.inbox_bytes_max))
        self.answers = Answers(replicas, needs_disk=topic_config.fsync)
        self.confirming = Confirming(replicas, host.gone)
        self.ended: OncelogError | None = None
        self.updating_isr = False
        self._told_held = 0
        self.traced = TracedAppends()
        self.observer = observe(host, name.topic, name.id, len(replicas.followers), self.traced)
        self._host = host
        self._carry_out = partial(carry_out, self)
        self._step = AppendStep(self, host.clock, host.bugs, self.observer, self._carry_out)

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed."""
        return self.replicas.high_watermark

    @property
    def held_everywhere(self) -> int:
        """The offset below which every assigned replica, this one included, has everything on its disk."""
        return min(self.replicas.held_everywhere, self.log.synced_end_offset)

    @property
    def waiting(self) -> int:
        """Number of commands that wait for their append, their enrolment or their followers."""
        return len(self.queue) + len(self.answers)

    @property
    def is_waiting(self) -> bool:
        """True while something waits here that may time out."""
        return self.answers.is_waiting or len(self.queue) > 0 or self.confirming.is_waiting

    # ------------------------------------------------------------ commands

    def submit(self, command: Command, size: int = 0) -> None:
        """Queues a command; its future gets the outcome.

        Raises `NotLeaderError`, `ResourceExhaustedError` (too much waits here, or the disk is nearly full), or
        `StorageError` when it would wait for a stalled disk.
        """
        if self.ended is not None:
            raise self.ended
        if self.answers.needs_disk:
            self._host.disk_watch.require_answering()
        if self._host.disk_room.level and isinstance(command, AppendBatch):
            self._require_room(command)
        self.queue.add(command, size, len(self.answers))
        self._host.waits(self)
        self.observer.queued(command)
        self._schedule()

    def _require_room(self, command: AppendBatch) -> None:
        """Refuses what the disk keeps its last room from, and lets another replica lead, whose disk may have more."""
        room, header = self._host.disk_room, command.header
        try:
            room.require_for_records(self.topic)
        except ResourceExhaustedError:
            self._carry_out([LacksRoom()])
            raise
        if header.is_transactional and TxnName(header.txn_producer_id, header.txn_no) not in self._open:
            room.require_for_transactions()

    @property
    def _open(self) -> Collection[TxnName]:
        return self.log.producers.transactions.open

    def enrolled(self, session: TxnSession, error: OncelogError | None) -> None:
        """Takes the coordinator's own answer: batches that waited for it are decided again, or refused with its error."""
        if self.ended is None:
            self._carry_out(self.queue.enrolled(session, error))
            self._schedule()

    def _schedule(self) -> None:
        if not self.queue.is_scheduled:
            self.queue.is_scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        commands = self.queue.take()
        if self.ended is None:
            self._step.run(commands)
            self.queue.enrolments.verified.clear()

    def synced(self) -> None:
        """Takes over the log's synced end, which has moved."""
        if self.ended is None:
            self._carry_out(self._grew())

    def _grew(self) -> list[Effect]:
        log = self.log
        return self.answers.grew(log.log_end_offset, log.synced_end_offset, self._host.clock.monotonic_ms())

    def configure(self, config: TopicConfig) -> None:
        """Puts options in force: `flush_mode` for later appends, `min_insync_replicas` for waiting commands too."""
        if self.ended is not None:
            return
        self.topic_config = config
        sync: list[Effect] = [SyncLog()] if config.fsync else []
        self._carry_out([*sync, *self.answers.need_disk(config.fsync), *self._grew()])
        self._carry_out(self.answers.isr_changed(self.replicas.require_in_sync(config.min_insync_replicas)))

    def expire(self, now_ms: int) -> None:
        """Fails the commands that have waited too long: their outcome is unknown."""
        self._carry_out(self.answers.expired(now_ms))
        self.confirming.expire(now_ms)

    def end(self, error: OncelogError | None = None) -> None:
        """Ends this leadership. Commands not yet appended fail with `error`, or `NotLeaderError`: they are not written here.
        Appended ones fail with `RequestTimedOutError`: the outcome is unknown, and a producer must not take it for unwritten.
        """
        if self.ended is not None:
            return
        ended = self.ended = error or NotLeaderError("this broker no longer leads the partition", epoch=self.epoch)
        self._carry_out(self.answers.end(ended))
        self.confirming.end(ended)
        self._carry_out([Fail(command, ended) for command in self.queue.drain()])

    async def confirm(self, *, all_electable: bool = False) -> None:
        """Returns when no other leader can have acknowledged a record before this was called.

        `all_electable`: when all replicas that may be elected, and run, have also taken a message of since.

        Raises `NotLeaderError`, or `OffsetNotAvailableError` after `CONFIRM_MS`.
        """
        if self.ended is not None:
            raise self.ended
        waiter = self.confirming.ask(self._host.clock.monotonic_ms(), all_electable=all_electable)
        if waiter is not None:
            self._host.waits(self)
            self._carry_out([SendToFollowers()])
            await waiter

    def log_start_moved(self) -> None:
        """Tells the followers at once, since they let readers read from their logs, too."""
        if self.ended is None:
            self.confirming.announce()
            self._carry_out([SendToFollowers()])

    def tell_held(self) -> None:
        """Tells the followers what every replica holds, when that has moved, and asks what came to their disks meanwhile.

        Messages of the stream say so too; this one is for a partition that gets no more records.
        """
        held = self.held_everywhere
        if self.ended is None and (held != self._told_held or self.replicas.awaits_disks(self.log.closed_end_offset)):
            self._told_held = held
            self.confirming.announce()
            self._carry_out([SendToFollowers()])

    # ------------------------------------------------------------ followers

    def next_session(self) -> int:
        """Returns the next session number of this epoch."""
        return self.replicas.next_session()

    def start_session(self, ref: BrokerRef, session: int) -> None:
        """See `ReplicaSet.start_session`."""
        self.replicas.start_session(ref, session, self._host.clock.monotonic_ms())

    def acknowledge(self, ref: BrokerRef, session: int, end: int, synced_end: int = 0) -> None:
        """Notes that a follower holds everything below `end`, and has everything below `synced_end` on its disk."""
        if self.ended is not None:
            return
        if self.replicas.acknowledge(ref, session, end, self._host.clock.monotonic_ms(), synced_end):
            self._carry_out(self.answers.committed())
        if ref not in self.replicas.committed and not self.updating_isr:
            self._carry_out([LookAtIsr()])

    def cannot_write(self, ref: BrokerRef, session: int) -> None:
        """Notes that a follower's disk is full, or its log has failed."""
        if self.ended is None and self.replicas.cannot_write(ref, session, self._host.clock.monotonic_ms()):
            self._carry_out([LookAtIsr()])

    def isr_is(self, state: Partition, mod_revision: int) -> None:
        """Takes over the ISR and the eligible replicas that etcd holds, whichever broker wrote them."""
        if self.ended is not None:
            return
        now_ms = self._host.clock.monotonic_ms()
        taken_out = self.replicas.resolve(state.isr, mod_revision, now_ms, state.eligible)
        self._carry_out(RestartSession(broker_id) for broker_id in taken_out)
        self._carry_out(self.answers.isr_changed(self.replicas.advanced()))

    def unsealed(self) -> None:
        """Commits again, since the seal is gone from the disk (see `sealing`)."""
        if self.ended is None:
            self._carry_out(self.answers.isr_changed(self.replicas.unseal()))

    def isr_settled(self) -> None:
        """Ends our own ISR proposal, whose outcome is known."""
        if self.ended is None:
            self._carry_out(self.answers.isr_changed(self.replicas.settled()))
