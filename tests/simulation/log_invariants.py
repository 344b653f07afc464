"""What a leader says of its log, checked against the logs themselves: of its own by a replay, of its followers' by a look.

The invariants of `invariants.py` compare a partition with its own past. These know what should be there: a little model of
the transactions in each partition's log, made of the batches as leaders append them.

Rule 1: the model follows the newest leader of a partition. What an older one appends beside it never counts.
Rule 2: what cannot be seen without reading a disk is not judged: such a partition is passed over from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from oncelog.core.batch.control import Marker, control_of
from oncelog.core.batch.header import BatchHeader, read_header
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.core.replication.replica_set import UNKNOWN, Follower
from oncelog_partition_leader.log.checkpoints import SEAL
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import partition_key
from oncelog_runtime.sim.disk import SimDisk
from tests.simulation.cluster import SimCluster
from tests.simulation.invariants import Sight, Watcher

Replicas = Callable[[PartitionId], Iterator[tuple[BrokerRef, LocalPartition]]]
"""The living replicas of a partition that can be looked at, with the incarnations of their brokers."""


class MinimumIsInSync:
    """A high watermark moves only while as many replicas as `min_insync_replicas` asks for are in the ISR (KIP-966).

    A step in which the ISR changed tells nothing: the watermark may have moved before that.
    """

    def __init__(self) -> None:
        self._isrs: dict[PartitionId, tuple[Leadership, int]] = {}

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        if now.leadership is None:
            return
        replicas = now.leadership.replicas
        isr = (now.leadership, replicas.mod_revision)
        seen, self._isrs[now.partition.id] = self._isrs.get(now.partition.id), isr
        if not _moved(before, now) or seen != isr:
            return
        assert len(replicas.committed) >= replicas.min_insync_replicas, (
            f"the watermark moved below min_insync_replicas, ISR {replicas.committed}: {now}"
        )


class NothingIsCommittedUnderSeal:
    """While a leader commits, no disk says of this epoch that nothing is committed in it: a power cut would make that a lie."""

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        if not _moved(before, now):
            return
        assert now.leadership is not None
        log = now.partition.log
        assert isinstance(log._disk, SimDisk)
        on_disk = log._disk._durable_files.get(f"{log.directory}/{SEAL}")
        seal = json.loads(on_disk.data) if on_disk is not None else {}
        assert seal.get("leader_epoch") != now.leadership.epoch, f"the watermark moved under {seal}: {now}"


class CommittedIsHeld:
    """What a leader takes for committed is in the log of each member of the ISR, in `fsync` topics on its disk."""

    def __init__(self, replicas: Replicas, written_off: Container[PartitionId]) -> None:
        self._replicas = replicas
        self._written_off = written_off
        self._was_replicated: set[PartitionId] = set()

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        where = now.partition.id
        if not now.partition.topic_config.fsync:
            self._was_replicated.add(where)  # what was written before a change to fsync need not be on a disk
        if not _moved(before, now) or where in self._written_off:
            return
        assert now.leadership is not None
        isr = now.leadership.replicas.committed
        for ref, partition in self._replicas(where):
            if ref in isr:
                log = partition.log
                synced = where not in self._was_replicated and partition.topic_config.fsync
                end = log.synced_end_offset if synced else log.log_end_offset
                assert end >= now.high_watermark, (
                    f"{ref} is in the ISR and {'syncs' if synced else 'ends'} at {end}: {now}"
                )


def _moved(before: Sight | None, now: Sight) -> bool:
    """A leader's high watermark moved."""
    if before is None or now.leadership is None or before.leadership is not now.leadership:
        return False
    return now.high_watermark > before.high_watermark


class _Transaction(NamedTuple):
    """A transaction with data in a log. `marker_offset` None: it is open."""

    first_offset: int
    marker_offset: int | None = None


