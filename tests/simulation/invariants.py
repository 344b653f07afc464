"""What must hold after every event, in every process: checked by the loop's step hook, on the node whose code just ran.

Rule 1: an invariant is a small class with a name; it keeps what it has seen, and asserts on what it sees now.
Rule 2: looking changes nothing: no disk is read (a read could be made to fail), no random number is drawn.
Rule 3: a violation ends the run at once, so the trace ends where the fault is.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final, Protocol
from zlib import crc32

from oncelog.core.batch.header import read_header
from oncelog.types import BrokerRef, PartitionId
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import Topic, topic_key
from oncelog_runtime.sim.loop import Life
from tests.simulation.cluster import SimCluster
from tests.simulation.history import Key
from tests.simulation.movement import Movement, notice
from tests.simulation.store_watch import StoreWatch

_CHECK_STEPS: Final = 199
"""Every so many steps of a node its cores check themselves."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A partition on one broker, as it stands after a step."""

    broker: BrokerRef
    partition: LocalPartition
    leadership: Leadership | None
    high_watermark: int
    log_end: int
    on_disk: tuple[int, int, int]
    """What the log says of its disk: synced end, recovery point, log start."""

    def __str__(self) -> str:
        role = "follows" if self.leadership is None else f"leads epoch {self.leadership.epoch}"
        where = f"broker {self.broker.broker_id}#{self.broker.incarnation} {role} {self.partition.topic}"
        return f"{where}-{self.partition.id.partition}: HW {self.high_watermark}, LEO {self.log_end}"


class Invariant(Protocol):
    """Sees each change of a partition on a broker. `before` is the last sight of the same log object."""

    def see(self, before: Sight | None, now: Sight) -> None:
        """Raises `AssertionError`."""
        ...


class WatermarkNeverFalls:
    """A high watermark that was known never falls while a broker lives: nothing committed is cut off."""

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        if before is not None:
            assert now.high_watermark >= before.high_watermark, f"high watermark fell: {before} -> {now}"


class MarksAreInOrder:
    """Log start <= LSO <= high watermark <= log end."""

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        log = now.partition.log
        assert now.high_watermark <= now.log_end, f"high watermark above the log end: {now}"
        assert log.log_start_offset <= now.high_watermark, f"log start {log.log_start_offset} too high: {now}"
        if now.leadership is not None:
            stable = log.last_stable_offset(now.high_watermark)
            assert stable <= now.high_watermark, f"LSO {stable} above the high watermark: {now}"


class EpochNeverFalls:
    """The leader epoch that a broker obeys never falls while it lives, and a leader leads in no older one."""

    def __init__(self) -> None:
        self._known: dict[LocalPartition, int] = {}

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        partition = now.partition
        known = self._known.get(partition, -1)
        assert partition.known_epoch >= known, f"known epoch fell from {known} to {partition.known_epoch}: {now}"
        self._known[partition] = partition.known_epoch
        if now.leadership is not None:
            assert now.leadership.epoch >= partition.known_epoch, f"leads below epoch {partition.known_epoch}: {now}"


class OneLeaderPerEpoch:
    """In one epoch of a partition one broker incarnation leads, for ever."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[PartitionId, int], BrokerRef] = {}

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        if now.leadership is None or (before is not None and before.leadership is now.leadership):
            return
        me = now.leadership.replicas.me
        first = self._leaders.setdefault((now.partition.id, now.leadership.epoch), me)
        assert first == me, f"{first} and {me} led in one epoch: {now}"


class OffsetsAreGivenOnce:
    """In one epoch an offset is given to one batch only, whoever gives it."""

    def __init__(self) -> None:
        self._given: dict[tuple[PartitionId, int, int], int] = {}

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        if now.leadership is None:
            return
        start = now.leadership.replicas.epoch_start
        if before is not None and before.leadership is now.leadership:
            start = before.log_end
        for epoch, offset, checksum in _batches(now.partition, start, now.log_end):
            assert epoch == now.leadership.epoch, f"offset {offset} was written in epoch {epoch}: {now}"
            first = self._given.setdefault((now.partition.id, epoch, offset), checksum)
            assert first == checksum, f"offset {offset} was given twice in epoch {epoch}: {now}"


def _batches(partition: LocalPartition, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(leader epoch, base offset, checksum) of each batch that is in memory."""
    if start >= end or not partition.log.is_cached(start):
        return
    data, position = memoryview(partition.log.read(start, 1 << 30, end)), 0
    while position < len(data):
        header = read_header(data, position)
        yield header.leader_epoch, header.base_offset, crc32(data[position : position + header.batch_length])
        position += header.batch_length


