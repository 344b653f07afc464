"""Opens the log of a replica, and keeps its claim: since which incarnation it lost nothing (`custody`, `sealing`).

Rule 1: a log that is created, was set aside as rotten, or lost records vouches for less from then on, and the lower
        claim is on disk before the log is used: a crash, or a full disk, in between must not leave one that claims too much.
Rule 2: a rotten log is set aside, and an empty one takes its place: quarantined, until the replica is in an ISR again. Then
        it has been repaired from a healthy one, and the log that was set aside is removed.
Rule 3: a failed log that etcd does not name any more is opened again under the same incarnation. It vouches for nothing
        before the next one, until the replica is in an ISR again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from oncelog.errors import OncelogError, StorageError
from oncelog.ports import WallClock
from oncelog.types import PartitionId
from oncelog_partition_leader.core.log.folders import folder_name
from oncelog_partition_leader.core.replication.replica_state import EMPTY, LogState, ReplicaState
from oncelog_partition_leader.log.checkpoints import IDENTITY
from oncelog_partition_leader.log.data_dir.custody import Claim, Custody, read_log, write_log
from oncelog_partition_leader.log.data_dir.trash import Trash
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.recovery.log_folder import set_aside
from oncelog_partition_leader.log.tail_cache import TailMemory
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.sealing import read_seal, remove_seal
from oncelog_runtime.ports import Disk

_log = logging.getLogger(__name__)
_ASIDE: Final = ".quarantined-"
_LISTING_MS: Final = 1_000
"""A listing of the folder of logs is good for this long; what this process sets aside or removes ends it at once."""


class LogOpener:
    """Opens logs. `newest_incarnation()`: the broker's, or, before it has one, the lowest that it can get. `tails`: the memory
    that their newest batches share.
    """

    def __init__(
        self,
        disk: Disk,
        log_dir: str,
        trash: Trash,
        clock: WallClock,
        custody: Custody,
        newest_incarnation: Callable[[], int],
        tails: TailMemory | None = None,
    ) -> None:
        self._tails = tails
        self._disk = disk
        self._log_dir = log_dir
        self._trash = trash
        self._clock = clock
        self._custody = custody
        self._newest_incarnation = newest_incarnation
        self._failed: dict[PartitionId, None] = {}
        self._left: dict[PartitionId, None] = {}
        self._quarantined: dict[PartitionId, None] = {}
        self._listing: tuple[int, frozenset[str]] = (-_LISTING_MS, frozenset())
        """The folders that were set aside, and when they were listed."""

    def directory_of(self, topic: str, partition_id: PartitionId) -> str:
        """Returns the directory of a partition's log."""
        return f"{self._log_dir}/{folder_name(topic, partition_id)}"

    # ------------------------------------------------------------ opening

    async def open(
        self, partition_id: PartitionId, topic: str, config: LogConfig, *, rescan: bool = False
    ) -> PartitionLog:
        """Opens or creates a log. `rescan`: a reader found rot, perhaps below the part that recovery scans, so all is checked.

        Raises `StorageError`.
        """
        directory = self.directory_of(topic, partition_id)
        if self._asides(topic, partition_id):
            self._quarantined[partition_id] = None
        await self._trash.take_back(folder_name(topic, partition_id))
        vouches_from = self._newest_incarnation() + (partition_id in self._left)
        if partition_id in self._failed or not self._disk.exists(f"{directory}/{IDENTITY}"):
            await self._claim_less(directory, vouches_from)
        try:
            log = await PartitionLog.open(self._disk, directory, config)
            if rescan:
                await _rescan(log)
            if log.lost_tail:
                self._failed[partition_id] = None  # for the next try, which finds the tail cut off already
                await self._lower_claim_or_close(log, vouches_from)
        except StorageError as error:
            if error.context.get("reason") != "rot":
                raise
            _log.error("the log of %s %s is rotten and is set aside: %s", topic, partition_id, error)
            self._quarantined[partition_id] = None
            self._forget_listing()
            await set_aside(self._disk, directory)
            await self._claim_less(directory, vouches_from)
            log = await PartitionLog.open(self._disk, directory, config)
        self._failed.pop(partition_id, None)
        if self._tails is not None:
            log.share_tail(self._tails)
        return log

    async def _lower_claim_or_close(self, log: PartitionLog, incarnation: int) -> None:
        """Lowers the claim of a log that lost its unsynced tail; its seal stays, since the synced part is there."""
        try:
            await self.lower_claim(log.directory, incarnation, keeps_seal=True)
        except StorageError:
            await log.close(clean=False)
            raise

    async def _claim_less(self, directory: str, incarnation: int) -> None:
        self._disk.make_dirs(directory)  # `recover` makes the name durable, before it writes the identity
        await self.lower_claim(directory, incarnation)

    def _asides(self, topic: str, partition_id: PartitionId) -> list[str]:
        """Returns the folders of a log's rotten predecessors."""
        prefix = f"{folder_name(topic, partition_id)}{_ASIDE}"
        return [f"{self._log_dir}/{found}" for found in sorted(self._all_aside()) if found.startswith(prefix)]

    def _all_aside(self) -> frozenset[str]:
        """Lists the folder of all logs once for many that are opened one after the other: it has thousands of entries."""
        now_ms, (listed_ms, _) = self._clock.monotonic_ms(), self._listing
        if now_ms - listed_ms >= _LISTING_MS:
            self._listing = now_ms, frozenset(found for found in self._disk.list(self._log_dir) if _ASIDE in found)
        return self._listing[1]

    def _forget_listing(self) -> None:
        self._listing = -_LISTING_MS, frozenset()

    # ------------------------------------------------------------ what is vouched for

    def opened(self, partition: LocalPartition) -> None:
        """Reads the claim and the seal of a log that was just opened."""
        directory = partition.log.directory
        partition.claim = read_log(self._disk, directory, self._newest_incarnation())
        partition.seal = read_seal(self._disk, directory)

    def status(self, partition: LocalPartition, named: int = 0) -> ReplicaState:
        """Returns the end of an open log, and its claims. `named`: the incarnation under which etcd counts on this log."""
        if partition.id in self._quarantined:  # the log in its place began empty
            incarnation = self._newest_incarnation()
            return ReplicaState(EMPTY, incarnation, incarnation, known_epoch=partition.known_epoch)
        log, claim = partition.log, self._custody.claim.and_also(partition.claim)
        if self._custody.is_older_than(named):
            _log.error(
                "the disk under %s is an older image: etcd knows that incarnation %d used it, and it does not;"
                " whatever was written since then may be missing here",
                *(partition.id, named),
            )
            claim = claim.lost_before(self._newest_incarnation())
        return ReplicaState(
            LogState(log.reached_epoch, log.log_end_offset),
            claim.intact_since,
            claim.known_since,
            partition.high_watermark,
            partition.known_epoch,
            partition.seal,
        )

    async def lower_claim(self, directory: str, incarnation: int, *, keeps_seal: bool = False) -> Claim:
        """Notes on disk that this log may have lost records from before this incarnation, though its data directory has not.

        `keeps_seal`: it lost only unsynced records. Raises `StorageError`.
        """
        if not keeps_seal and read_seal(self._disk, directory) is not None:
            await remove_seal(self._disk, directory)
        claim = read_log(self._disk, directory, incarnation).lost_before(incarnation)
        await write_log(self._disk, directory, claim)
        return claim

    async def will_be_reset(self, partition: LocalPartition) -> None:
        """Lowers the claim before a log is dropped, to be copied again from its leader. Raises `StorageError`."""
        partition.claim = await self.lower_claim(partition.log.directory, self._newest_incarnation())
        partition.seal = None

    # ------------------------------------------------------------ failed and rotten logs

    def failed(self, partition_id: PartitionId) -> None:
        """Notes that the next `open` finds a log that may have lost records."""
        self._failed[partition_id] = None

    def left(self, partition_id: PartitionId) -> None:
        """Notes that etcd does not name the failed log any more: it can be opened under the same incarnation (rule 3)."""
        self._left[partition_id] = None

    def registered(self) -> None:
        """Notes that the broker has a new incarnation."""
        self._left.clear()

    def forget(self, partition_id: PartitionId) -> None:
        """Forgets a replica that was removed from this broker."""
        self._quarantined.pop(partition_id, None)

    def owes(self, partition_id: PartitionId) -> bool:
        """Returns True when `in_sync` has work to do once the replica is in the ISR."""
        return partition_id in self._left or partition_id in self._quarantined

    async def in_sync(self, partition: LocalPartition) -> None:
        """Restores the claim of a replica that is in the ISR again, so holds everything, and removes logs set aside."""
        if self._left.pop(partition.id, "absent") is None:
            await self._vouch_again(partition)
        if self._quarantined.pop(partition.id, "absent") is None:
            self._forget_listing()
            for directory in self._asides(partition.topic, partition.id):
                self._disk.remove(directory)
            self._forget_listing()
            await self._disk.sync_dir(self._log_dir)

    async def _vouch_again(self, partition: LocalPartition) -> None:
        directory, incarnation = partition.log.directory, self._newest_incarnation()
        try:
            await write_log(self._disk, directory, read_log(self._disk, directory, incarnation))
        except OncelogError as error:
            _log.warning("the log of %s vouches for less than it could: %s", partition.id, error)


async def _rescan(log: PartitionLog) -> None:
    """Checks every batch of the log. Raises `StorageError` (rot), and then the log is closed."""
    try:
        async for _ in log.scrub():
            pass
    except StorageError:
        await log.close(clean=False)
        raise