@dataclass(slots=True)
class TransactionModel:
    """One partition's log, as far as transactions go."""

    epoch: int = -1
    end: int = 0
    open: dict[tuple[int, int], int] = field(default_factory=dict)
    """First offset by (txn_producer_id, txn_no)."""
    ended: list[tuple[tuple[int, int], _Transaction]] = field(default_factory=list)
    """By marker offset."""
    coordinators: list[tuple[int, int, int]] = field(default_factory=list)
    """(offset, transaction shard, coordinator epoch) of each marker."""
    marked: dict[tuple[int, int], int] = field(default_factory=dict)
    """Offset of the marker by (txn_producer_id, txn_no)."""
    sessions: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """(offset, session epoch) wherever it rose, by txn_producer_id."""
    leader_epochs: list[tuple[int, int]] = field(default_factory=list)
    """(leader epoch, start offset), as a log's own table."""

    def cut(self, offset: int) -> None:
        """The log now ends here."""
        while self.ended and (last := self.ended[-1][1]).marker_offset is not None and last.marker_offset >= offset:
            name, transaction = self.ended.pop()
            self.open[name] = transaction.first_offset
        self.open = {name: first for name, first in self.open.items() if first < offset}
        while self.coordinators and self.coordinators[-1][0] >= offset:
            self.coordinators.pop()
        self.marked = {name: at for name, at in self.marked.items() if at < offset}
        for rises in self.sessions.values():
            while rises and rises[-1][0] >= offset:
                rises.pop()
        while self.leader_epochs and self.leader_epochs[-1][1] >= offset:
            self.leader_epochs.pop()
        self.end = offset

    def agreed_with(self, leader_epochs: list[tuple[int, int]], log_start: int, log_end: int) -> int:
        """How far a log with this table of epochs is the model's: in one epoch from one start two logs are equal."""
        mine, theirs = _above(self.leader_epochs, log_start), _above(leader_epochs, log_start)
        for one, other in zip_longest(mine, theirs):
            if one != other:
                starts = [entry[1] for entry in (one, other) if entry is not None]
                return min(*starts, self.end, log_end)
        return min(self.end, log_end)

    def append(self, header: BatchHeader, batch: memoryview) -> None:
        """One more batch."""
        name = (header.txn_producer_id, header.txn_no)
        if not self.leader_epochs or self.leader_epochs[-1][0] != header.leader_epoch:
            self.leader_epochs.append((header.leader_epoch, header.base_offset))
        if not header.is_control:
            if header.is_transactional:
                self._data(header, name)
        elif isinstance(marker := control_of(batch), Marker):
            newest = max((epoch for _, shard, epoch in self.coordinators if shard == header.txn_shard), default=-1)
            assert marker.coordinator_epoch >= newest, (
                f"a marker of coordinator epoch {marker.coordinator_epoch} at {header.base_offset}, after one of {newest}"
            )
            if marker.coordinator_epoch > newest:
                self.coordinators.append((header.base_offset, header.txn_shard, marker.coordinator_epoch))
            self._mark(header, name, marker)
        self.end = header.next_offset

    def _data(self, header: BatchHeader, name: tuple[int, int]) -> None:
        newest = self._newest_session(name[0])
        assert header.producer_epoch >= newest, (
            f"session {header.producer_epoch} of {name} writes at {header.base_offset}, after one of {newest}"
        )
        assert name not in self.marked, f"{name} writes at {header.base_offset}, and ended at {self.marked[name]}"
        self._session(header.base_offset, name[0], header.producer_epoch)
        self.open.setdefault(name, header.base_offset)

    def _mark(self, header: BatchHeader, name: tuple[int, int], marker: Marker) -> None:
        at = self.marked.setdefault(name, header.base_offset)
        assert at == header.base_offset, f"{name} has a marker at {at}, and one more at {header.base_offset}"
        self._session(header.base_offset, name[0], marker.session_epoch)
        first = self.open.pop(name, None)
        if first is not None:
            self.ended.append((name, _Transaction(first, header.base_offset)))

    def _newest_session(self, producer_id: int) -> int:
        rises = self.sessions.get(producer_id)
        return rises[-1][1] if rises else -1

    def _session(self, offset: int, producer_id: int, epoch: int) -> None:
        if epoch > self._newest_session(producer_id):
            self.sessions.setdefault(producer_id, []).append((offset, epoch))

    def first_unstable(self, high_watermark: int) -> int | None:
        """First offset of a transaction that is open, or whose marker is not below the high watermark."""
        firsts = list(self.open.values())
        for _, transaction in reversed(self.ended):
            assert transaction.marker_offset is not None
            if transaction.marker_offset < high_watermark:
                break
            firsts.append(transaction.first_offset)
        return min(firsts, default=None)


