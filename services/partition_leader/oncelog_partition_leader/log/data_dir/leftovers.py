"""Folders of partitions that etcd does not know: those of deleted topics go to the trash, the others are kept and reported.

Rule 1: a folder goes to the trash because of the tombstone of exactly its topic (`replica_deletion`), and while it is not
        open.
Rule 2: a folder whose topic is neither in etcd nor deleted is never removed: etcd may have been restored from a backup that
        is older than the topic. It is listed, and a metric counts it.
Rule 3: the folders are looked at when the view has its first listing (a topic may have been deleted while this broker was
        down), when the topic of an open replica is gone from etcd, and with each round of retention.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from oncelog.errors import StorageError
from oncelog.types import PartitionId
from oncelog_partition_leader.core.log.folders import Folder, Trashed, parse_folder
from oncelog_partition_leader.log.data_dir.replica_deletion import is_deleted
from oncelog_partition_leader.log.data_dir.trash import Trash
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Disk, MetadataStore, WallClock

_log = logging.getLogger(__name__)


class Leftovers:
    """Looks for leftover folders. `is_used(partition)`: its log is open, being opened or closed."""

    def __init__(
        self,
        disk: Disk,
        log_dir: str,
        trash: Trash,
        metadata: MetadataStore,
        view: ClusterView,
        clock: WallClock,
        cluster_now_ms: Callable[[], int],
        is_used: Callable[[PartitionId], bool],
    ) -> None:
        self._disk = disk
        self._log_dir = log_dir
        self._metadata = metadata
        self._view = view
        self._clock = clock
        self._cluster_now_ms = cluster_now_ms
        self._is_used = is_used
        self._told: dict[str, None] = {}
        self.trash = trash
        self.orphans: tuple[Folder, ...] = ()
        """Folders whose topic is neither in etcd nor deleted, at the last look."""
        self.trashed: tuple[Trashed, ...] = ()

    async def look(self) -> None:
        """Looks at all folders once. Does nothing before the view has its first listing."""
        if not self._view.revision:
            return
        unknown = self._unknown()
        by_topic: dict[str, list[Folder]] = {}
        for folder in unknown:
            by_topic.setdefault(folder.partition.topic_id, []).append(folder)
        for topic_id, folders in by_topic.items():
            if await is_deleted(self._metadata, topic_id):
                await self.trash_all(folders)
        try:
            await self.trash.purge(self._cluster_now_ms())
        except StorageError as error:
            _log.warning("emptying the trash: %s", error)
        self._tell(self._unknown() if unknown else unknown)

    async def trash_all(self, folders: list[Folder]) -> None:
        """Moves folders of a deleted topic to the trash, except those that are in use again."""
        for folder in folders:
            is_known = self._view.topic_by_id(folder.partition.topic_id) is not None
            if is_known or self._is_used(folder.partition):
                continue
            try:
                await self.put_away(folder)
            except StorageError as error:
                _log.warning("moving %s to the trash: %s", folder.name, error)

    async def put_away(self, folder: Folder) -> None:
        """Moves a folder to the trash, for the whole grace even if this broker's clock is behind. Raises `StorageError`."""
        await self.trash.put(folder.name, max(self._clock.now_ms(), self._cluster_now_ms()))

    def of(self, partition: PartitionId) -> list[Folder]:
        """Returns the folders of one partition: its log, and those that were set aside."""
        return [folder for folder in self._folders() if folder.partition == partition]

    def kept(self, broker_id: int) -> list[PartitionId]:
        """Returns the partitions whose log is here, at this broker, and of which etcd knows no replica here.

        Also while the log is still open. One that was set aside as rotten does not count.
        """
        found = {one.partition for one in self._folders() if not one.aside}
        known = self._view.partitions
        return sorted(one for one in found if one not in known or broker_id not in known[one].value.replicas)

    def _folders(self) -> list[Folder]:
        parsed = (parse_folder(name) for name in self._disk.list(self._log_dir))
        return [folder for folder in parsed if folder is not None]

    def _unknown(self) -> list[Folder]:
        return [
            folder
            for folder in self._folders()
            if self._view.topic_by_id(folder.partition.topic_id) is None and not self._is_used(folder.partition)
        ]

    def _tell(self, orphans: list[Folder]) -> None:
        self.orphans = tuple(orphans)
        self.trashed = tuple(self.trash.entries())
        for folder in self.orphans:
            if folder.name not in self._told:
                self._told[folder.name] = None
                _log.error(
                    "%s holds a log of a topic that etcd does not know and that nobody has deleted; it is kept. Was etcd"
                    ' restored from an older backup? See docs/operations.md, "Backup and restore of etcd"',
                    folder.name,
                )
