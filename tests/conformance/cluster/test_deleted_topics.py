"""A log leaves its place only because its topic was deleted, never because the topic is absent; and it leaves for the trash."""

from __future__ import annotations

from oncelog_partition_leader.core.log.folders import folder_name
from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.script import Place, Script, cluster

NODES = ("broker-0", "broker-1", "broker-2")


def logs(s: Script, node: str, place: Place) -> bool:
    """The replica's folder is in its place."""
    return s.world.nodes[node].disk.exists(f"logs/{folder_name(place.topic, place.id)}")


def trashed(s: Script, node: str, place: Place) -> bool:
    """It waits in the trash."""
    return any(
        name.endswith(folder_name(place.topic, place.id)) for name in s.world.nodes[node].disk.list("logs/.trash")
    )


async def delete(s: Script, place: Place) -> None:
    async with s.client() as client:
        await client.admin.delete_topic(place.topic)


@cluster(trash_retention_ms=20_000, retention_interval_ms=1_000)
async def test_a_deleted_topic_goes_to_the_trash_and_is_removed_after_the_grace(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "x")
    await delete(s, place)
    await s.until(lambda: all(trashed(s, node, place) for node in NODES))
    assert not any(logs(s, node, place) for node in NODES)
    await s.sleep(15)
    assert all(trashed(s, node, place) for node in NODES)
    await s.sleep(8)
    assert not any(trashed(s, node, place) for node in NODES)


async def test_a_broker_that_was_down_finds_at_its_start_that_a_topic_was_deleted(s: Script) -> None:
    place, kept = await s.place(), await s.place("kept")
    await s.write(place, await s.producer(), "x")
    s.kill("broker-2")
    await delete(s, place)
    s.restart("broker-2")
    await s.until(lambda: trashed(s, "broker-2", place))
    assert logs(s, "broker-2", kept)


async def test_a_topic_whose_keys_are_gone_is_not_served_and_its_logs_stay(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "x")
    s.world.metadata.commit((), (), (keys.topic_key(place.topic), keys.partition_key(*place.id)))
    await s.until(lambda: not any(place.id in s.broker(node).replicas.partitions for node in NODES))
    s.kill("broker-1")
    s.restart("broker-1")
    await s.sleep(30)
    assert all(logs(s, node, place) for node in NODES)
    folders = [folder.partition for folder in s.broker("broker-1").replicas.leftovers.orphans]
    assert folders == [place.id]


@cluster(deleted_topics_retention_ms=10_000)
async def test_etcd_forgets_a_deleted_topic_after_a_while(s: Script) -> None:
    place = await s.place()
    await delete(s, place)
    assert s.world.metadata.get(keys.deleted_topic_key(place.topic_id)) is not None
    await s.sleep(11)
    await s.place("another")  # something to look at
    await s.until(lambda: s.world.metadata.get(keys.deleted_topic_key(place.topic_id)) is None)
