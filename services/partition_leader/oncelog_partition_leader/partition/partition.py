"""One partition on this broker: its log, its role, and the epochs that fence it.

Rule 1: `known_epoch` is the highest leader epoch known, from etcd or from a leader; messages of older ones are refused.
Rule 2: the log has one writer at a time: the leadership, or the follower's side of one session. Steps that wait
        (truncate, reset, close) hold `exclusive`, and a new leadership begins only after them.
Rule 3: a log that may have lost records is `failed`: it refuses every append and read until etcd names this replica nowhere
        any more and the log was opened again (hole 3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from oncelog.core.batch.header import partition_tag
from oncelog.errors import (
    FencedLeaderEpochError,
    NotLeaderError,
    OncelogError,
    StorageError,
    UnknownLeaderEpochError,
)
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog_partition_leader.core.compaction.rewriting import Tally
from oncelog_partition_leader.core.replication.replica_set import Ends, Isr, Registered, ReplicaSet
from oncelog_partition_leader.core.replication.replica_state import Seal
from oncelog_partition_leader.core.replication.sessions import FollowerEnd
from oncelog_partition_leader.core.replication.vouching import Told
from oncelog_partition_leader.log.compaction.pass_job import Limits, PassWorker
from oncelog_partition_leader.log.data_dir.custody import Claim
from oncelog_partition_leader.log.group_commit import GroupSync
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.leadership import Host, Leadership, PartitionName
from oncelog_partition_leader.partition.leadership_effects import EffectHost, LeadershipEffects
from oncelog_partition_leader.partition.long_poll import Watcher
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, Partition
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.serving.signpost import Signpost

Session = tuple[int, int]
"""(leader epoch, number): newer ones are greater."""

_log = logging.getLogger(__name__)


class PartitionHost(Host, EffectHost, Protocol):
    """The services of the broker that a partition uses."""

    @property
    def tasks(self) -> TaskOwner: ...
    @property
    def signpost(self) -> Signpost: ...
    def leadership_ended(self, leadership: Leadership) -> None:
        """Stops the replication of this leadership to its followers."""
        ...

    def log_failed(self, partition: LocalPartition, error: OncelogError) -> None:
        """Takes this replica out of the ISR, since its log may have lost records."""
        ...

    async def lower_claim(self, partition: LocalPartition) -> None:
        """Lowers the log's claim on disk before the log is dropped (see `custody`). Raises `StorageError`."""
        ...


