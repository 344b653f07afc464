"""Sums and workers of a channel's description."""

from __future__ import annotations

from oncelog import errors
from oncelog.client.admin.channel_descriptions import (
    ChannelDescription,
    ChannelListing,
    ChannelOptions,
    ChannelPartitionState,
    ChannelWorker,
)

OPTIONS = ChannelOptions(30_000, 0, "", 0, 600_000, False, False, 100_000)
LISTING = ChannelListing("orders", "0a" * 16, "billing", "c1" * 16, OPTIONS, False, -2, 5)


def test_sums_are_over_the_partitions_that_answered() -> None:
    workers = (ChannelWorker("b", "x", 10, 2, 0), ChannelWorker("a", "x", 10, 1, 0))
    found = ChannelDescription(
        LISTING,
        (
            ChannelPartitionState(0, depth=5, in_flight=3, workers=workers),
            ChannelPartitionState(1, errors.NetworkError()),
            ChannelPartitionState(2, depth=7, in_flight=1, workers=workers[:1]),
        ),
    )
    assert (found.total("depth"), found.total("in_flight"), found.total("dead")) == (12, 4, 0)
    assert found.workers == {"a": 1, "b": 4}
