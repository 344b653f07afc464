"""Finds partitions that etcd has forgotten, by the logs of this broker, before the broker registers.

Rule 1: a log has an epoch only from a leader that etcd named. A later epoch than the one in etcd proves a restore.
Rule 2: a topic leaves etcd only with a tombstone. A log of a topic that has neither a value nor a tombstone proves a
        restore, unless the broker was away for as long as a tombstone is kept: then the topic may have been deleted.
Rule 3: the logs are listed before anything of etcd is known, so each of them is older than etcd's answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from oncelog.errors import CorruptMessageError, StorageError
from oncelog_partition_leader.core.log.folders import Folder, parse_folder
from oncelog_partition_leader.core.log.leader_epochs import NO_EPOCH, LeaderEpochs
from oncelog_partition_leader.log.checkpoints import LEADER_EPOCHS
from oncelog_partition_leader.log.reached_epoch import noted_epoch
from oncelog_runtime.metadata.cluster_keys import Partition, deleted_topic_key, partition_key
from oncelog_runtime.ports import Disk, KeyValue

_ANY_OFFSET: Final = (1 << 63) - 1


def held_logs(disk: Disk, log_dir: str) -> dict[Folder, int]:
    """Lists the logs in `log_dir`, with the last leader epoch that each surely has or had; -1 = none. Raises `StorageError`."""
    folders = (parse_folder(name) for name in disk.list(log_dir))
    return {folder: _last_epoch(disk, log_dir, folder) for folder in folders if folder is not None and not folder.aside}


def _last_epoch(disk: Disk, log_dir: str, folder: Folder) -> int:
    """Reads the last epoch of the table on disk, which is never ahead of its log, and the epoch that the log has reached."""
    directory = f"{log_dir}/{folder.name}"
    return max(_epoch_in_table(disk, f"{directory}/{LEADER_EPOCHS}"), _epoch_in_note(disk, directory))


def _epoch_in_table(disk: Disk, path: str) -> int:
    try:
        if not disk.exists(path):
            return NO_EPOCH
        return LeaderEpochs.load(disk.read_file(path), _ANY_OFFSET).last_epoch
    except (CorruptMessageError, StorageError):
        return NO_EPOCH  # recovery builds it again


def _epoch_in_note(disk: Disk, directory: str) -> int:
    try:
        return noted_epoch(disk, directory)
    except StorageError:
        return NO_EPOCH  # the log will be found to be unreadable, too


def _epoch_of(value: bytes) -> float:
    """Returns the leader epoch in a partition's value; one that cannot be parsed proves nothing (the view reports it)."""
    try:
        return Partition.decode(value).leader_epoch
    except (ValueError, KeyError, TypeError, IndexError):
        return math.inf


def forgotten(
    held: Mapping[Folder, int], items: Iterable[KeyValue], away_ms: float, tombstones_kept_ms: int
) -> Iterator[str]:
    """Yields a description of each log of `held` that etcd has forgotten; `items` is everything that etcd holds.

    `away_ms`: how long this broker was away, at most; `tombstones_kept_ms`: how long a deleted topic is remembered.
    """
    values = {item.key: item.value for item in items}
    for folder, last_epoch in held.items():
        value = values.get(partition_key(*folder.partition))
        if value is not None:
            if last_epoch > _epoch_of(value):
                yield f"{folder.name} in epoch {last_epoch}"
        elif deleted_topic_key(folder.partition.topic_id) not in values and away_ms < tombstones_kept_ms:
            yield folder.name
