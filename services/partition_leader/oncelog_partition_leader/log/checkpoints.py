"""The small files beside the segments: identity, recovery point, epochs, indexes and snapshots.

    partition.json          topic id and partition, with their tag; another one is refused (S26), a damaged one replaced
    recovery-point          the end that is surely on disk, and the log start: records of 24 bytes; the last good one counts
    leader-epochs           the epoch table
    <base>.index .txnindex  the indexes of a segment
    <end>.snapshot          producer state at an end offset
    clean-shutdown          written last at a clean stop, removed first at the next start
    custody.json            the incarnation since which the log lost nothing by itself: see `custody`
    seal.json               the log has every committed record on disk: see `sealing`
    compaction-point        how far the log is compacted: see `compaction/replacement`
    reached-epoch           the leader epoch whose start offset the log has reached: see `reached_epoch`

Rule 1: all of them are derived from the log, or bounds of it that are only ever too low: losing one costs time.
Rule 2: the recovery point is written after the data was synced, and lowered, durably, before the log is truncated.
Rule 3: a file that does not match its checksum is treated as missing (S14-S17, S21).
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from oncelog.core.batch.header import partition_tag
from oncelog.core.malformed import MALFORMED
from oncelog.errors import StorageError
from oncelog.types import Buffer
from oncelog_partition_leader.core.producers.producer_snapshot import Snapshot
from oncelog_partition_leader.log.segment_file import OFFSET_DIGITS, SNAPSHOT_SUFFIX, Segment
from oncelog_runtime.ports import Disk, DiskFile

IDENTITY: Final = "partition.json"
CUSTODY: Final = "custody.json"
SEAL: Final = "seal.json"
REACHED_EPOCH: Final = "reached-epoch"
RECOVERY_POINT: Final = "recovery-point"
LEADER_EPOCHS: Final = "leader-epochs"
CLEAN_SHUTDOWN: Final = "clean-shutdown"
RESETTING: Final = -1
"""A recovery point that says: the log is being replaced; whatever the directory holds is to be dropped."""

SNAPSHOTS_KEPT: Final = 2
"""Snapshots that are kept besides those at the start of a segment."""

_POINT: Final = struct.Struct("<qqI4x")
_CLEAN: Final = struct.Struct("<qqI")
_NUMBER: Final = re.compile(r"\d{1,10}", re.ASCII)
_POINT_FILE_MAX: Final = 1 << 16


@dataclass(slots=True)
class Checkpoint:
    """Files to be stored once everything below `end_offset` is on disk."""

    end_offset: int
    producers: Snapshot
    files: dict[str, bytes] = field(default_factory=dict)
    indexed: list[tuple[Segment, int]] = field(default_factory=list)
    """The segments whose indexes are among the files, and how much of each they cover."""


def snapshot_path(directory: str, end_offset: int) -> str:
    """Returns the path of the producer state at `end_offset`."""
    return f"{directory}/{end_offset:0{OFFSET_DIGITS}d}{SNAPSHOT_SUFFIX}"


def snapshot_offsets(disk: Disk, directory: str) -> list[int]:
    """Returns the end offsets of the snapshots on disk, ascending."""
    return numbered(disk.list(directory), SNAPSHOT_SUFFIX)


def numbered(names: list[str], suffix: str) -> list[int]:
    """Returns the offsets of the names `<20 digits><suffix>`; other names are ignored, since no log writes them (S22)."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if len(stem) == OFFSET_DIGITS and stem.isascii() and stem.isdigit())


def prune_snapshots(disk: Disk, directory: str, bases: set[int]) -> None:
    """Removes snapshots that no recovery and no truncation needs."""
    offsets = snapshot_offsets(disk, directory)
    spare = [offset for offset in offsets if offset not in bases]
    for offset in spare[:-SNAPSHOTS_KEPT]:
        disk.remove(snapshot_path(directory, offset))
    first = min(bases, default=0)
    for offset in offsets:
        if offset < first:
            disk.remove(snapshot_path(directory, offset))


