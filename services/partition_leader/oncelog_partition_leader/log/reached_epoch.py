"""The leader epoch that a log has reached: it has held all records that the log of this epoch's leader began with.

A leader writes nothing when it begins. So, while no producer wrote, the epoch of the last batch is the same in a log that an
older leader left behind and in one with which later leaders continued. When etcd was restored and only the logs show which
replica holds everything, the difference decides whether acknowledged records are kept or truncated. Raft writes an empty
entry for it (Ongaro and Ousterhout, 5.4.2 and 8); here it is a note beside the log, which takes no offset.

Rule 1: a leader notes its epoch when it begins. A follower notes it before it acknowledges anything in it, as soon as its log
        is as long as the leader's was when that began. A batch of the epoch is as good as a note, and saves it.
Rule 2: a note is valid as long as the log is that long. A truncation below it removes the note first.
Rule 3: notes are as durable as records: written at once, synced with the log.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from oncelog_partition_leader.log.checkpoints import REACHED_EPOCH
from oncelog_runtime.ports import Disk

_NOTE: Final = struct.Struct("<qiI")
_KEPT_BYTES_MAX: Final = 256 * _NOTE.size
"""A longer file is replaced when the log is opened."""
_NONE: Final = (-1, 0)


class ReachedEpoch:
    """The newest note of one log. `epoch` -1 = none."""

    __slots__ = ("_disk", "_path", "at_offset", "epoch", "is_synced")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{REACHED_EPOCH}"
        self.epoch, self.at_offset = _NONE
        self.is_synced = True

    @classmethod
    async def open(cls, disk: Disk, directory: str, log_end_offset: int) -> ReachedEpoch:
        """Loads the last note that is whole, if the log is still long enough for it. Raises `StorageError`."""
        notes = cls(disk, directory)
        data = _read(disk, directory)
        epoch, at_offset = _last_note(data)
        fits = at_offset <= log_end_offset
        if fits:
            notes.epoch, notes.at_offset = epoch, at_offset
        if not fits or len(data) > _KEPT_BYTES_MAX or len(data) % _NOTE.size:
            await disk.write_atomic(notes._path, _note(notes.epoch, notes.at_offset))
        return notes

    def note(self, epoch: int, at_offset: int) -> None:
        """Notes that the log has reached `at_offset`, where the leader of this epoch began. Raises `StorageError`."""
        self._write(epoch, at_offset)

    async def forget_above(self, log_end_offset: int) -> None:
        """Removes a note above `log_end_offset`, durably, before a truncation. On a `StorageError` the log must not be cut."""
        if self.epoch >= 0 and self.at_offset > log_end_offset:
            self._write(*_NONE)
            await self.sync()

    async def sync(self) -> None:
        """Makes the newest note durable. Raises `StorageError`."""
        self.is_synced = True  # before the await: a note that is written meanwhile needs a sync of its own
        file = self._disk.open(self._path, create=True)
        try:
            await file.sync()
        finally:
            file.close()

    def _write(self, epoch: int, at_offset: int) -> None:
        file = self._disk.open(self._path, create=True)
        try:
            file.append([_note(epoch, at_offset)])
        finally:
            file.close()
        self.epoch, self.at_offset = epoch, at_offset
        self.is_synced = False


def noted_epoch(disk: Disk, directory: str) -> int:
    """Returns the epoch of the last note that is whole, however long the log is; -1 = none. Raises `StorageError`."""
    return _last_note(_read(disk, directory))[0]


def _read(disk: Disk, directory: str) -> bytes:
    path = f"{directory}/{REACHED_EPOCH}"
    return disk.read_file(path) if disk.exists(path) else b""


def _note(epoch: int, at_offset: int) -> bytes:
    return _NOTE.pack(at_offset, epoch, crc32c(struct.pack("<qi", at_offset, epoch)))


def _last_note(data: bytes) -> tuple[int, int]:
    """Returns (epoch, offset) of the last note. None counts before a damaged one: that may have been a removal."""
    found = _NONE
    if len(data) % _NOTE.size:
        return found
    for position in range(0, len(data), _NOTE.size):
        at_offset, epoch, crc = _NOTE.unpack_from(data, position)
        found = (epoch, at_offset) if crc == crc32c(struct.pack("<qi", at_offset, epoch)) else _NONE
    return found
