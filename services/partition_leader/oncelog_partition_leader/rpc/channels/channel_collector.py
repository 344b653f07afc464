"""The metrics of channels that a scrape reads from a broker.

Rule: one series for each channel of which a partition is led here, and for the first `CHANNELS_MAX` of them, in the order in
which they began here: a client that makes channels does not fill the memory of a monitoring system.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from oncelog_partition_leader.partition.channels.host import ChannelHost
from oncelog_partition_leader.partition.channels.shared_channel import SharedChannel
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import SLICE, Family, Row, labels_of

CHANNELS_MAX: Final = 1_000
_METRICS: Final = (
    names.CHANNEL_DELIVERED,
    names.CHANNEL_REDELIVERED,
    names.CHANNEL_ACKNOWLEDGED,
    names.CHANNEL_DEAD,
    names.CHANNEL_DEPTH,
    names.CHANNEL_IN_FLIGHT,
    names.CHANNEL_WORKERS,
)


class ChannelCollector:
    """Collects the metrics of channels; `collect` is a `metrics.Collector`."""

    def __init__(self, host: ChannelHost) -> None:
        self._host = host

    def collect(self) -> Iterator[Family | None]:
        """Yields the metrics; None lets other tasks run."""
        rows: list[list[Row]] = [[] for _ in _METRICS]
        looked = 0
        for shared in list(islice(self._host.shared.values(), CHANNELS_MAX)):
            labels = labels_of(names.CHANNEL_DEPTH, shared.topic, shared.channel.name)
            for row, value in zip(rows, _values(shared), strict=True):
                row.append((labels, value))
            looked += len(shared.led)
            if looked >= SLICE:
                looked = 0
                yield None
        for metric, row in zip(_METRICS, rows, strict=True):
            yield Family(metric, row)


def _values(shared: SharedChannel) -> tuple[int, ...]:
    counts = [led.counts() for led in shared.led.values()]
    totals = shared.totals.with_all(counts)
    return (
        totals.delivered,
        totals.redelivered,
        totals.acknowledged,
        totals.dead,
        sum(one.depth for one in counts),
        sum(one.in_flight for one in counts),
        len(shared.workers),
    )