class RecoveryPoint:
    """The pair (certainly synced end, log start), in a file that grows by a record per sync."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{RECOVERY_POINT}"
        self._file: DiskFile | None = None
        self._stored: tuple[int, int] | None = None
        """The pair that the file says, or its absence; None = not read, or damaged, so that nothing can be added to it."""
        self.end_offset = 0
        self.log_start_offset = 0

    def read(self) -> bool:
        """Loads the last good record; False when there is none."""
        if not self._disk.exists(self._path):
            self._stored = (0, 0)
            return False
        data = self._disk.read_file(self._path)
        found, is_whole = False, bool(data) and len(data) % _POINT.size == 0
        for position in range(0, len(data) - _POINT.size + 1, _POINT.size):
            end_offset, log_start, crc = _POINT.unpack_from(data, position)
            if crc32c(data[position : position + 16]) != crc:
                is_whole = False
                break
            self.end_offset, self.log_start_offset, found = end_offset, log_start, True
        self._stored = (self.end_offset, self.log_start_offset) if is_whole else None
        return found

    def is_stored(self, end_offset: int, log_start_offset: int) -> bool:
        """Returns True when the file, or its absence, said exactly this when it was read."""
        return self._stored == (end_offset, log_start_offset)

    def note(self, end_offset: int) -> bool:
        """Adds a record, without syncing it: a power cut may leave an older one, which is too low and so harmless.

        A failure to write it is harmless for the same reason. True when the file is new: its name is not durable yet.
        """
        self.end_offset, is_new = end_offset, False
        try:
            if self._file is None:
                is_new = not self._disk.exists(self._path)
                self._file = self._disk.open(self._path, create=True)
            if self._file.size < _POINT_FILE_MAX:
                self._file.append([_record(end_offset, self.log_start_offset)])
        except StorageError:
            self._close()
        return is_new

    async def store(self, end_offset: int, log_start_offset: int) -> None:
        """Replaces the file, durably. Raises `StorageError`."""
        self._close()
        await self._disk.write_atomic(self._path, _record(end_offset, log_start_offset))
        self.end_offset, self.log_start_offset = end_offset, log_start_offset

    @property
    def is_full(self) -> bool:
        """True when `store` should replace the file soon."""
        return self._file is not None and self._file.size >= _POINT_FILE_MAX

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Closes the file."""
        self._close()


def _record(end_offset: int, log_start_offset: int) -> bytes:
    return _POINT.pack(end_offset, log_start_offset, crc32c(struct.pack("<qq", end_offset, log_start_offset)))


def pack_clean(log_end_offset: int, active_bytes: int) -> bytes:
    """Encodes the clean-shutdown marker: the log's end and size when it was closed."""
    return _CLEAN.pack(log_end_offset, active_bytes, crc32c(struct.pack("<qq", log_end_offset, active_bytes)))


def read_clean(data: Buffer) -> tuple[int, int] | None:
    """Decodes a clean-shutdown marker: (log end offset, bytes of the active segment); None when it is damaged."""
    if len(data) != _CLEAN.size:
        return None
    end, size, crc = _CLEAN.unpack(data)
    return (end, size) if crc32c(struct.pack("<qq", end, size)) == crc else None


@dataclass(frozen=True, slots=True)
class Identity:
    """The partition whose log a directory holds."""

    topic_id: str
    partition: int

    def encode(self) -> bytes:
        """Returns the content of `partition.json`."""
        value = {"partition": self.partition, "tag": self.tag, "topic_id": self.topic_id, "version": 1}
        return json.dumps(value).encode()

    @property
    def tag(self) -> int:
        """The partition tag: a checksum of both, which every batch of the partition carries too."""
        return partition_tag(self.topic_id, self.partition)

    @staticmethod
    def decode(data: bytes) -> tuple[Identity, bool] | None:
        """Returns (identity, whether its checksum proves it); None for a damaged file. Older versions wrote no checksum."""
        try:
            value = json.loads(data)
            found = Identity(str(value["topic_id"]), int(value["partition"]))
        except MALFORMED:
            return None
        if "tag" not in value:
            return found, False
        return (found, True) if value["tag"] == found.tag else None

    @staticmethod
    def of_directory(directory: str) -> Identity:
        """Parses a directory's name, `<topic>-<topic id>-<partition>`. Raises `StorageError`."""
        parts = directory.rstrip("/").rsplit("/", 1)[-1].rsplit("-", 2)
        if len(parts) != 3 or _NUMBER.fullmatch(parts[2]) is None:
            raise StorageError("a log's directory is <topic>-<topic id>-<partition>", reason="identity")
        return Identity(parts[1], int(parts[2]))