class LocalPartition:
    """One replica. Opened by `ReplicaManager`; leading while `leadership` is set.

    It has more methods and fields than other classes, since both roles of a replica meet here, and each ends the other: a
    message of a newer leader ends the leadership, a new leadership ends the follower's session, and a failed log ends both.
    """

    def __init__(
        self, host: PartitionHost, partition: PartitionId, topic: str, log: PartitionLog, topic_config: TopicConfig
    ) -> None:
        self.id = partition
        self.topic = topic
        self.tag = partition_tag(partition.topic_id, partition.partition)
        self.log = log
        self.topic_config = topic_config
        self.known_epoch = log.reached_epoch
        self.leadership: Leadership | None = None
        self.failed: OncelogError | None = None
        self.claim = Claim()
        """This log's own claim, beside that of its data directory (see `custody`)."""
        self.seal: Seal | None = None
        """The seal that may be on disk (see `sealing`)."""
        self.isr_seen: Isr | None = None
        """The ISR as last seen in etcd."""
        self.exclusive = asyncio.Lock()
        self.told = Told()
        """The leader's words about its log, while this replica follows (`core/replication/vouching.py`)."""
        self.watchers: dict[Watcher, None] = {}
        self._host = host
        self._effects = LeadershipEffects(host, self)
        self._follower_watermark = log.log_start_offset
        self._session: Session = (-1, 0)
        self._session_has_data = False
        self._start_seen = 0  # `_follow_start` was begun for it: on a full disk no message tries it again
        self.sync = GroupSync(
            log.sync,
            host.tasks,
            self._synced,
            self._sync_failed,
            host.disk_watch,
            lambda: self.topic_config.fsync,
        )
        self.sync.synced_end = log.synced_end_offset

    # ------------------------------------------------------------ reading

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed, as far as this broker knows."""
        leadership = self.leadership
        return leadership.high_watermark if leadership is not None else self._follower_watermark

    @property
    def held_everywhere(self) -> int:
        """The offset below which every assigned replica holds everything, by the word of the leader of the newest epoch alone:
        a later one may have replicas that begin at nothing.
        """
        if self.leadership is not None:
            return self.leadership.held_everywhere
        return self.told.held_everywhere if self.told.epoch == self.known_epoch else 0

    def require_leadership(self, leader_epoch: int = -1) -> Leadership:
        """Returns the leadership that serves a client. `leader_epoch`: the client's view, -1 = none.

        Raises `NotLeaderError`, `FencedLeaderEpochError`, `UnknownLeaderEpochError` or `StorageError`.
        """
        if self.failed is not None:
            raise self.failed
        if leader_epoch > self.known_epoch:
            raise UnknownLeaderEpochError(leader_epoch=leader_epoch, known_epoch=self.known_epoch)
        leadership = self.leadership
        if leadership is None or leadership.ended is not None:
            address = self._host.signpost.leader(self.id)
            raise NotLeaderError("this broker does not lead the partition", known_epoch=self.known_epoch, go_to=address)
        if 0 <= leader_epoch < leadership.epoch:
            raise FencedLeaderEpochError(leader_epoch=leader_epoch, current_epoch=leadership.epoch)
        return leadership

    def watch(self, watcher: Watcher) -> None:
        """Calls `wake`, once, when the readable offsets change, or the role."""
        self.watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Removes a watcher."""
        self.watchers.pop(watcher, None)

    def wake_watchers(self) -> None:
        """Wakes the readers that wait for a change."""
        if self.watchers:
            watchers, self.watchers = self.watchers, {}
            for watcher in watchers:
                watcher.wake()

    # ------------------------------------------------------------ roles

    def saw_epoch(self, epoch: int) -> None:
        """Notes a leader epoch; an older leadership of this broker ends."""
        if epoch <= self.known_epoch:
            return
        self.known_epoch = epoch
        if self.leadership is not None and self.leadership.epoch < epoch:
            self.stop_leading()
        self.wake_watchers()

    def etcd_was_restored(self) -> None:
        """Steps down, and refuses all epochs so far: the restored etcd may give them to other leaders."""
        self.saw_epoch(self.known_epoch + 1)

    def stop_leading(self, error: OncelogError | None = None) -> None:
        """Stops leading; the log stays open."""
        leadership, self.leadership = self.leadership, None
        if leadership is None:
            return
        self._follower_watermark = max(self._follower_watermark, leadership.high_watermark)
        leadership.end(error)
        self._host.leadership_ended(leadership)
        self.wake_watchers()

    def lead(self, me: BrokerRef, state: Partition, mod_revision: int, min_insync_replicas: int) -> Leadership | None:
        """Starts to lead in the epoch of `state`.

        None when that is impossible: a newer epoch is known, the log has failed, or it has batches of this epoch already.
        """
        assert not self.exclusive.locked(), "the log has one writer"
        if self.failed is not None or state.leader_epoch < self.known_epoch:
            return None
        if (
            state.leader_epoch <= self.log.last_epoch
        ):  # etcd went back: an offset must not be assigned twice in an epoch
            return None
        self.saw_epoch(state.leader_epoch)
        self._reach(state.leader_epoch, self.log.log_end_offset)
        fsync = self.topic_config.fsync
        replicas = ReplicaSet(
            me,
            Registered(state.replicas, state.isr, mod_revision, state.eligible),
            Ends(
                high_watermark=max(self._follower_watermark, self.log.log_start_offset),
                log=self.log.log_end_offset,
                own=self.log.synced_end_offset if fsync else self.log.log_end_offset,
            ),
            min_insync_replicas=min_insync_replicas,
            lag_max_ms=self._host.config.replica_lag_time_max_ms,
            now_ms=self._host.clock.monotonic_ms(),
            is_sealed=self.seal is not None and self.seal.leader_epoch == state.leader_epoch,
        )
        self.leadership = Leadership(
            self._host,
            PartitionName(self.id, self.topic, self.tag),
            self.log,
            self.topic_config,
            state.leader_epoch,
            replicas,
            self._effects.carry_out,
        )
        if fsync and self.log.synced_end_offset < self.log.log_end_offset:
            self.sync.request()
        self.wake_watchers()
        return self.leadership

    def configure(self, config: TopicConfig) -> None:
        """Puts new options of the topic in force."""
        if config == self.topic_config:
            return
        self.topic_config = config
        self.log.reconfigure(config.log)
        if self.leadership is not None:
            self.leadership.configure(config)

    # ------------------------------------------------------------ following

    def check_session(self, epoch: int, session: int, *, hello: bool) -> None:
        """Checks that a leader's message is of the newest epoch and session; a hello begins its session.

        Raises `FencedLeaderEpochError` for an older epoch, an older session, or a copy of a hello; `StorageError`.
        """
        if self.failed is not None:
            raise self.failed
        if epoch < self.known_epoch:
            raise FencedLeaderEpochError(leader_epoch=epoch, known_epoch=self.known_epoch)
        if self.leadership is not None and epoch == self.leadership.epoch:
            raise FencedLeaderEpochError("this broker leads in this epoch", leader_epoch=epoch)
        self.saw_epoch(epoch)
        if hello and (epoch, session) > self._session:
            self._session = (epoch, session)
            self._session_has_data = False
        elif hello or (epoch, session) != self._session:
            raise FencedLeaderEpochError("an older session", session=session, newest=self._session[1])

    def in_session(self, epoch: int, session: int) -> bool:
        """Returns True when the session is still the newest; for a check after an await."""
        return self.failed is None and (epoch, session) == self._session and epoch == self.known_epoch

    def follow(self, epoch: int, batches: Buffer) -> int:
        """Appends a leader's batches, which begin at the log end. Returns the new log end. Raises `StorageError`."""
        assert self.leadership is None, "a leader follows nobody"
        self._session_has_data = True
        try:
            self.log.append_as_follower(batches, epoch)
        except StorageError as error:
            if self.log.failed is not None:
                self.fail(error)
            raise
        return self.log.log_end_offset

    def reaches(self, epoch: int, at_offset: int) -> None:
        """Notes the leader's epoch once this log goes as far as the leader's did when it began. Raises `StorageError`."""
        if self.log.reached_epoch < epoch and at_offset <= self.log.log_end_offset:
            self.log.reach(epoch, at_offset)

    def _reach(self, epoch: int, at_offset: int) -> None:
        """Notes a leader's own epoch. A full disk does not keep it from leading: its followers' notes say the same."""
        try:
            self.log.reach(epoch, at_offset)
        except StorageError as error:
            _log.warning("%s leads without a note of its epoch: %s", self.id, error)

    def leader_says(self, high_watermark: int, log_start_offset: int, held_everywhere: int = 0) -> None:
        """Takes over the leader's high watermark, as far as this log goes, its log start, and what every replica holds."""
        self._session_has_data = True
        self.told.hear(self._session[0], high_watermark, log_start_offset, held_everywhere)
        committed = min(high_watermark, self.log.log_end_offset)
        if committed > self._follower_watermark:
            self._follower_watermark = committed
            self.wake_watchers()
        if self._told_start > max(self.log.log_start_offset, self._start_seen) and self.topic not in INTERNAL_TOPICS:
            self._start_seen = self._told_start
            self._host.tasks.spawn(self._follow_start(), "log-start")

    async def truncate(self, epoch: int, session: int, to: int) -> None:
        """Truncates the log to `to`, unless a newer session began meanwhile. Raises `StorageError`."""
        async with self.exclusive, self.sync.alone:
            if not self.in_session(epoch, session) or self._session_has_data or to >= self.log.log_end_offset:
                return
            self.told.forget()
            await self._guarded(self.log.truncate_to(to))
            end = self.log.log_end_offset  # below `to` when that lies inside of a batch
            self.sync.cut(end)
            self._follower_watermark = min(self._follower_watermark, end)

    async def reset(self, epoch: int, session: int, at: int, snapshot: bytes) -> None:
        """Drops the log and starts an empty one at `at`, unless a newer session began meanwhile. Raises `StorageError`."""
        async with self.exclusive, self.sync.alone:
            if not self.in_session(epoch, session) or self._session_has_data:
                return
            self.told.forget()
            await self._guarded(self._host.lower_claim(self))
            await self._guarded(self.log.reset_to(at, snapshot))
            self.sync.cut(-1)
            self.sync.synced_end = at
            self._follower_watermark = at

    async def _guarded(self, step: Awaitable[None]) -> None:
        """Runs a step that rewrites the log; when it fails half-way, the content is unknown, so the log fails."""
        try:
            await step
        except StorageError as error:
            self.fail(error)
            raise

    def told_end(self) -> FollowerEnd:
        """Returns log end and last epoch, as reported in reply to a hello."""
        epochs = self.log.epochs
        return FollowerEnd(self.log.log_end_offset, epochs.last_epoch, epochs.last_epoch_start)

    # ------------------------------------------------------------ housekeeping

    async def trim(self, now_ms: int) -> None:
        """Deletes segments by retention, and as a follower those below the leader's log start. Raises `StorageError`."""
        if self.failed is not None:
            return
        async with self.sync.alone:
            with self._host.disk_watch.sync(is_waited_for=self.topic_config.fsync):
                if self.leadership is None:
                    await self.log.advance_log_start(self._told_start)
                self.log.producers.forget_stable(self.high_watermark)
                await self.log.apply_retention(now_ms, self.high_watermark)
            self.sync.synced_end = max(self.sync.synced_end, self.log.synced_end_offset)

    @property
    def _told_start(self) -> int:
        """The log start that a leader told, as far as this log is committed."""
        return min(self.told.log_start_offset, self._follower_watermark)

    async def _follow_start(self) -> None:
        """Takes over a log start at once, also when this replica leads by now: records that were deleted must not come back."""
        try:
            await self._advance_start(self._told_start)
        except (
            OncelogError
        ) as error:  # a full disk, or a log that was cut meanwhile: the next look at retention goes on
            if self.log.failed is not None:
                self.fail(error)

    async def compact(self, now_ms: int, limits: Limits, worker: PassWorker) -> Tally | None:
        """Compacts the log if that is due; returns what was done. Raises `StorageError` and `HelperGoneError`."""
        if self.failed is not None:
            return None
        if self.leadership is not None:
            self.leadership.tell_held()
        held = self.held_everywhere
        try:
            tally = await self.log.compact(
                now_ms, self.high_watermark, limits, self.sync.alone, worker, held_everywhere=held
            )
        except StorageError as error:
            if self.log.failed is not None:
                self.fail(error)
            raise
        self.sync.synced_end = max(self.sync.synced_end, self.log.synced_end_offset)
        return tally

    async def delete_before(self, offset: int) -> int:
        """Makes records below `offset` unreadable; returns the log start. Raises `StorageError`."""
        await self._advance_start(offset)
        if self.leadership is not None:
            self.leadership.log_start_moved()
        return self.log.log_start_offset

    async def _advance_start(self, offset: int) -> None:
        async with self.sync.alone:
            with self._host.disk_watch.sync(is_waited_for=self.topic_config.fsync):
                await self.log.advance_log_start(offset)
            self.sync.synced_end = max(self.sync.synced_end, self.log.synced_end_offset)

    # ------------------------------------------------------------ trouble

    def fail(self, error: OncelogError) -> None:
        """Fails the log, which may have lost records: ends the leadership and has the replica leave the ISR."""
        if self.failed is not None:
            return
        self.failed = StorageError("this log is being recovered", reason=error.context.get("reason", "io"))
        self.stop_leading(self.failed)
        self.wake_watchers()
        self._host.log_failed(self, error)

    def _synced(self, _end: int) -> None:
        if self.leadership is not None:
            self.leadership.synced()

    def _sync_failed(self, error: OncelogError) -> None:
        self.fail(error)

    async def close(self, *, clean: bool) -> None:
        """Stops leading and closes the log."""
        self.stop_leading()
        async with self.exclusive, self.sync.alone:
            clean = clean and self.failed is None
            self.failed = self.failed or StorageError("this log is closed", reason="closed")
            await self.log.close(clean)
