"""The folder of one log: it is made durably, holds one partition's log and no other's, and is set aside when it is quarantined.

Rule: a folder is judged by its identity file, and by the partition tag in its batches when that file is damaged.
"""

from __future__ import annotations

import logging

from oncelog.core.batch.header import HEADER_BYTES, check_body, read_header
from oncelog.errors import CorruptMessageError, StorageError, UnsupportedMessageFormatError
from oncelog_partition_leader.log.checkpoints import IDENTITY, Identity, numbered
from oncelog_partition_leader.log.segment_file import LOG_SUFFIX, Segment
from oncelog_runtime.ports import Disk

_log = logging.getLogger(__name__)


async def check_identity(disk: Disk, directory: str, identity: Identity) -> None:
    """Refuses another partition's directory (S26); writes the identity into a new one, and again when it is damaged.

    A file without a valid checksum is judged by the batches beside it, which carry the partition's tag. Raises
    `StorageError`: reason identity when all speaks for another partition, rot when nothing fits together.
    """
    path = f"{directory}/{IDENTITY}"
    await make_directory(disk, directory)
    read = Identity.decode(disk.read_file(path)) if disk.exists(path) else None
    found, proven = read if read is not None else (None, False)
    if found == identity:
        return
    if proven:
        raise StorageError("this directory belongs to another partition", reason="identity")
    has_segments = numbered(disk.list(directory), LOG_SUFFIX)
    tags = await disk.run(lambda: _first_tags(disk, directory)) if has_segments else set()
    if found is not None and tags and tags == {found.tag}:
        raise StorageError("this directory belongs to another partition", reason="identity")
    if tags - {identity.tag}:
        raise StorageError("neither the folder's name nor its identity fits its batches", reason="rot")
    if disk.exists(path):
        _log.warning("%s is damaged and is written again: its batches say whose log it is", path)
    await disk.write_atomic(path, identity.encode())


def _first_tags(disk: Disk, directory: str) -> set[int]:
    """Returns the partition tags of the first batch of each segment, as far as these are sound."""
    tags: set[int] = set()
    for base in numbered(disk.list(directory), LOG_SUFFIX):
        segment = Segment(disk, directory, base)
        try:
            data = segment.file.read(0, HEADER_BYTES)
            header = read_header(data, 0, segment.file.size)
            data = segment.file.read(0, header.batch_length)
            check_body(data, header)
            tags.add(header.partition_tag)
        except (CorruptMessageError, UnsupportedMessageFormatError):
            continue  # empty, torn or rotten: the scan finds out which
        finally:
            segment.close()
    return tags


async def make_directory(disk: Disk, directory: str) -> None:
    """Creates a directory and its parents, durably; also syncs the name of an existing one, whose creator may have crashed."""
    parts = directory.split("/")
    paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    missing = [path for path in paths if not disk.exists(path)]
    if missing:
        disk.make_dirs(directory)
    for path in missing or [directory]:
        await disk.sync_dir(path.rpartition("/")[0])


async def set_aside(disk: Disk, directory: str) -> str:
    """Moves a quarantined log out of the way, so that a new one can be opened there; returns its new path."""
    number = 0
    while disk.exists(f"{directory}.quarantined-{number}"):
        number += 1
    kept = f"{directory}.quarantined-{number}"
    disk.rename(directory, kept)
    await disk.sync_dir(directory.rpartition("/")[0])
    return kept
