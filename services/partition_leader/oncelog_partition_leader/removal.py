"""Deleting the log of a replica that was moved to another broker.

Rule 1: first deaf, then a linearizable read, then deaf for good. A replica that no longer takes messages acknowledges
        nothing; if etcd then says that it belongs elsewhere, whatever it acknowledged was acknowledged to a leader of an
        older epoch, and no later leader counts on it. A view that lags never deletes anything.
Rule 2: absence is no proof: only the partition's own value, without this broker in it, deletes a log.
Rule 3: the folder is renamed first, so that a crash half-way leaves no half log under a name that is opened again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from oncelog.errors import OncelogError
from oncelog.types import PartitionId
from oncelog_runtime.cluster import Partition, partition_key
from oncelog_runtime.cluster_view import ClusterView
from oncelog_runtime.ports import Disk, MetadataStore

_log = logging.getLogger(__name__)
_RETRY_S: Final = 0.5
_SUFFIX: Final = ".removed"


async def is_moved_away(metadata: MetadataStore, view: ClusterView, partition_id: PartitionId, broker_id: int) -> bool:
    """Whether etcd says that this broker has no replica of the partition. Asks until there is an answer."""
    while True:
        try:
            found = await metadata.get(partition_key(*partition_id))
        except OncelogError as error:
            _log.info("whether %s is here is not known: %s", partition_id, error)
            await asyncio.sleep(_RETRY_S)
            continue
        if found is None:
            return False
        view.learn([found])
        return broker_id not in Partition.decode(found.value).replicas


async def delete_log(disk: Disk, log_dir: str, directory: str) -> None:
    """Deletes a log's folder. Raises `StorageError`."""
    removed = f"{directory}{_SUFFIX}"
    if disk.exists(directory):
        disk.remove(removed)
        disk.rename(directory, removed)
        await disk.sync_dir(log_dir)
    disk.remove(removed)
    await disk.sync_dir(log_dir)


def sweep(disk: Disk, log_dir: str) -> None:
    """Removes what a crash has left half deleted."""
    for name in disk.list(log_dir):
        if name.endswith(_SUFFIX):
            disk.remove(f"{log_dir}/{name}")
