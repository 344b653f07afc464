"""The files of buckets, in the folder of the waiting partition's log: `delays-<width>-<number>.pairs`.

Rule: they hold nothing that the log does not say too, so they are never synced, and those of an earlier run are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog_partition_leader.core.delays.timing_wheel import Bucket, Spill
from oncelog_runtime.ports import Disk

PREFIX: Final = "delays-"
SUFFIX: Final = ".pairs"


class BucketFiles:
    """The bucket files of one run of a scheduler. Files are opened for a moment each: there may be hundreds."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    async def clear(self) -> None:
        """Removes what an earlier run has left, or this one."""
        await self._disk.run(self._clear)

    def _clear(self) -> None:
        for name in self._disk.list(self._directory):
            if name.startswith(PREFIX) and name.endswith(SUFFIX):
                self._disk.remove(f"{self._directory}/{name}")

    async def spill(self, spills: Sequence[Spill]) -> None:
        """Appends pairs to their files. Raises `StorageError`."""
        if spills:
            await self._disk.run(lambda: self._append(spills))

    def _append(self, spills: Sequence[Spill]) -> None:
        for spill in spills:
            file = self._disk.open(self._path(spill.bucket), create=True)
            try:
                file.append([spill.data])
            finally:
                file.close()

    async def take(self, bucket: Bucket) -> bytes:
        """Returns what was written to a bucket's file, and removes it; empty without one. Raises `StorageError`."""
        return await self._disk.run(lambda: self._take(bucket))

    def _take(self, bucket: Bucket) -> bytes:
        path = self._path(bucket)
        if not self._disk.exists(path):
            return b""
        data = self._disk.read_file(path)
        self._disk.remove(path)
        return data

    def _path(self, bucket: Bucket) -> str:
        return f"{self._directory}/{PREFIX}{bucket.width_ms}-{bucket.number}{SUFFIX}"