def _above(leader_epochs: list[tuple[int, int]], log_start: int) -> list[tuple[int, int]]:
    """The table of a log that begins here."""
    begun = [(epoch, log_start) for epoch, start in leader_epochs if start <= log_start]
    return begun[-1:] + [entry for entry in leader_epochs if entry[1] > log_start]


class StableIsWhatTheLogSays:
    """The last stable offset of a leader is the one that follows from its log.

    Coordinators' epochs never fall there; a transaction has one marker; nobody writes in a session that was fenced.

    A leader begins with an older watermark than its predecessor's. It may have forgotten an ended transaction whose marker
    some leader has committed before (`reached`, the highest watermark of all): that one is stable whatever it says itself.
    """

    def __init__(self, reached: Callable[[PartitionId], int]) -> None:
        self._reached = reached
        self._models: dict[PartitionId, TransactionModel | None] = {}

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        leadership, partition = now.leadership, now.partition
        model = self._models.setdefault(partition.id, TransactionModel())
        if leadership is None or model is None or leadership.epoch < model.epoch:
            return
        if leadership.epoch > model.epoch:
            # What the model has of epochs that this leader never saw is not in its log, and it may have others instead.
            log = partition.log
            start = leadership.replicas.epoch_start
            model.cut(model.agreed_with(log.epochs.entries, log.log_start_offset, start))
            model.epoch = leadership.epoch
        if model.end < now.log_end:
            if not partition.log.is_cached(model.end):
                self._models[partition.id] = None
                return
            for header, batch in batches_between(partition, model.end, now.log_end):
                model.append(header, batch)
        expected = _stable(model, now.high_watermark, now.high_watermark)
        at_most = _stable(model, now.high_watermark, max(now.high_watermark, self._reached(partition.id)))
        log = partition.log
        if expected >= log.log_start_offset:
            stable = log.last_stable_offset(now.high_watermark)
            assert expected <= stable <= at_most, f"the last stable offset is {stable}, by the log {expected}: {now}"


def _stable(model: TransactionModel, high_watermark: int, committed: int) -> int:
    """The last stable offset of a leader with this watermark that takes markers below `committed` for committed."""
    unstable = model.first_unstable(committed)
    return high_watermark if unstable is None else min(unstable, high_watermark)


