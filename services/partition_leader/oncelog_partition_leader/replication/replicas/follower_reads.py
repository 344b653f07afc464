"""Lets readers read a replica that follows, as far as it can vouch for what it has.

Rule: whether it can is decided in `core/replication/vouching.py`; what a reader then sees, in `partition/readable.py`.
"""

from __future__ import annotations

from oncelog.errors import FencedLeaderEpochError, NotLeaderError, UnknownLeaderEpochError
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.core.replication.vouching import FollowerFacts, obstacle
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.partition.readable import Readable


class FollowerReads:
    """Answers for the replicas that this broker does not lead."""

    def __init__(self, cluster: ClusterContext) -> None:
        self._cluster = cluster

    def require(self, partition: LocalPartition, leader_epoch: int = -1) -> Readable:
        """Returns what a follower lets read. `leader_epoch`: the reader's view, -1 = none.

        Raises `NotLeaderError` (with the leader's address) when it cannot vouch for its log, `FencedLeaderEpochError`,
        `UnknownLeaderEpochError` or `StorageError`. All of them but the last pass; the leader is the one to ask meanwhile.
        """
        if partition.failed is not None:
            raise partition.failed
        known_epoch = partition.known_epoch
        if leader_epoch > known_epoch:
            raise UnknownLeaderEpochError(leader_epoch=leader_epoch, known_epoch=known_epoch)
        if 0 <= leader_epoch < known_epoch:
            raise FencedLeaderEpochError(leader_epoch=leader_epoch, current_epoch=known_epoch)
        found = obstacle(self._facts(partition))
        if found is not None:
            address = self._cluster.signpost.leader(partition.id)
            message = f"this follower answers no readers at the moment, since {found.value}: ask the leader"
            raise NotLeaderError(message, known_epoch=known_epoch, go_to=address)
        told = partition.told
        start = max(partition.log.log_start_offset, told.log_start_offset)
        return Readable(partition.log, known_epoch, partition.high_watermark, start, is_leader=False)

    def _facts(self, partition: LocalPartition) -> FollowerFacts:
        entry, cluster = self._cluster.view.partitions.get(partition.id), self._cluster
        state = entry.value if entry is not None else None
        is_current = state is not None and state.leader_epoch == partition.known_epoch
        return FollowerFacts(
            known_epoch=partition.known_epoch,
            told_epoch=partition.told.epoch,
            told_watermark=partition.told.high_watermark,
            log_end=partition.log.log_end_offset,
            is_in_sync=is_current and state is not None and cluster.me() in state.isr,
            hears_leader=state is not None and state.leader is not None and cluster.contacts.heard(state.leader),
        )
