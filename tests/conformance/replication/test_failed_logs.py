"""A log that fails costs its own partition one replica for a while, and no other partition anything (S8, S9, S11)."""

from __future__ import annotations

import asyncio

from oncelog import errors
from oncelog.wire import methods
from oncelog_partition_leader.core.log.folders import folder_name
from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.script import Place, Script, cluster


async def spread(s: Script, count: int = 6) -> list[Place]:
    """Partitions of one topic, each with a record on all replicas."""
    places = await s.topic("work", count, min_insync_replicas="2")
    writer = await s.producer()
    for place in places:
        await s.write(place, writer, f"x{place.partition}")
    return places


def break_log(s: Script, node: str, place: Place) -> None:
    """A sector under this log cannot be read: whoever reads it fails the log."""
    partition = s.replica(node, place)
    partition.fail(errors.StorageError("a sector cannot be read", reason="io"))


async def test_one_failed_log_leaves_its_own_partition_alone(s: Script) -> None:
    places = await spread(s)
    node = s.leader(places[0])
    me = s.broker(node).me()
    others = {place: s.state(place) for place in places[1:]}
    break_log(s, node, places[0])
    await s.until(lambda: s.leader(places[0]) != node and node not in s.isr(places[0]))
    await s.until(lambda: node in s.isr(places[0]), "it joins again")
    assert s.broker(node).me() == me, "the same incarnation"
    assert {place: s.state(place) for place in others} == others, "no other partition was touched"
    assert await s.read(*places) == [f"x{place.partition}" for place in places]


async def test_two_brokers_with_a_bad_sector_each_lose_no_availability(s: Script) -> None:
    places = await spread(s)
    writer = await s.producer()
    first, second = places[0], next(place for place in places if s.leader(place) != s.leader(places[0]))
    nodes = s.leader(first), s.leader(second)
    break_log(s, nodes[0], first)
    break_log(s, nodes[1], second)
    longest = 0.0
    for place in places:
        began = s.world.loop.time()
        batch = s.batch(place, writer, "y")
        await s.retry(lambda place=place, batch=batch: s.produce(place, batch))  # type: ignore[misc]
        longest = max(longest, s.world.loop.time() - began)
    assert longest < 1.0
    for node, place in zip(nodes, (first, second), strict=True):
        await s.until(lambda node=node, place=place: node in s.isr(place))  # type: ignore[misc]
    assert await s.read(first) == [f"x{first.partition}", "y"]


async def test_a_follower_that_lost_records_joins_by_what_it_has_now(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    leader, (second, third) = s.leader(place), s.followers(place)
    s.fail_syncs(third)
    s.replica(third, place).sync.request()
    await s.until(lambda: s.broken(third, place))
    s.lose_unsynced(third)  # the kernel drops the pages: a scan ends before x
    s.heal_disk(third)
    held = s.hold(methods.REPLICATE, source=leader, target=third)
    await s.until(lambda: not s.broken(third, place))
    assert s.replica(third, place).log.log_end_offset == 0
    await s.sleep(2)
    assert third not in s.isr(place), "not by what it acknowledged before"
    held.close()
    await s.until(lambda: third in s.isr(place))
    s.kill(leader, second)
    assert s.replica(third, place).log.log_end_offset == 1


async def test_the_last_replica_takes_a_new_incarnation_and_leads_on(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    leader, followers = s.leader(place), s.followers(place)
    s.kill(*followers)
    await s.until(lambda: s.isr(place) == {leader})
    before = s.broker(leader).me()
    break_log(s, leader, place)
    await s.until(lambda: s.broker(leader).me() != before)
    s.restart(*followers)
    await s.cluster.healthy()
    assert await s.read(place) == ["x"]


@cluster(session_timeout_ms=30_000)
async def test_a_process_that_dies_before_it_could_tell_vouches_for_less_afterwards(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    leader = s.leader(place)
    named = s.broker(leader).me().incarnation
    s.delay_etcd_writes(leader, keys.PARTITIONS)
    break_log(s, leader, place)
    await asyncio.sleep(0.5)
    s.kill(leader)
    s.restart(leader)
    await s.until(lambda: leader in s.cluster.services and s.broker(leader).registration.registered)
    await s.until(lambda: not s.broken(leader, place))
    claim = s.replica(leader, place).claim
    assert claim.intact_since > named, "not for what it held as the one that the ISR names"


async def test_a_flipped_digit_in_the_identity_of_one_replica_costs_no_partition_its_leader(s: Script) -> None:
    """It said "belongs to another partition" after a restart of everything, and two sound replicas waited for it for ever."""
    place = await s.place()
    await s.write(place, await s.producer(), "1", "2")
    brokers = [s.leader(place), *s.followers(place)]
    for node in brokers:
        s.kill(node)
    disk = s.world.nodes[brokers[0]].disk
    path = f"logs/{folder_name(place.topic, place.id)}/partition.json"
    sound = disk.read_file(path)
    digit = sound.index(place.topic_id.encode())
    file = disk.open(path, create=True)
    file.truncate(0)
    file.append([sound[:digit] + (b"0" if sound[digit : digit + 1] != b"0" else b"1") + sound[digit + 1 :]])
    s.restart(*brokers)
    await s.until(lambda: disk.read_file(path) == sound, "written anew from what the batches say")
    await s.cluster.healthy()
    writer = await s.producer()
    await s.retry(lambda: s.produce(place, s.batch(place, writer, "3")))
    await s.until(lambda: len(s.isr(place)) == len(brokers), "all replicas are in sync again")
    assert await s.read(place) == ["1", "2", "3"]
