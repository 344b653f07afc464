"""The gauges of what the shards remember of channels, read at a scrape; none has a label for the channel.

Rule: every kind has its series, also when its number is 0, so a sum or an alert does not depend on which channels there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from oncelog_coordinator.core.channels.channel_partition import ChannelPartition
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.shard.shard import Shard
from oncelog_runtime.metadata.cluster_view import ShardKey
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import SLICE, Family, labels_of, one

_KINDS: Final = ("settled", "retried", "pending", "outdated")
_RANGE_BYTES: Final = 16
"""Two offsets."""


class ChannelCollector:
    """`collect` is a `metrics.Collector`. `shards` is the dict that the ownership maintains."""

    def __init__(self, shards: dict[ShardKey, Shard]) -> None:
        self._shards = shards

    def collect(self) -> Iterator[Family | None]:
        """Yields how many channels, partitions, records and bytes are kept."""
        channels = partitions = size = seen = 0
        records: Counter[str] = Counter()
        for kept in self._channels():
            channels += 1
            for here in list(kept.values()):
                partitions += 1
                size += _bytes_of(here)
                records.update(_records_of(here))
                seen += 1 + len(here.settled) + len(here.retried) + len(here.pending)
                if seen >= SLICE:
                    seen = 0
                    yield None
        yield one(names.CHANNEL_STATE_CHANNELS, channels)
        yield one(names.CHANNEL_STATE_PARTITIONS, partitions)
        rows = [(labels_of(names.CHANNEL_STATE_RECORDS, kind), records[kind]) for kind in _KINDS]
        yield Family(names.CHANNEL_STATE_RECORDS, rows)
        yield one(names.CHANNEL_STATE_BYTES, size)

    def _channels(self) -> Iterator[dict[int, ChannelPartition]]:
        for shard in list(self._shards.values()):
            if shard.is_serving and isinstance(shard.life.table, GroupShardTable):
                yield from list(shard.life.table.channels.channels.values())


def _records_of(here: ChannelPartition) -> dict[str, int]:
    counts = len(here.settled), len(here.retried), len(here.pending), len(here.outdated)
    return dict(zip(_KINDS, counts, strict=True))


def _bytes_of(here: ChannelPartition) -> int:
    settled = sum((block.bits.bit_length() + 7) // 8 for block in here.settled.values())
    retried = sum(len(block.packed) for block in here.retried.values())
    return settled + retried + _RANGE_BYTES * here.pending_ranges()
