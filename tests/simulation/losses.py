"""What the promise allows to be lost, from what etcd, the disks and the processes say: the budget of losses of each partition.

The promise: a record that was acknowledged with acks=all survives as long as fewer than `min_insync_replicas` of those
that held it lose what they had. In `fsync` mode only an empty volume (or rot) is a loss; in `replicated` mode a power
cut is one as well. A loss is over when that replica is in the ISR again, under a later incarnation; rot that nobody has
met yet is not over.

Rule 1: only who holds everything committed can lose it: the members of the ISR and the eligible replicas.
Rule 2: a fault that would break the budget of a judged partition is not injected. Other partitions (topics that come
        and go, with one replica) are written off: what they lose is no violation.
Rule 3: what a backup of etcd says of a partition is old. Until the partition is written again, those hold everything who did
        right before the restore (seed 997019: two of two holders lost their volumes, and one was none in the backup).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oncelog.types import PartitionId
from oncelog_partition_leader.log.topic_config import TopicConfig, effective
from oncelog_runtime.metadata.cluster_keys import (
    INTERNAL_TOPICS,
    PARTITIONS,
    Partition,
    Topic,
    partition_key,
    topic_key,
)
from oncelog_runtime.metadata.cluster_view import partition_of
from oncelog_runtime.ports import KeyValue
from oncelog_runtime.sim.metadata import SimMetadata, Snapshot

_FSYNC_INTERNAL = TopicConfig(min_insync_replicas=2)


class LossBudget:
    """`is_judged(topic)`: what is lost of it counts. `may_soften(topic)`: its flush mode changes on the way.

    Stands before the store, where it notices restores.
    """

    def __init__(
        self,
        store: SimMetadata,
        is_judged: Callable[[str], bool],
        may_soften: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        self.written_off: dict[PartitionId, None] = {}
        self._store = store
        self._is_judged = is_judged
        self._may_soften = may_soften
        self._lost: dict[PartitionId, dict[int, int]] = {}
        """By partition: the brokers whose replica lost something, and the revision at which it did."""
        self._rot: dict[tuple[PartitionId, int], list[Callable[[], bool]]] = {}
        """By partition and broker: whether what rotted there is still in its log."""
        self._before_restore: dict[PartitionId, Partition] = {}
        self._backup_revision = 0
        """Of the backup that etcd was restored from last: what is not newer than that is old."""
        self._revision_before_restore = 0
        self._restore = store.restore
        store.restore = self._restored  # type: ignore[method-assign]

    def may_cut_power(self, broker_id: int) -> bool:
        """Whether a power cut of this broker breaks no promise; partitions that are not judged are no reason."""
        return self._may_lose(broker_id, lambda state: not self._is_durable(state))

    def may_lose_volume(self, broker_id: int) -> bool:
        """The same for everything that it stored. Nothing is written off for it: such a partition never has a leader again."""
        return self._may_lose(broker_id, lambda state: True, spares_all=True)

    def may_rot(self, partition: PartitionId) -> bool:
        """The same for one replica, in the ISR or not: one that is outside may join with the rot in its log."""
        item = self._store.get(partition_key(*partition))
        return item is None or self._is_allowed(partition, self._state_of(item))

    def power_was_cut(self, broker_id: int) -> None:
        """Call it with the cut."""
        self._note(broker_id, lambda state: not self._is_durable(state))

    def volume_was_lost(self, broker_id: int) -> None:
        """Call it with the loss."""
        self._note(broker_id, lambda state: True)

    def rotted(self, broker_id: int, partition: PartitionId, is_there: Callable[[], bool] = lambda: False) -> None:
        """Call it with the flip. It counts until the replica was set aside and filled again.

        A restart that does not read the rotten part brings the replica back into the ISR with it: `is_there` tells.
        """
        self._lost.setdefault(partition, {})[broker_id] = self._revision()
        self._rot.setdefault((partition, broker_id), []).append(is_there)

    def is_written_off(self, topic_id: str) -> bool:
        """Some partition of this topic lost more than the promise covers."""
        return any(partition.topic_id == topic_id for partition in self.written_off)

    def holders(self, partition: PartitionId, state: Partition) -> list[int]:
        """Brokers whose replica has everything committed, as far as the losses allow."""
        outstanding = self._outstanding(partition, state)
        return [ref.broker_id for ref in (*state.isr, *state.eligible) if ref.broker_id not in outstanding]

    # ------------------------------------------------------------ inside

    def _state_of(self, item: KeyValue) -> Partition:
        """What is so of a partition, whose value in etcd this is (rule 3)."""
        is_old = item.mod_revision <= self._backup_revision
        known = self._before_restore.get(partition_of(item.key)) if is_old else None
        return known or Partition.decode(item.value)

    def _restored(self, snapshot: Snapshot, bump_revision: int = 0) -> None:
        states = {partition_of(item.key): self._state_of(item) for item in self._store.list(PARTITIONS).items}
        self._before_restore, self._backup_revision = states, snapshot.revision
        self._revision_before_restore = self._revision()
        self._restore(snapshot, bump_revision)

    def _revision(self) -> int:
        """Every incarnation so far is at most this: a restore lowers etcd's revision, until somebody notices and lifts it."""
        return max(self._store.revision, self._revision_before_restore)

    def _may_lose(self, broker_id: int, is_hit: Callable[[Partition], bool], *, spares_all: bool = False) -> bool:
        return all(
            self._is_allowed(partition, state)
            for partition, state in self._held(broker_id)
            if is_hit(state) and (spares_all or self._is_judged(state.topic))
        )

    def _is_allowed(self, partition: PartitionId, state: Partition) -> bool:
        needed = min(self._config(state).min_insync_replicas, len(state.replicas))
        # Right after a restore of etcd the elected leader may be the only one that is known to hold everything.
        has_another = len(self.holders(partition, state)) > 1
        return has_another and len(self._outstanding(partition, state)) + 1 <= needed - 1

    def _note(self, broker_id: int, is_hit: Callable[[Partition], bool]) -> None:
        for partition, state in self._held(broker_id):
            if is_hit(state):
                if not self._is_allowed(partition, state):
                    self.written_off[partition] = None
                self._lost.setdefault(partition, {})[broker_id] = self._revision()

    def _held(self, broker_id: int) -> Iterator[tuple[PartitionId, Partition]]:
        """The partitions of which this broker holds everything now."""
        for item in self._store.list(PARTITIONS).items:
            partition, state = partition_of(item.key), self._state_of(item)
            if broker_id in self.holders(partition, state):
                yield partition, state

    def _outstanding(self, partition: PartitionId, state: Partition) -> dict[int, int]:
        """Losses that are not over. Forgets those that are."""
        lost = self._lost.get(partition, {})
        joined = {ref.broker_id: ref.incarnation for ref in state.isr}
        for broker_id in [b for b, revision in lost.items() if joined.get(b, 0) > revision]:
            if not any(is_there() for is_there in self._rot.get((partition, broker_id), ())):
                del lost[broker_id]
        return lost

    def _is_durable(self, state: Partition) -> bool:
        return self._config(state).fsync and not self._may_soften(state.topic)

    def _config(self, state: Partition) -> TopicConfig:
        if state.topic in INTERNAL_TOPICS:
            defaults = effective({"flush_mode": "fsync"}, _FSYNC_INTERNAL)
        else:
            defaults = TopicConfig()
        item = self._store.get(topic_key(state.topic))
        return defaults if item is None else effective(Topic.decode(item.value).config, defaults)