def batches_between(partition: LocalPartition, start: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each batch, from memory."""
    data, position = memoryview(partition.log.read(start, 1 << 30, end)), 0
    while position < len(data):
        header = read_header(data, position)
        yield header, data[position : position + header.batch_length]
        position += header.batch_length


class NothingIsSetAside:
    """A log is set aside as rotten only where something was damaged: a power cut alone leaves torn tails, never rot."""

    def __init__(self, brokers: Callable[[], Iterator[Broker]], is_damaged: Callable[[], bool]) -> None:
        self._brokers = brokers
        self._is_damaged = is_damaged

    def see(self, before: Sight | None, now: Sight) -> None:
        """Looks at a log when it is seen first."""
        if before is None and not self._is_damaged():
            for broker in self._brokers():
                aside = now.partition.id in broker.replicas._opener._quarantined
                assert not (broker.me() == now.broker and aside), f"set aside as rotten, and nothing was damaged: {now}"


class DerivedEndsWithTheLog:
    """No leader epoch begins and no aborted transaction ends above the end of the log: a cut takes them along."""

    def see(self, before: Sight | None, now: Sight) -> None:
        """Looks after each cut, and when a log is seen first."""
        if before is not None and before.log_end <= now.log_end:
            return
        log = now.partition.log
        if log.epochs.entries:
            epoch, start = log.epochs.entries[-1]
            assert start < now.log_end or start <= log.log_start_offset, f"epoch {epoch} begins at {start}: {now}"
        above = log.aborted_between(now.log_end, 1 << 62)
        assert not above, f"{above[0]} is in the aborted index: {now}"


class CountsInItsSession:
    """What a leader counts for a follower that lives was told in a session that this follower has begun (hole 24).

    A follower that failed, and was opened again, has forgotten its session. Etcd says so before (hole 3): a leader that
    has not heard of that write may count what it was told before, and no write of its own succeeds until it has.
    """

    def __init__(self, replicas: Replicas, newest_revision: Callable[[PartitionId], int]) -> None:
        self._replicas = replicas
        self._newest_revision = newest_revision

    def see(self, before: Sight | None, now: Sight) -> None:
        """Looks at each acknowledgement of a new leadership from now on."""
        if now.leadership is not None and (before is None or before.leadership is not now.leadership):
            self._look_at_acknowledgements(now.partition.id, now.leadership)

    def _look_at_acknowledgements(self, where: PartitionId, leadership: Leadership) -> None:
        replicas, acknowledge = leadership.replicas, leadership.replicas.acknowledge

        def acknowledged(ref: BrokerRef, session: int, end: int, now_ms: int, synced_end: int = UNKNOWN) -> bool:
            moved = acknowledge(ref, session, end, now_ms, synced_end)
            counted = replicas.followers.get(ref.broker_id)
            if counted is not None and counted.end != UNKNOWN:
                self._check(where, leadership, counted)
            return moved

        replicas.acknowledge = acknowledged  # type: ignore[method-assign]

    def _check(self, where: PartitionId, leadership: Leadership, counted: Follower) -> None:
        for ref, partition in self._replicas(where):
            begun = partition._session
            if ref == counted.ref and begun < (leadership.epoch, counted.session):
                assert self._newest_revision(where) > leadership.replicas.mod_revision, (
                    f"{where}: {counted} counts, and the follower is in (epoch, session) {begun}"
                )


_DAMAGE = ("rot_every_ms", "bit_flip_every_ms", "lose_volume_every_ms", "lose_volume")


def watch_logs(watcher: Watcher, cluster: SimCluster, written_off: Container[PartitionId] = ()) -> None:
    """Hooks these invariants in. `written_off`: partitions that lost more than the promise covers."""
    injected = cluster.world.loop.injected

    def living(partition_id: PartitionId) -> Iterator[tuple[BrokerRef, LocalPartition]]:
        for _, broker in cluster.brokers():
            partition = broker.replicas.partitions.get(partition_id)
            if partition is not None and partition.failed is None and not partition.exclusive.locked():
                yield broker.me(), partition

    def newest_revision(partition_id: PartitionId) -> int:
        key = partition_key(*partition_id)
        return max(item.mod_revision for item in cluster.world.metadata.list(key).items if item.key == key)

    watcher.add(MinimumIsInSync())
    watcher.add(NothingIsCommittedUnderSeal())
    watcher.add(CommittedIsHeld(living, written_off))
    watcher.add(StableIsWhatTheLogSays(watcher.reached_in))
    watcher.add(DerivedEndsWithTheLog())
    watcher.add(CountsInItsSession(living, newest_revision))
    watcher.add(
        NothingIsSetAside(
            lambda: (broker for _, broker in cluster.brokers()), lambda: any(injected.get(name) for name in _DAMAGE)
        )
    )
