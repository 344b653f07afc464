"""Tells the group shards of this process which topics there are, when they begin to serve and when topics change.

Rule 1: nothing is waited for. A shard that has not been told yet refuses joins for now, and keeps the assignments that it has.
Rule 2: a shard gets the topics as of the newest revision of the cluster's metadata that this process has seen, also when that
        revision is all that is new. Else a shard would take topics that have not changed for long for a view that lags
        behind, and wait `metadata_lag_max_ms` before it assigns anything after a fail-over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oncelog.types import PartitionId
from oncelog_coordinator.core.topology import SeeTopics, Topology
from oncelog_coordinator.shard.shard import Shard
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP
from oncelog_runtime.metadata.cluster_view import ClusterView, ShardKey
from oncelog_runtime.metadata.waiting_topics import is_waiting

_FOLLOWED = (cluster_keys.TOPICS, cluster_keys.PARTITIONS, cluster_keys.BROKERS)


class TopicWatch:
    """Follows the topics. `look` is called by the ticker of the process; `shards` is the dict that the ownership maintains."""

    def __init__(self, view: ClusterView, shards: Mapping[ShardKey, Shard]) -> None:
        self._view = view
        self._shards = shards
        self._has_changed = True
        self._topology: Topology | None = None
        self._told: dict[ShardKey, tuple[ShardLife, Topology]] = {}
        view.listen(self._changed)

    def _changed(self, keys: Iterable[str]) -> None:
        self._has_changed = self._has_changed or any(key.startswith(_FOLLOWED) for key in keys)

    def look(self) -> None:
        """Tells every group shard that serves, and was not told yet, what there is now."""
        topology = self._newest()
        if topology is None:
            return
        self._told = {key: told for key, told in self._told.items() if key in self._shards}
        for key, shard in self._shards.items():
            if key[0] != KIND_GROUP or not shard.is_serving:
                continue
            life = shard.life
            told = self._told.get(key)
            if told is None or told[0] is not life or told[1] is not topology:
                self._told[key] = (life, topology)
                life.tell(SeeTopics(topology))

    def _newest(self) -> Topology | None:
        if not self._view.revision:
            return self._topology
        if self._has_changed:
            self._has_changed = False
            found = self._read()
            if self._topology is None or found.content != self._topology.content:
                self._topology = found
        if self._topology is not None and self._topology.metadata != self._metadata():
            self._topology = replace(self._topology, metadata=self._metadata())
        return self._topology

    def _metadata(self) -> tuple[int, int]:
        return self._view.restored_at(), self._view.revision

    def _read(self) -> Topology:
        topics = [
            entry.value
            for name, entry in sorted(self._view.topics.items())
            if name not in cluster_keys.INTERNAL_TOPICS and not is_waiting(name)
        ]
        return Topology(
            metadata=self._metadata(),
            topic_ids={topic.name: topic.topic_id for topic in topics},
            partitions={topic.topic_id: topic.partitions for topic in topics},
            racks=self._racks(),
        )

    def _racks(self) -> dict[PartitionId, frozenset[str]]:
        """Returns the racks that hold a replica of each partition; empty where no broker names its rack."""
        racks = {number: entry.value.rack for number, entry in self._view.brokers.items() if entry.value.rack}
        if not racks:
            return {}
        return {
            partition: frozenset(racks[broker] for broker in entry.value.replicas if broker in racks)
            for partition, entry in self._view.partitions.items()
        }
