"""What must hold of every write to etcd, at the moment in which it happens: leadership, replicas, drains.

Rule: looking changes nothing. A violation ends the run, with the write that broke the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.core.cluster.election import is_guess
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import (
    BROKER_DRAIN_KEY,
    PARTITIONS,
    REASSIGNMENTS,
    RESTORED_KEY,
    Drain,
    Partition,
    Reassignment,
    broker_key,
)
from oncelog_runtime.metadata.cluster_view import partition_of
from oncelog_runtime.ports import CommitResult, Compare, KeyValue, Put
from tests.simulation.cluster import SimCluster


class StoreWatch:
    """Stands before the store of a cluster. `reached(partition)`: the highest high watermark of any leader so far.

    `written_off`: partitions that lost more than the promise covers.
    """

    def __init__(
        self,
        cluster: SimCluster,
        reached: Callable[[PartitionId], int],
        written_off: Container[PartitionId] = (),
    ) -> None:
        self._cluster = cluster
        self._reached = reached
        self._written_off = written_off
        self._store = cluster.world.metadata
        self._commit = self._store.commit
        self.moved = 0
        self._store.commit = self._watched  # type: ignore[method-assign]

    def _watched(self, compares: Sequence[Compare], puts: Sequence[Put], deletes: Sequence[str]) -> CommitResult:
        before = {put.key: self._store.get(put.key) for put in puts}
        moves = {key: self._store.get(key.replace(PARTITIONS, REASSIGNMENTS)) for key in before}
        result = self._commit(compares, puts, deletes)
        if result.succeeded:
            for put in puts:
                if put.key.startswith(PARTITIONS):
                    self._partition(put.key, before[put.key], Partition.decode(put.value), moves[put.key])
                elif put.key == BROKER_DRAIN_KEY:
                    self._drain(before[put.key], Drain.decode(put.value))
        return result

    def _drain(self, before: KeyValue | None, now: Drain) -> None:
        """One broker drains at a time."""
        registered = self._store.get(broker_key(now.broker.broker_id))
        assert registered is not None
        assert registered.mod_revision == now.incarnation, f"{now} is not registered"
        if before is None or Drain.decode(before.value).broker == now.broker:
            return
        other = Drain.decode(before.value).broker
        held = self._store.get(broker_key(other.broker_id))
        assert held is None or held.mod_revision != other.incarnation, f"two brokers drain: {other} and {now.broker}"

    def _partition(self, key: str, before: KeyValue | None, now: Partition, move: KeyValue | None) -> None:
        partition_id = partition_of(key)
        name = f"{now.topic}-{partition_id.partition}"
        isr = {ref.broker_id for ref in now.isr}
        assert len(isr) == len(now.isr), f"{name}: the ISR names a broker twice: {now}"
        assert isr <= set(now.replicas), f"{name}: the ISR is not within the replicas: {now}"
        assert len(set(now.replicas)) == len(now.replicas) > 0, f"{name}: {now}"
        if is_guess(now):  # all its replicas are asked before one of them leads
            self._guess(name, before, now)
            return
        assert now.leader in now.isr, f"{name}: the leader is not in the ISR: {now}"
        if before is None:
            return
        was = Partition.decode(before.value)
        assert now.leader_epoch >= was.leader_epoch, f"{name}: the epoch falls: {was} -> {now}"
        elected = now.leader_epoch > was.leader_epoch
        assert elected or now.leader == was.leader, f"{name}: a new leader in an old epoch: {was} -> {now}"
        assert elected or now.replicas == was.replicas, f"{name}: other replicas in an old epoch: {was} -> {now}"
        if now.replicas != was.replicas:
            self.moved += 1
            if set(was.replicas) - set(now.replicas) and not is_guess(was):  # of a guess the longest logs stay
                new = set(now.replicas) if move is None else set(Reassignment.decode(move.value).adding)
                assert new & set(now.replicas) <= isr, (
                    f"{name}: a replica left before the new one was in sync: {was} -> {now}"
                )
        self._nothing_is_lost(name, partition_id, now)

    def _guess(self, name: str, before: KeyValue | None, now: Partition) -> None:
        """A guess replaces another one, or what is known if etcd was restored since; and it has more replicas asked."""
        if before is None:
            return
        was = Partition.decode(before.value)
        assert set(was.replicas) < set(now.replicas), f"{name}: a guess that asks no more replicas: {was} -> {now}"
        if is_guess(was):
            return
        restored = self._store.get(RESTORED_KEY)
        assert restored is not None, f"{name}: what is known is replaced by a guess: {now}"
        assert before.mod_revision < restored.mod_revision, f"{name}: what is known is replaced by a guess: {now}"

    def _nothing_is_lost(self, name: str, partition_id: PartitionId, now: Partition) -> None:
        """Whoever is in the ISR, and lives, has everything that was ever committed: anybody else can be missed."""
        if partition_id in self._written_off:
            return
        reached = self._reached(partition_id)
        for ref, partition in self._living(partition_id, now.isr):
            end = partition.log.log_end_offset
            assert end >= reached, (
                f"{name}: {ref} is in the ISR and ends at {end}, below the watermark {reached}: {now}"
            )

    def _living(
        self, partition_id: PartitionId, isr: Sequence[BrokerRef]
    ) -> Iterator[tuple[BrokerRef, LocalPartition]]:
        for node, service in self._cluster.services.items():
            if not isinstance(service, Broker) or self._cluster.node(node).life.dead or service.me() not in isr:
                continue
            partition = service.replicas.partitions.get(partition_id)
            if partition is not None and partition.failed is None and not partition.exclusive.locked():
                yield service.me(), partition
