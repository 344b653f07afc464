"""Decides when a replica's log may be removed: only after a linearizable read of etcd. Then it goes to the trash.

Rule 1: first the replica stops accepting replication, then etcd is read, then the log is removed. A replica that takes no
        messages acknowledges nothing; if etcd then says that it belongs elsewhere, all that it acknowledged went to leaders
        of older epochs, and no later leader counts on it. A view that lags never removes anything.
Rule 2: absence is no proof. A log is removed because the partition's own value does not name this broker, or because the
        topic has a tombstone. An etcd that was restored from a backup does not know newer topics, and has neither.
Rule 3: a value older than the last restore of etcd is no proof either: the replica may have come here since. Nor is a guess
        of the controller, which asks for the logs before one of them leads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from oncelog.errors import OncelogError
from oncelog.types import PartitionId
from oncelog_runtime.metadata.cluster_keys import RESTORED_KEY, Partition, deleted_topic_key, partition_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Disk, MetadataStore

_log = logging.getLogger(__name__)
T = TypeVar("T")
_RETRY_S: Final = 0.5
_SUFFIX: Final = ".removed"
"""The ending of folders that versions before the trash were about to delete."""


async def _answer(ask: Callable[[], Awaitable[T]], question: str) -> T:
    """Repeats a question to etcd until it is answered."""
    while True:
        try:
            return await ask()
        except OncelogError as error:
            _log.info("%s is not known: %s", question, error)
            await asyncio.sleep(_RETRY_S)


async def is_moved_away(metadata: MetadataStore, view: ClusterView, partition_id: PartitionId, broker_id: int) -> bool:
    """Returns True when etcd says that this broker has no replica of the partition. Repeats until etcd answers."""
    while True:
        found = await _answer(lambda: metadata.get(partition_key(*partition_id)), f"whether {partition_id} is here")
        if found is None:
            return False
        view.learn([found])
        value = Partition.decode(found.value)
        if broker_id in value.replicas:
            return False
        restored = await _answer(lambda: metadata.get(RESTORED_KEY), "whether etcd was restored")
        is_newer = restored is None or found.mod_revision > restored.mod_revision
        if is_newer and value.leader_epoch >= 0:
            return True
        await asyncio.sleep(_RETRY_S)  # until an election has written the value again


async def is_deleted(metadata: MetadataStore, topic_id: str) -> bool:
    """Returns True when etcd has a tombstone of the topic. Repeats until etcd answers."""
    return (
        await _answer(lambda: metadata.get(deleted_topic_key(topic_id)), f"whether {topic_id} is deleted") is not None
    )


def sweep(disk: Disk, log_dir: str) -> None:
    """Removes folders that a crash of an older version has left half deleted."""
    for name in disk.list(log_dir):
        if name.endswith(_SUFFIX):
            disk.remove(f"{log_dir}/{name}")
