"""What a log knows of its transactions when it was just opened or cut, against a replay of every byte that it holds.

A snapshot of the producers lets an opening read only what follows it. What the snapshot forgot is forgotten for good.

Rule: a log whose head retention took, or in which something rotted, cannot be replayed by us, and is passed over.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog.core.batch.header import read_header
from oncelog.types import PartitionId
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.segment_file import LOG_SUFFIX
from oncelog_runtime.sim.disk import SimDisk
from tests.simulation.cluster import SimCluster
from tests.simulation.invariants import Sight, Watcher
from tests.simulation.log_invariants import TransactionModel

_ROT = ("rot_every_ms", "bit_flip_every_ms")


class OpenedLogsKnowTheirTransactions:
    """The open ones are those of the replay; of the ended ones none is missing whose marker may not be committed yet.

    `reached(partition)`: the highest high watermark of any leader so far.
    """

    def __init__(
        self, disk_of: Callable[[int], SimDisk], reached: Callable[[PartitionId], int], is_rotten: Callable[[], bool]
    ) -> None:
        self._disk_of = disk_of
        self._reached = reached
        self._is_rotten = is_rotten

    def see(self, before: Sight | None, now: Sight) -> None:
        """Looks when a log is seen first, and after each cut."""
        if (before is not None and before.log_end <= now.log_end) or self._is_rotten():
            return
        log = now.partition.log
        if log.failed is not None or log._segments[0].base_offset:
            return
        known, model = log.producers.transactions, replayed(self._disk_of(now.broker.broker_id), log)
        first_offsets = {name: opened.first_offset for name, opened in known.open.items()}
        assert first_offsets == model.open, f"open are {first_offsets}, by the log {model.open}: {now}"
        reached = self._reached(now.partition.id)
        for name, ended in model.ended:
            assert ended.marker_offset is not None
            assert ended.marker_offset < reached or (ended.marker_offset, ended.first_offset) in known.decided, (
                f"{name}, which ended at {ended.marker_offset}, is not known, and only {reached} is committed: {now}"
            )


def replayed(disk: SimDisk, log: PartitionLog) -> TransactionModel:
    """A model made of all batches of a log that still has its head."""
    model = TransactionModel()
    for segment in log._segments:
        data, position = memoryview(disk.in_cache(segment.path + LOG_SUFFIX)), 0
        while position < segment.index.size:
            header = read_header(data, position)
            model.append(header, data[position : position + header.batch_length])
            position += header.batch_length
    return model


def watch_openings(watcher: Watcher, cluster: SimCluster) -> None:
    """Hooks it in."""
    injected = cluster.world.loop.injected
    watcher.add(
        OpenedLogsKnowTheirTransactions(
            lambda broker_id: cluster.node(f"broker-{broker_id}").disk,
            watcher.reached_in,
            lambda: any(injected.get(name) for name in _ROT),
        )
    )
