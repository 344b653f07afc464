"""What a log says of its disk, against what the platter would still hold after a power cut at this moment.

A user loses by such a claim only when the power goes at the wrong moment, which is rare; a claim is wrong all the time.

Rule: only the simulated disk's own memory is looked at; nothing is read through the port, so nothing fails by looking.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from crc32c import crc32c

from oncelog_partition_leader.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.segment_file import LOG_SUFFIX, Segment
from oncelog_runtime.sim.disk import SimDisk
from tests.simulation.cluster import SimCluster
from tests.simulation.invariants import Sight, Watcher

_POINT: Final = struct.Struct("<qqI4x")
_BASE_AND_LENGTH: Final = struct.Struct("<qi")


class ClaimsAreOnThePlatter:
    """What is synced, the recovery point and the log start would outlive a power cut; an open log has no clean mark."""

    def __init__(self, disk_of: Callable[[int], SimDisk]) -> None:
        self._disk_of = disk_of

    def see(self, before: Sight | None, now: Sight) -> None:
        """See the class."""
        log = now.partition.log
        if log.failed is not None or (before is not None and before.on_disk == now.on_disk):
            return
        disk = self._disk_of(now.broker.broker_id)
        synced_end, recovery_point, log_start = now.on_disk
        checked = min(before.on_disk[0], synced_end) if before is not None else 0
        lost = first_lost(disk, log, checked, max(synced_end, recovery_point))
        assert lost is None, (
            f"{now.on_disk} is said to be on disk, and a power cut may leave nothing from {lost} on: {now}"
        )
        stored = stored_log_start(disk, log.directory)
        assert log_start <= stored, f"log start {log_start} is told, and {stored} is on disk: {now}"
        assert not disk.is_named(f"{log.directory}/{CLEAN_SHUTDOWN}"), f"the mark of a clean stop is still there: {now}"


def first_lost(disk: SimDisk, log: PartitionLog, start: int, end: int) -> int | None:
    """The base of the first segment with something of [start, end) that a power cut may take; None = there is none."""
    for segment in log._segments:
        if start < segment.next_offset and segment.base_offset < end:
            platter = disk.platter(segment.path + LOG_SUFFIX)
            if platter is None or len(platter) < _position_of(disk, segment, end):
                return segment.base_offset
    return None


def _position_of(disk: SimDisk, segment: Segment, offset: int) -> int:
    """How many bytes of a segment lie below an offset."""
    if segment.next_offset <= offset:
        return segment.index.size
    data = disk.in_cache(segment.path + LOG_SUFFIX)
    _, position = segment.index.position_below(offset)
    while position < len(data):
        base_offset, length = _BASE_AND_LENGTH.unpack_from(data, position)
        if base_offset >= offset:
            break
        position += length
    return position


def stored_log_start(disk: SimDisk, directory: str) -> int:
    """The lowest log start that a power cut may leave in the recovery point's file."""
    return min(_last_log_start(data) for data in disk.platters(f"{directory}/{RECOVERY_POINT}"))


def _last_log_start(data: bytes) -> int:
    """Of the last whole record."""
    found = 0
    for position in range(0, len(data) - _POINT.size + 1, _POINT.size):
        _, log_start, checksum = _POINT.unpack_from(data, position)
        if crc32c(data[position : position + 16]) != checksum:
            break
        found = log_start
    return found


def watch_disks(watcher: Watcher, cluster: SimCluster) -> None:
    """Hooks it in."""
    watcher.add(ClaimsAreOnThePlatter(lambda broker_id: cluster.node(f"broker-{broker_id}").disk))
