"""Leadership goes back to the preferred replica within a minute of its return to the ISR, and nothing is lost by that."""

from __future__ import annotations

import pytest

from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.script import Place, Script, cluster

WITHIN_S = 60


def controller(s: Script) -> str:
    item = s.world.metadata.get(keys.CONTROLLER_KEY)
    assert item is not None
    return f"broker-{keys.decode_ref(item.value).broker_id}"


async def led_by(s: Script, is_controller: bool) -> Place:
    """A partition whose preferred leader leads, and is the controller, or is not."""
    places = await s.topic(partitions=3, min_insync_replicas="2")
    assert {s.leader(place) for place in places} == {"broker-0", "broker-1", "broker-2"}
    assert all(s.leader(place) == f"broker-{s.state(place).replicas[0]}" for place in places)
    return next(place for place in places if (s.leader(place) == controller(s)) is is_controller)


async def lost_and_back(s: Script, place: Place) -> str:
    """The preferred leader was killed, and is in sync again, under another leader."""
    writer, preferred = await s.producer(), s.leader(place)
    await s.write(place, writer, "x")
    s.kill(preferred)
    await s.new_leader(place, preferred)
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    s.restart(preferred)
    await s.rejoined(preferred, place)
    assert s.leader(place) != preferred
    return preferred


@pytest.mark.parametrize("is_controller", [True, False], ids=["the controller", "another broker"])
async def test_the_preferred_replica_leads_again_within_a_minute(s: Script, is_controller: bool) -> None:
    """Regression: the preferred leader did not lead again within 60 s."""
    place = await led_by(s, is_controller)
    preferred = await lost_and_back(s, place)
    await s.until(lambda: s.leads(preferred, place), "it leads again", within_s=WITHIN_S)
    assert await s.read(place) == ["x", "y"]


@cluster(leader_rebalance_interval_ms=3_600_000)
async def test_the_time_is_an_option_of_brokers(s: Script) -> None:
    place = await led_by(s, is_controller=False)
    preferred = await lost_and_back(s, place)
    await s.sleep(WITHIN_S)
    assert s.leader(place) != preferred
