"""Names of partition folders, and of those that lie in the trash.

<topic>-<topic id>-<partition>                       a log in use
<topic>-<topic id>-<partition>.quarantined-<n>       a rotten one that was set aside
.trash/<milliseconds>.<folder>                       one that is in the trash since that time
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from oncelog.types import PartitionId

TRASH: Final = ".trash"
_FOLDER: Final = re.compile(r"(?P<topic>.+)-(?P<id>[0-9a-f]{32})-(?P<partition>[0-9]+)(?P<aside>\.quarantined-[0-9]+)?")
_TRASHED: Final = re.compile(r"(?P<since>[0-9]+)\.(?P<folder>.+)")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder's name and the partition whose log it holds. `aside`: the log was set aside as rotten."""

    name: str
    topic: str
    partition: PartitionId
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Trashed:
    """A folder in the trash; `name` is its name there."""

    name: str
    folder: Folder
    since_ms: int


def folder_name(topic: str, partition: PartitionId) -> str:
    """Returns the folder's name of a log in use."""
    return f"{topic}-{partition.topic_id}-{partition.partition}"


def parse_folder(name: str) -> Folder | None:
    """Parses a folder's name; None when it is not a partition's folder."""
    found = _FOLDER.fullmatch(name)
    if found is None:
        return None
    partition = PartitionId(found["id"], int(found["partition"]))
    return Folder(name, found["topic"], partition, aside=found["aside"] is not None)


def trash_name(folder: str, now_ms: int) -> str:
    """Returns the name that a folder gets in the trash."""
    return f"{max(now_ms, 0):013d}.{folder}"


def parse_trashed(name: str) -> Trashed | None:
    """Parses a name in the trash; None when it is not one of `trash_name`."""
    found = _TRASHED.fullmatch(name)
    folder = parse_folder(found["folder"]) if found is not None else None
    return Trashed(name, folder, int(found["since"])) if found is not None and folder is not None else None
