"""All partitions of this broker: opens and closes their logs, and gives each the role that etcd names.

Theory of operation: the view of etcd calls `_saw` with each changed key; `_apply` compares a partition's value with the replica
here and starts the missing step: open, lead, follow, close, or remove. It may be called at any time, since it looks only at the
present values. Steps that await run as tasks, one per partition (`_opening`, `_raising`), and end with another `_apply`.
What can go wrong: this process takes a role that etcd gave to an earlier one (rule 1); a failed disk loses records that the ISR
counts on (rule 2, hole 3); an outdated view, or a restored etcd, has a needed log deleted (rule 3, hole 27).

Rule 1: a process acts only on entries that name its own incarnation (hole 2). With a new incarnation every leadership
        of the old one ends at once.
Rule 2: a log that may have lost records is opened again only after etcd names its replica nowhere any more (hole 3), so that
        other partitions of this broker are not affected; if no other replica can lead it, under a new incarnation. A rotten
        one is set aside, and its replica is not electable until it was in an ISR again.
Rule 3: a log is removed only when etcd says so (`replica_deletion`), and then it goes to the trash. The log of a topic that
        is merely absent is closed, and kept.
Rule 4: a handler only looks a partition up and waits; the state changes only here and in the partition itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from oncelog.errors import NotLeaderError, OncelogError, StorageError, UnknownTopicError
from oncelog.ports import Transport, WallClock
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.core.replication.replica_state import ReplicaState
from oncelog_partition_leader.log.data_dir.custody import Custody
from oncelog_partition_leader.log.data_dir.leftovers import Leftovers
from oncelog_partition_leader.log.data_dir.replica_deletion import is_deleted, is_moved_away, sweep
from oncelog_partition_leader.log.data_dir.trash import Trash
from oncelog_partition_leader.log.disk_watch import DiskWatch
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.topic_config import TopicConfig, effective, min_insync_of
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.partition.coordinator_client import Coordinators
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.epoch_raising import raise_epoch
from oncelog_partition_leader.replication.handover import HandOver
from oncelog_partition_leader.replication.isr import IsrKeeper
from oncelog_partition_leader.replication.leader import Replicator
from oncelog_partition_leader.replication.log_opening import LogOpener
from oncelog_partition_leader.replication.observe.metrics_observer import MetricsObserver
from oncelog_partition_leader.replication.observe.trace_observer import observed_by
from oncelog_partition_leader.replication.sealing import Sealer
from oncelog_partition_leader.replication.stalled_disk import give_way
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import Partition, Topic
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned, partition_of
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Disk
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.serving.signpost import Signpost

_log = logging.getLogger(__name__)
_OPEN_AT_ONCE = 4
_RETRY_S = 0.5
_LEASE_LATE_MS = 500
"""etcd ends leases twice a second."""
_CLAIM_S = 1.0
_RETRY_MAX_S = 10.0
"""The longest pause between two tries to open a log."""


class ReplicaManager:
    """Owns every local partition, and serves it and its leadership as their host."""

    def __init__(
        self,
        config: BrokerConfig,
        ports: NodePorts,
        cluster: ClusterContext,
        coordinators: Coordinators,
        custody: Custody,
        tasks: TaskOwner,
        *,
        unreachable: Callable[[BrokerRef, OncelogError], None],
        bugs: Bugs,
    ) -> None:
        view, silent = cluster.view, cluster.contacts.silent
        self._cluster = cluster
        self._config = config
        self._view = view
        self._tasks = tasks
        self._disk: Disk = ports.disk
        self._metadata = ports.metadata
        self._clock = ports.clock
        self._transport = ports.transport
        self._coordinators = coordinators
        self._me = cluster.me
        self._unreachable = unreachable
        self._custody = custody
        self.defaults = TopicConfig(
            min_insync_replicas=config.min_insync_replicas,
            log=LogConfig(max_message_bytes=config.message_max_bytes, tail_cache_bytes=config.tail_cache_bytes),
        )
        self.metrics = BrokerMetrics(ports.metrics)
        self.observer = observed_by(ports.tracer, MetricsObserver(self.metrics))
        self._replicator = Replicator(self, tasks)
        self._isr = IsrKeeper(ports.metadata, view, ports.clock, tasks, lambda: silent(config.replica_silence_max_ms))
        self.hand_over = HandOver(ports.metadata, view, ports.clock, cluster.me, self.min_insync_of)
        self.trash = Trash(ports.disk, config.log_dir, config.trash_retention_ms)
        cluster_now_ms = cluster.contacts.cluster_now_ms
        self.leftovers = Leftovers(
            ports.disk, config.log_dir, self.trash, ports.metadata, view, ports.clock, cluster_now_ms, self._is_used
        )
        self._looking = False
        self._opening: dict[PartitionId, None] = {}
        self._raising: dict[PartitionId, None] = {}
        self._opener = LogOpener(
            ports.disk, config.log_dir, self.trash, ports.clock, custody, lambda: self._newest_incarnation
        )
        self._slots = asyncio.Semaphore(_OPEN_AT_ONCE)
        self._failed_under: dict[PartitionId, BrokerRef] = {}
        self._closing = False
        self._leaves_disk = False
        self.disk_watch = DiskWatch(ports.clock, config.disk_stall_max_ms, self._disk_stalled)
        self._sealer = Sealer(ports.disk, self.disk_watch, tasks)
        self.bugs = bugs
        self.unopened: dict[PartitionId, OncelogError] = {}
        """Replicas whose log could not be opened, with the error; they are tried again."""
        self.partitions: dict[PartitionId, LocalPartition] = {}
        self.led: dict[Leadership, None] = {}
        view.listen(self._saw)

    # ------------------------------------------------------------ what hosts are asked for

    @property
    def view(self) -> ClusterView:
        return self._view

    @property
    def config(self) -> BrokerConfig:
        return self._config

    @property
    def transport(self) -> Transport:
        return self._transport

    @property
    def clock(self) -> WallClock:
        return self._clock

    @property
    def tasks(self) -> TaskOwner:
        return self._tasks

    @property
    def signpost(self) -> Signpost:
        return self._cluster.signpost

    def me(self) -> BrokerRef:
        return self._me()

    def appended(self, leadership: Leadership) -> None:
        self._replicator.appended(leadership)

    def watermark_moved(self, leadership: Leadership) -> None:
        self._replicator.watermark_moved(leadership)
        partition = self.partitions.get(leadership.partition)
        if partition is not None:
            partition.wake_watchers()

    def gone(self, brokers: Iterable[int]) -> Collection[int]:
        live = self._view.live()
        return {id_ for id_ in brokers if id_ not in live or self._cluster.contacts.is_gone(BrokerRef(id_, live[id_]))}

    def isr_may_change(self, leadership: Leadership) -> None:
        self._isr.look(leadership)

    def taken_out(self, leadership: Leadership, broker_id: int) -> None:
        self._replicator.restart(leadership, broker_id)

    def leadership_ended(self, leadership: Leadership) -> None:
        self._replicator.ended(leadership)
        self.led.pop(leadership, None)

    def enrol(self, leadership: Leadership, session: TxnSession, txn_shard: int, transactional_id: str) -> None:
        self._coordinators.enrol_soon(leadership, session, txn_shard, transactional_id)

    def fenced(self, leadership: Leadership, error: OncelogError) -> None:
        partition = self.partitions.get(leadership.partition)
        if partition is not None and partition.leadership is leadership:
            _log.info("%s: a follower knows a newer epoch: %s", leadership.partition, error)
            partition.saw_epoch(int(error.context["known_epoch"]))
            self._apply(partition.id)  # if etcd still names this broker, it takes a higher epoch

    def unreachable(self, ref: BrokerRef, error: OncelogError) -> None:
        self._unreachable(ref, error)

    def append_failed(self, leadership: Leadership, error: OncelogError) -> None:
        partition = self.partitions.get(leadership.partition)
        if partition is not None and partition.log.failed is not None:
            partition.fail(error)
        elif self.hand_over.is_due(leadership.partition):  # a full disk loses nothing: let another one write
            self._tasks.spawn(self.hand_over.give_away([leadership], leaves=True), "hand-over")

    def _disk_stalled(self, stalled: bool) -> None:
        if stalled and not self._closing:
            for partition in self.partitions.values():
                partition.sync.stalled()
            if not self._leaves_disk:
                self._leaves_disk = True
                self._tasks.spawn(self._leave_disk(), "leave-disk")

    async def _leave_disk(self) -> None:
        try:
            await give_way(self.disk_watch, self.hand_over, self._view, self.partitions, self.led, self._me)
        finally:
            self._leaves_disk = False

    def broken(self, leadership: Leadership) -> None:
        partition = self.partitions.get(leadership.partition)
        if partition is not None:
            partition.fail(StorageError("the leader's state may contradict its log", reason="bug"))

    def log_failed(self, partition: LocalPartition, error: OncelogError) -> None:
        _log.error("the log of %s %s failed: %s", partition.topic, partition.id, error)
        if partition.id not in self._failed_under and not self._closing:
            self._failed_under[partition.id] = self._me()
            self._tasks.spawn(self._leave_failed(partition), "leave-failed")

    async def _leave_failed(self, partition: LocalPartition) -> None:
        """Applies rule 2. The claim is lowered first: this process may end before etcd is written."""
        under, name = self._failed_under[partition.id], partition.id
        try:
            async with asyncio.timeout(_CLAIM_S):
                await self._opener.lower_claim(partition.log.directory, under.incarnation + 1)
        except (OncelogError, TimeoutError) as error:
            _log.warning("what is left of the log of %s cannot be written down: %r", name, error)
        forgotten = under.incarnation > 0 and await self.hand_over.forget(name)
        if self._closing or self._failed_under.get(name) != under:
            return  # opened again under a new incarnation
        if forgotten:
            del self._failed_under[name]
            self._opener.left(name)
            await self._reopen(name)
        else:
            self._cluster.registration.renew(
                f"the log of {partition.topic}-{name.partition} failed, and nobody else can lead it"
            )

    # ------------------------------------------------------------ following etcd

    def incarnation_is(self, ref: BrokerRef) -> None:
        """Takes over a new incarnation: roles that etcd gave to the old one end."""
        for partition in list(self.partitions.values()):
            partition.stop_leading()
        self._opener.registered()
        for partition_id, under in list(self._failed_under.items()):
            if under != ref:
                del self._failed_under[partition_id]
                self._tasks.spawn(self._reopen(partition_id), "reopen")
        for partition_id in list(self.partitions):
            self._apply(partition_id)

    def etcd_was_restored(self) -> None:
        """Steps down everywhere: all roles were given by etcd as it was before the restore."""
        for partition in self.partitions.values():
            partition.etcd_was_restored()

    def _saw(self, keys: list[str]) -> None:
        if not self._looking and self._view.revision:
            self._looking = True  # the first listing: a topic may have been deleted while this broker was down
            self._tasks.spawn(self.leftovers.look(), "leftovers")
        for key in keys:
            if key.startswith(cluster_keys.PARTITIONS):
                self._apply(partition_of(key))
            elif key.startswith(cluster_keys.TOPICS):
                self._topic_changed(key.removeprefix(cluster_keys.TOPICS))
            elif key.startswith(cluster_keys.BROKERS):
                broker_id = int(key.removeprefix(cluster_keys.BROKERS))
                entry = self._view.brokers.get(broker_id)
                if entry is not None:
                    self._replicator.incarnation_is(BrokerRef(broker_id, entry.mod_revision))

    def _topic_changed(self, name: str) -> None:
        entry = self._view.topics.get(name)
        if entry is None:
            return
        topic = entry.value
        for number in range(topic.partitions):
            self._apply(PartitionId(topic.topic_id, number))

    def _apply(self, partition_id: PartitionId) -> None:
        """Gives one partition the state that the view says."""
        if self._closing:
            return
        entry = self._view.partitions.get(partition_id)
        partition = self.partitions.get(partition_id)
        topic = self._view.topic_by_id(partition_id.topic_id)
        mine = entry is not None and self._config.broker_id in entry.value.replicas
        if entry is None or not mine:
            if partition is not None and topic is None and partition_id not in self._opening:
                self._opening[partition_id] = None
                self._tasks.spawn(self._without_topic(partition), "close-partition")
            elif entry is not None and topic is not None:
                self._moved_away(partition_id, entry.value)
            return
        if topic is None:
            return
        if partition is None:
            if partition_id not in self._opening:
                self._opening[partition_id] = None
                self._tasks.spawn(self._open(partition_id), "open-partition")
            return
        self._configure(partition, topic)
        self._give_role(partition, entry)

    def _moved_away(self, partition_id: PartitionId, state: Partition) -> None:
        partition = self.partitions.get(partition_id)
        if partition is not None:
            partition.saw_epoch(state.leader_epoch)
        if partition_id in self._opening:
            return  # `_apply` is called again at its end
        if partition is not None or self._disk.exists(self.directory_of(state.topic, partition_id)):
            self._opening[partition_id] = None
            self._tasks.spawn(self._remove(partition_id, state.topic), "remove-replica")

    def _configure(self, partition: LocalPartition, topic: Topic) -> None:
        try:
            partition.configure(effective(topic.config, self.defaults))
        except OncelogError as error:
            _log.error("the options of %s are not legal here and not taken: %s", topic.name, error)

    def _give_role(self, partition: LocalPartition, entry: Versioned[Partition]) -> None:
        state, me = entry.value, self._me()
        if state.leader == me and partition.isr_seen is not None:
            self.observer.isr_changed(partition.isr_seen, state.isr)
        partition.isr_seen = state.isr
        if partition.failed is not None:
            return
        if me in state.isr and self._opener.owes(partition.id):
            self._tasks.spawn(self._opener.in_sync(partition), "in-sync-again")
        if state.leader != me or not me.incarnation:
            partition.saw_epoch(state.leader_epoch)
            if partition.leadership is not None and partition.leadership.epoch <= state.leader_epoch:
                partition.stop_leading()
            return
        leadership = partition.leadership
        if leadership is not None and leadership.epoch == state.leader_epoch:
            leadership.isr_is(state, entry.mod_revision)
            self._isr.look(leadership)
            self._sealer.look(partition)
        elif partition.exclusive.locked():
            self._tasks.spawn(self._when_free(partition), "wait-to-lead")
        else:
            self._lead(partition, entry)

    async def _when_free(self, partition: LocalPartition) -> None:
        async with partition.exclusive:
            pass
        self._apply(partition.id)

    def _lead(self, partition: LocalPartition, entry: Versioned[Partition]) -> None:
        state = entry.value
        leadership = partition.lead(self._me(), state, entry.mod_revision, partition.topic_config.min_insync_replicas)
        if leadership is None:
            if partition.failed is None and partition.id not in self._raising:
                self._raising[partition.id] = None
                self._tasks.spawn(self._raise_epoch(partition, entry), "raise-epoch")
            return
        _log.info("leading %s-%d in epoch %d", partition.topic, partition.id.partition, state.leader_epoch)
        self.led[leadership] = None
        self.observer.leads()
        self._replicator.began(leadership)
        self._sealer.look(partition)

    async def _raise_epoch(self, partition: LocalPartition, entry: Versioned[Partition]) -> None:
        above = max(partition.known_epoch, partition.log.last_epoch, entry.value.leader_epoch)
        if entry.value.leader == self._me():
            await raise_epoch(self._metadata, self._view, self._me(), partition.id, entry, above)
        await asyncio.sleep(_RETRY_S)
        del self._raising[partition.id]
        self._apply(partition.id)

    # ------------------------------------------------------------ opening and closing

    async def prepare(self) -> None:
        """Prepares the folder of logs, before any is opened. Raises `StorageError`."""
        self._disk.make_dirs(self._config.log_dir)
        sweep(self._disk, self._config.log_dir)
        await self._disk.sync_dir("")  # else a power cut could take every log with the folder's name

    def directory_of(self, topic: str, partition_id: PartitionId) -> str:
        """Returns the directory of a partition's log."""
        return self._opener.directory_of(topic, partition_id)

    def _is_used(self, partition_id: PartitionId) -> bool:
        return partition_id in self.partitions or partition_id in self._opening

    async def _open(self, partition_id: PartitionId, rescan: bool = False) -> None:
        """Opens a log; tries until it succeeds, with growing pauses, while other partitions are served."""
        pause_s = _RETRY_S
        while not self._closing:
            topic = self._view.topic_by_id(partition_id.topic_id)
            if topic is None:
                break
            name = f"{topic.name}-{partition_id.partition}"
            try:
                config = effective(topic.config, self.defaults)
                async with self._slots:
                    log = await self._opener.open(partition_id, topic.name, config.log, rescan=rescan)
            except OncelogError as error:
                _log.error("the log of %s cannot be opened, it is tried again in %.1f s: %s", name, pause_s, error)
                self.unopened[partition_id] = error
            except Exception as error:
                self.unopened[partition_id] = self.bugs.met("open", error, name)
            else:
                partition = LocalPartition(self, partition_id, topic.name, log, config)
                self._opener.opened(partition)
                self.partitions[partition_id] = partition
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_MAX_S)
        self.unopened.pop(partition_id, None)
        self._opening.pop(partition_id, None)
        self._apply(partition_id)

    async def lower_claim(self, partition: LocalPartition) -> None:
        """Lowers the claim of a log before it is copied again from its leader."""
        await self._opener.will_be_reset(partition)

    @property
    def _newest_incarnation(self) -> int:
        """This process's incarnation, or, before it has one, the lowest that it can get."""
        return self._me().incarnation or self._view.revision + 1

    async def _reopen(self, partition_id: PartitionId) -> None:
        self._opener.failed(partition_id)
        partition = self.partitions.pop(partition_id, None)
        if partition is None:
            return
        self._opening[partition_id] = None
        is_rotten = partition.failed is not None and partition.failed.context.get("reason") == "rot"
        try:
            await partition.close(clean=False)
        except OncelogError as error:
            _log.warning("closing the failed log of %s: %s", partition_id, error)
        await self._open(partition_id, rescan=is_rotten)

    async def _without_topic(self, partition: LocalPartition) -> None:
        """Closes a log whose topic is not in etcd, and trashes it if the topic was deleted. `_opening` keeps it closed."""
        if self.partitions.get(partition.id) is not partition:
            return  # being opened again, which ends without a topic
        del self.partitions[partition.id]
        name = f"{partition.topic}-{partition.id.partition}"
        partition.stop_leading(UnknownTopicError("the topic is not in etcd", topic=partition.topic))
        deleted = await is_deleted(self._metadata, partition.id.topic_id)
        try:
            await partition.close(clean=not deleted and partition.failed is None)
        except OncelogError as error:
            _log.warning("closing %s: %s", name, error)
        self._failed_under.pop(partition.id, None)
        self._opening.pop(partition.id, None)
        if deleted:
            _log.info("%s: the topic was deleted", name)
            self._opener.forget(partition.id)
            await self.leftovers.trash_all(self.leftovers.of(partition.id))
        else:
            _log.error("%s: etcd does not know the topic, but nobody has deleted it; its log is closed and kept", name)
        self._apply(partition.id)

    async def _remove(self, partition_id: PartitionId, topic: str) -> None:
        """Removes a replica that was moved away (`replica_deletion`). `_opening` keeps its log closed meanwhile."""
        partition = self.partitions.pop(partition_id, None)
        try:
            if await is_moved_away(self._metadata, self._view, partition_id, self._config.broker_id):
                _log.info("removing the replica of %s-%d: it was moved", topic, partition_id.partition)
                if partition is not None:
                    await partition.close(clean=False)
                for folder in self.leftovers.of(partition_id):
                    await self.leftovers.put_away(folder)
                self._opener.forget(partition_id)
            elif partition is not None and (partition.failed is None or partition_id in self._failed_under):
                self.partitions[partition_id] = partition
            elif partition is not None:  # it failed, and there is a new incarnation since: opened again
                await partition.close(clean=False)
        except OncelogError as error:
            _log.warning("removing the replica of %s-%d: %s", topic, partition_id.partition, error)
            await asyncio.sleep(_RETRY_S)
        finally:
            self._opening.pop(partition_id, None)
        self._apply(partition_id)

    async def close(self, *, clean: bool) -> None:
        """Closes every log."""
        self._closing = True
        all_clean = clean and not self._opening
        for partition in list(self.partitions.values()):
            all_clean = all_clean and partition.failed is None
            try:
                await partition.close(clean=clean)
            except OncelogError as error:
                all_clean = False
                _log.warning("closing %s: %s", partition.id, error)
        if all_clean:
            try:
                await self._custody.close()
            except OncelogError as error:
                _log.warning("that all logs are whole cannot be written down: %s", error)

    # ------------------------------------------------------------ asked by handlers

    def find(self, partition_id: PartitionId) -> LocalPartition:
        """Returns a local partition. Raises `NotLeaderError` when it is not here, or as `require_leader` does."""
        partition = self.partitions.get(partition_id)
        if partition is None:
            self._view.require_leader(partition_id)
            raise NotLeaderError(
                "this broker does not lead the partition",
                partition=partition_id.partition,
                go_to=self._cluster.signpost.leader(partition_id),
            )
        return partition

    def status(self, partition_id: PartitionId) -> ReplicaState:
        """Returns the end of a log, and its claims. Raises `StorageError`."""
        partition = self.partitions.get(partition_id)
        if partition is None or partition.failed is not None or partition.exclusive.locked():
            why = self.unopened.get(partition_id)
            raise StorageError("the log is not open", reason="opening", cause=why.message if why is not None else "")
        return self._opener.status(partition)

    def min_insync_of(self, topic: str) -> int:
        """Returns `min_insync_replicas` of a topic by name."""
        return min_insync_of(self._view, topic, self.defaults)

    @property
    def recovered(self) -> bool:
        """True when every replica that etcd gives this broker is open, or was tried once; False before the first listing."""
        if not self._view.revision:
            return False
        mine = (p for p, entry in self._view.partitions.items() if self._config.broker_id in entry.value.replicas)
        known = self._view.topic_names
        return all(p in self.partitions or p in self.unopened or p.topic_id not in known for p in mine)

    # ------------------------------------------------------------ housekeeping

    def tick(self) -> None:
        """Fails the requests that have waited too long, for followers or for the disk."""
        self.disk_watch.look()
        now_ms = self._clock.monotonic_ms()
        for leadership in list(self.led):
            try:
                leadership.expire(now_ms)
            except Exception as error:
                self.bugs.met("task", error, f"time-outs of {leadership.partition}")

    def look_at_isrs(self) -> None:
        """Shrinks and grows ISRs, and starts syncs that are due."""
        self._give_way()
        for leadership in list(self.led):
            try:
                self._isr.look(leadership)
            except Exception as error:
                self.bugs.met("task", error, f"the ISR of {leadership.partition}")
        for partition in self.partitions.values():
            self._sealer.look(partition)
            if partition.failed is None and partition.log.failed is not None:
                partition.fail(partition.log.failed)  # found by a read, which could not act on it
            elif partition.failed is None and partition.log.wants_sync:
                partition.sync.request()

    def _give_way(self) -> None:
        """Hands over to members that are silent for longer than a dead one stays registered: this broker is cut off."""
        now_ms = self._clock.monotonic_ms()
        alive = self._cluster.contacts.silent(self._config.session_timeout_ms + _LEASE_LATE_MS)
        isolated = [led for led in self.led if led.replicas.must_give_way(now_ms, alive)] if alive else []
        isolated = [led for led in isolated if self.hand_over.is_due(led.partition)]
        if isolated:
            _log.warning("cut off from the followers of %d partitions: one of them is to lead", len(isolated))
            self._tasks.spawn(self.hand_over.give_away(isolated, leaves=False, to=alive), "give-way")

    async def trim(self) -> None:
        """Applies retention to all partitions, by most brokers' clocks: followers repeat a leader's deletions."""
        for partition in list(self.partitions.values()):
            try:
                await partition.trim(self._cluster.contacts.cluster_now_ms())
            except StorageError as error:
                if partition.log.failed is not None:
                    partition.fail(error)
                _log.warning("retention of %s: %s", partition.id, error)
            except Exception as error:
                self.bugs.met("task", error, f"retention of {partition.id}")
        await self.leftovers.look()
