"""A scrape counts what is remembered of channels, and every kind has its series."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from oncelog_coordinator.core.channels.channel_records import Retry
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.shard.channel_collector import ChannelCollector
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP
from oncelog_runtime.observability.metrics import SLICE
from tests.unit.coordinator.channel_driver import OTHER, Led
from tests.unit.coordinator.group_driver import Groups


def collector(table: GroupShardTable, *, is_serving: bool = True) -> ChannelCollector:
    shard = SimpleNamespace(is_serving=is_serving, life=SimpleNamespace(table=table))
    return ChannelCollector(cast(Any, {(KIND_GROUP, 0): shard}))


def told(table: GroupShardTable, *, is_serving: bool = True) -> dict[str, Any]:
    return {
        f"{family.metric.name.removeprefix('oncelog_channel_state_')}{labels}": value
        for family in collector(table, is_serving=is_serving).collect()
        if family is not None
        for labels, value in family.rows
    }


def test_channels_and_what_they_hold_are_counted() -> None:
    groups = Groups()
    first = Led(groups).begin()
    Led(groups, partition=1).begin()
    Led(groups, channel_id=OTHER).begin()
    first.write(0, (5, 6), (2_000, 2_000), retried=(Retry(0, 2),))
    first.ack(1, (10, 11), (13, 13))
    assert told(groups.table) == {
        "channels": 2,
        "partitions": 3,
        'recordskind="settled"': 2,
        'recordskind="retried"': 1,
        'recordskind="pending"': 1,
        'recordskind="outdated"': 0,
        "bytes": 1 + (2_000 - 1_024) // 8 + 1 + len(first.state.retried[0].packed) + 2 * 16,  # type: ignore[union-attr]
    }
    first.seek(7)
    assert told(groups.table)['recordskind="outdated"'] == 4
    assert not any(told(groups.table, is_serving=False).values()), "of a shard that does not serve nothing is said"


def test_a_scrape_of_many_channels_pauses() -> None:
    groups = Groups()
    Led(groups).begin()
    (kept,) = groups.table.channels.channels.values()
    groups.table.channels.channels.update({f"{number:032x}": kept for number in range(2 * SLICE)})
    assert len([one for one in collector(groups.table).collect() if one is None]) >= 2
