"""Raises the leader epoch for a leader that cannot lead in the epoch that etcd gives it.

Its log has batches of that epoch, or the broker knows a later one: etcd has forgotten elections. Offsets must not be assigned
twice in an epoch, so it does not lead in this one; and no other broker notices that it does not.

Rule: only the leader that etcd names raises the epoch, by compare-and-swap on the value that names it, under its own
        registration. So no other broker can lead meanwhile, and an outdated value changes nothing.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.registration import learned
from oncelog_runtime.metadata.cluster_keys import Partition, broker_key, partition_key
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned
from oncelog_runtime.ports import Compare, MetadataStore, Put

_log = logging.getLogger(__name__)


async def raise_epoch(
    metadata: MetadataStore,
    view: ClusterView,
    me: BrokerRef,
    partition: PartitionId,
    entry: Versioned[Partition],
    above: int,
) -> None:
    """Tries once, and updates the view with the value that etcd holds afterwards."""
    assert entry.value.leader == me, "only the leader raises its epoch"
    key = partition_key(*partition)
    put = Put(key, replace(entry.value, leader_epoch=above + 1).encode())
    compares = [
        Compare(key, entry.mod_revision),
        Compare(broker_key(me.broker_id), me.incarnation),
        view.restored_is(),
    ]
    try:
        result = await metadata.commit(compares, [put])
        if result.succeeded:
            _log.warning("%s: epoch %d of etcd is behind; raised above %d", partition, entry.value.leader_epoch, above)
            view.learn(learned(result.revision, [put]))
        elif (found := await metadata.get(key)) is not None:
            view.learn([found])
    except OncelogError as error:
        _log.warning("the epoch of %s cannot be raised: %s", partition, error)
