"""The metrics of channels: right, and of a bounded number of channels."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.rpc.channels import channel_collector
from oncelog_partition_leader.rpc.channels.channel_collector import ChannelCollector
from tests.unit.partition_leader.channel_world import ChannelWorld, channel, play, said


def _collect(world: ChannelWorld) -> dict[str, dict[str, float]]:
    families = [family for family in ChannelCollector(world.host).collect() if family is not None]
    return {family.metric.name: {labels: float(str(value)) for labels, value in family.rows} for family in families}


def test_they_count_what_happens_over_all_leaderships() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        await world.lead(1)
        world.put(channel())
        await world.send(b"a", b"b", b"c")
        await world.values(max_wait_ms=100)
        await world.settle("w1", said(0))
        labels = 'topic="orders",channel="billing"'
        found = {name: rows[labels] for name, rows in _collect(world).items()}
        assert found == {
            "oncelog_channel_delivered_total": 3,
            "oncelog_channel_redelivered_total": 0,
            "oncelog_channel_acknowledged_total": 1,
            "oncelog_channel_dead_total": 0,
            "oncelog_channel_depth_records": 2,
            "oncelog_channel_in_flight_records": 2,
            "oncelog_channel_workers": 1,
        }
        world.stop_leading(0)
        found = {name: rows[labels] for name, rows in _collect(world).items()}
        assert (found["oncelog_channel_delivered_total"], found["oncelog_channel_depth_records"]) == (3, 0)

    play(scenario)


def test_what_retention_has_deleted_is_no_depth_any_more() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        world.put(channel())
        for value in (b"a", b"b", b"c"):
            await world.send(value)
        await world.values(max_wait_ms=100, max_in_flight=1)
        await partition.delete_before(2)
        (depth,) = _collect(world)["oncelog_channel_depth_records"].values()
        (in_flight,) = _collect(world)["oncelog_channel_in_flight_records"].values()
        assert (depth, in_flight) == (1, 0), "nobody asks for records"

    play(scenario)


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: ChannelWorld) -> None:
        monkeypatch.setattr(channel_collector, "CHANNELS_MAX", 3)
        await world.lead()
        for n in range(5):
            world.put(channel(f"c{n}", f"{n}" * 32))
        assert {len(rows) for rows in _collect(world).values()} == {3}

    play(scenario)
