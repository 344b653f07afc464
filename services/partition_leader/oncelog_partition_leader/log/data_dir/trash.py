"""The trash: removed logs stay in a folder beside the logs for a while, so that wrong metadata can be corrected.

Rule 1: a folder that is put here, or taken back, has its new name durably before the caller continues.
Rule 2: a log stays for `grace_ms`, counted by the wall clock from the time in its name; only `purge` removes.
Rule 3: a folder that is needed again under its old name (its topic is in etcd again, or its replica came back) is taken
        back, the newest first. If it lacks records or has too many, the leader's epochs show it, as after any absence.
"""

from __future__ import annotations

import logging

from oncelog_partition_leader.core.log.folders import TRASH, Trashed, parse_trashed, trash_name
from oncelog_runtime.ports import Disk

_log = logging.getLogger(__name__)


class Trash:
    """The trash of one folder of logs. Every method but `entries` raises `StorageError`."""

    def __init__(self, disk: Disk, log_dir: str, grace_ms: int) -> None:
        self._disk = disk
        self._log_dir = log_dir
        self._dir = f"{log_dir}/{TRASH}"
        self._grace_ms = grace_ms

    def entries(self) -> list[Trashed]:
        """Returns the folders in the trash, the oldest first."""
        found = [parse_trashed(name) for name in self._disk.list(self._dir)]
        return sorted((entry for entry in found if entry is not None), key=lambda entry: (entry.since_ms, entry.name))

    async def put(self, folder: str, now_ms: int) -> None:
        """Moves a folder of the logs here, if it exists. The rename itself happens before the first await."""
        if not self._disk.exists(f"{self._log_dir}/{folder}"):
            return
        self._disk.make_dirs(self._dir)
        while self._disk.exists(f"{self._dir}/{trash_name(folder, now_ms)}"):
            now_ms += 1
        self._disk.rename(f"{self._log_dir}/{folder}", f"{self._dir}/{trash_name(folder, now_ms)}")
        _log.info("%s is in the trash, and is removed in %d s", folder, self._grace_ms // 1000)
        await self._make_durable()

    async def take_back(self, folder: str) -> bool:
        """Moves the newest folder of this name back to the logs; False when there is none, or the name is in use."""
        kept = [entry for entry in self.entries() if entry.folder.name == folder]
        if not kept or self._disk.exists(f"{self._log_dir}/{folder}"):
            return False
        self._disk.rename(f"{self._dir}/{kept[-1].name}", f"{self._log_dir}/{folder}")
        _log.warning("%s is taken back from the trash: its partition is needed again", folder)
        await self._make_durable()
        return True

    async def purge(self, now_ms: int) -> int:
        """Removes the folders that have been here for longer than the grace; returns how many."""
        due = [entry for entry in self.entries() if now_ms - entry.since_ms >= self._grace_ms]
        for entry in due:
            _log.info("removing %s for good", entry.folder.name)
            self._disk.remove(f"{self._dir}/{entry.name}")
        if due:
            await self._disk.sync_dir(self._dir)
        return len(due)

    async def _make_durable(self) -> None:
        """Syncs the directories, the new name first: a power cut in between may leave both names, never none."""
        await self._disk.sync_dir(self._dir)
        await self._disk.sync_dir(self._log_dir)