class AcknowledgedIsCommitted:
    """What a client was told is written with `acks=all` lies below a high watermark that some leader had reached."""

    def __init__(self) -> None:
        self._watermarks: dict[PartitionId, int] = {}

    def see(self, before: Sight | None, now: Sight) -> None:
        """Remembers the highest of all leaders' watermarks. One that ended in this step may have moved its own before that."""
        where = now.partition.id
        reached = [self._watermarks.get(where, 0)]
        if now.leadership is not None:
            reached.append(now.high_watermark)
        if before is not None and before.leadership is not None:
            reached.append(before.leadership.replicas.high_watermark)
        self._watermarks[where] = max(reached)

    def reached(self, partition: PartitionId) -> int:
        """The highest high watermark of any leader so far."""
        return self._watermarks.get(partition, 0)

    def acknowledged(self, partition: PartitionId, offset: int) -> None:
        """A client was told that its record is at this offset."""
        reached = self._watermarks.get(partition, 0)
        assert offset < reached, (
            f"{partition} offset {offset} was acknowledged; no leader's high watermark is above {reached}"
        )


def _on_disk(partition: LocalPartition) -> tuple[int, int, int]:
    log = partition.log
    return log.synced_end_offset, log._point.end_offset, log.log_start_offset


class Watcher:
    """Hooks the invariants into a cluster. `checked` counts what they saw: a watcher that saw nothing proves nothing.

    `written_off`: partitions that lost more than the promise covers.
    """

    def __init__(self, cluster: SimCluster, written_off: Container[PartitionId] = ()) -> None:
        self.checked = 0
        self._cluster = cluster
        self._loop = cluster.world.loop
        self._acknowledged = AcknowledgedIsCommitted()
        self._invariants: list[Invariant] = [
            WatermarkNeverFalls(),
            MarksAreInOrder(),
            EpochNeverFalls(),
            OneLeaderPerEpoch(),
            OffsetsAreGivenOnce(),
            self._acknowledged,
        ]
        self.store = StoreWatch(cluster, self._acknowledged.reached, written_off)
        self._sights: dict[LocalPartition, Sight] = {}
        self._steps: dict[str, int] = {}
        self._names: dict[Life, str] = {}
        self._look_again: dict[Life, None] = {}
        """Who had something that moved and could not be looked at."""
        notice()
        self._loop.add_step_hook(self._step)

    def add(self, invariant: Invariant) -> None:
        """One more."""
        self._invariants.append(invariant)

    def acknowledged(self, key: Key, offset: int) -> None:
        """For the workload, of a topic that is never deleted: see `AcknowledgedIsCommitted`."""
        self._acknowledged.acknowledged(self.partition(key), offset)

    def reached(self, key: Key) -> int:
        """The highest high watermark of a partition, of any leader so far."""
        return self._acknowledged.reached(self.partition(key))

    def reached_in(self, partition: PartitionId) -> int:
        """The same, also of a partition whose topic is gone."""
        return self._acknowledged.reached(partition)

    def partition(self, key: Key) -> PartitionId:
        """Of a topic that is there."""
        item = self._cluster.world.metadata.get(topic_key(key[0]))
        assert item is not None, f"{key[0]} is gone from etcd"
        return PartitionId(Topic.decode(item.value).topic_id, key[1])

    def _step(self) -> None:
        life = self._loop.ran
        if life is None or life.dead:
            return
        service = self._service(life)
        if Movement.happened or life in self._look_again:
            Movement.happened = False
            self._look_again.pop(life, None)
            if isinstance(service, Broker):
                self._look_around(life, service)
        steps = self._steps[life.name] = self._steps.get(life.name, 0) + 1
        if steps % _CHECK_STEPS == 0 and service is not None:
            self.check(service)

    def _look_around(self, life: Life, broker: Broker) -> None:
        for partition in broker.replicas.partitions.values():
            sight, leadership = self._sights.get(partition), partition.leadership
            if (
                sight is not None
                and sight.leadership is leadership
                and sight.high_watermark == partition.high_watermark
                and sight.log_end == partition.log.log_end_offset
                and sight.on_disk == _on_disk(partition)
            ):
                continue
            if partition.failed is None and not partition.exclusive.locked():
                self._look(broker, partition)
            else:
                self._look_again[life] = None

    def _service(self, life: Life) -> object:
        name = self._names.get(life)
        if name is None:
            name = self._names[life] = life.name.partition("#")[0]
        return self._cluster.services.get(name) if self._cluster.node(name).life is life else None

    def _look(self, broker: Broker, partition: LocalPartition) -> None:
        leadership, high_watermark, log_end = (
            partition.leadership,
            partition.high_watermark,
            partition.log.log_end_offset,
        )
        before = self._sights.get(partition)
        self.checked += 1
        now = Sight(broker.me(), partition, leadership, high_watermark, log_end, _on_disk(partition))
        self._sights[partition] = now
        for invariant in self._invariants:
            invariant.see(before, now)

    @staticmethod
    def check(service: object) -> None:
        """What each core asserts of itself."""
        if isinstance(service, Broker):
            for partition in service.replicas.partitions.values():
                if partition.failed is None and partition.log.failed is None and not partition.exclusive.locked():
                    partition.log.check()
                if partition.leadership is not None:
                    partition.leadership.replicas.check()
        elif isinstance(service, CoordinatorNode):
            assert service.failure is None, f"a task of a coordinator failed: {service.failure!r}"
            service.check()
