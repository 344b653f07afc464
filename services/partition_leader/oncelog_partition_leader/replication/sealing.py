"""A leader whose ISR falls below `min_insync_replicas` seals its log, so that it can lead alone after a power cut, too.

Below the minimum nothing is committed. So the log, synced once, holds every committed record until the ISR is at the minimum
again, whatever its machine loses after that: `<log>/seal.json` says so to the next process (`ReplicaState.standing`).

Rule 1: a log is sealed in this order, while nothing can be committed: it is synced, the high watermark is stopped, the file
        is written.
Rule 2: nothing is committed before the file is removed from the disk, durably (`ReplicaSet.is_sealed`).
Rule 3: a seal is valid for one leader epoch. When another broker leads, or this one again, etcd names another epoch and the
        seal proves nothing, whenever it is written or removed.
Rule 4: a log that is created again, dropped or has failed has no seal. A leader that cannot remove its seal from the disk
        stops leading.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from oncelog.core.malformed import MALFORMED
from oncelog.errors import OncelogError, StorageError
from oncelog_partition_leader.core.replication.replica_state import Seal
from oncelog_partition_leader.log.checkpoints import SEAL
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.core.checked_json import pack, unpack
from oncelog_runtime.ports import Disk
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_SEALED_AT_ONCE: Final = 4
"""Few at once: all partitions led here may fall below the minimum together, and appends need the disk first."""


class Sealer:
    """Seals and unseals the partitions led here; `look` is called at intervals, since a disk may refuse."""

    def __init__(self, disk: Disk, watch: DiskWatch, tasks: TaskOwner) -> None:
        self._disk = disk
        self._watch = watch
        self._tasks = tasks
        self._busy: dict[Leadership, None] = {}
        self._slots = asyncio.Semaphore(_SEALED_AT_ONCE)

    def look(self, partition: LocalPartition) -> None:
        """Starts to seal or unseal a partition if that is due."""
        leadership = partition.leadership
        if leadership is None or leadership.ended is not None or leadership in self._busy:
            return
        seal, replicas = partition.seal, leadership.replicas
        is_sealed = seal is not None and seal.leader_epoch == leadership.epoch
        if replicas.is_sealed and replicas.may_unseal:
            task = self._unseal(partition, leadership)
        elif not replicas.enough_in_sync and not is_sealed and partition.failed is None:
            task = self._seal(partition, leadership)
        else:
            return
        self._busy[leadership] = None
        self._tasks.spawn(task, "seal")

    async def _seal(self, partition: LocalPartition, leadership: Leadership) -> None:
        try:
            async with self._slots:
                await self._sync_and_seal(partition, leadership)
        except OncelogError as error:
            _log.warning("%s cannot be sealed; after a power cut it cannot lead alone: %s", partition.id, error)
        finally:
            del self._busy[leadership]

    async def _sync_and_seal(self, partition: LocalPartition, leadership: Leadership) -> None:
        end_offset = partition.log.log_end_offset
        await partition.sync.wait(end_offset)
        async with partition.exclusive:  # no new leadership or opening while the file is written
            if leadership.ended is not None or not leadership.replicas.may_seal(end_offset):
                return  # the next `look` decides again
            leadership.replicas.seal()
            partition.seal = Seal(leadership.replicas.me.incarnation, leadership.epoch, end_offset)
            try:
                with self._watch.sync(is_waited_for=False):
                    await write_seal(self._disk, partition.log.directory, partition.seal)
            except StorageError:
                partition.seal = None  # the next `look` tries again; rule 2 holds whether the file is there or not
                raise

    async def _unseal(self, partition: LocalPartition, leadership: Leadership) -> None:
        try:
            with self._watch.sync(is_waited_for=True):
                await remove_seal(self._disk, partition.log.directory)
        except StorageError as error:
            partition.fail(error)
        else:
            if partition.leadership is leadership:  # else a later leadership may have sealed the log again
                partition.seal = None
                leadership.unsealed()
        finally:
            del self._busy[leadership]


# ---------------------------------------------------------------- the file


def read_seal(disk: Disk, directory: str) -> Seal | None:
    """Reads the seal of one log; None without one, or when it cannot be read."""
    path = f"{directory}/{SEAL}"
    try:
        if not disk.exists(path):
            return None
        found = unpack(disk.read_file(path))
        return Seal(int(found["incarnation"]), int(found["leader_epoch"]), int(found["end_offset"]))
    except (*MALFORMED, StorageError):
        return None


async def write_seal(disk: Disk, directory: str, seal: Seal) -> None:
    """Writes a seal, durably. Raises `StorageError`."""
    await disk.write_atomic(f"{directory}/{SEAL}", pack(seal._asdict()))


async def remove_seal(disk: Disk, directory: str) -> None:
    """Removes a seal, durably, if there is one. That needs no room, so a full disk allows it. Raises `StorageError`."""
    disk.remove(f"{directory}/{SEAL}")
    await disk.sync_dir(directory)
