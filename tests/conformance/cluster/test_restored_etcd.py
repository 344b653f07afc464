"""etcd is restored from a backup: everybody notices it, nothing acknowledged is lost, and nothing is given out twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.log.folders import folder_name
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.ports import Put
from oncelog_runtime.sim import Snapshot
from tests.conformance.script import Place, Script, Writer

NODES = ("broker-0", "broker-1", "broker-2")
BUMPS = pytest.mark.parametrize("bump", [0, 1_000_000])


def stop_all(s: Script) -> None:
    s.kill(*NODES, "coordinator-0", "coordinator-1", "allocator-0")


def start_all(s: Script) -> None:
    s.restart(*NODES, "coordinator-0", "coordinator-1", "allocator-0")


def in_place(s: Script, node: str, place: Place) -> bool:
    """The replica's folder is where it was."""
    return s.world.nodes[node].disk.exists(f"logs/{folder_name(place.topic, place.id)}")


async def written(s: Script, place: Place, *values: str) -> Writer:
    """Each value by itself, so that some are below and some above a backup; the writer of the last."""
    writer = await s.retry(s.producer)
    for number, value in enumerate(values):
        await s.retry(lambda n=number, v=value: s.write(place, writer, v, seq=n))  # type: ignore[misc]
    return writer


async def another_leader(s: Script, place: Place) -> None:
    """One election: the old leader is killed, and comes back."""
    old = s.leader(place)
    s.kill(old)
    await s.new_leader(place, old)
    s.restart(old)
    await s.cluster.healthy()


async def story(s: Script) -> tuple[Snapshot, Place, Place]:
    """A backup, and what happens after it: records, elections, a new topic. Returns it with the old and the new topic."""
    old = await s.place("old", flush_mode="fsync")
    await written(s, old, "a")
    await s.cluster.healthy()
    backup = s.world.metadata.snapshot()
    for value in ("b", "c"):
        await another_leader(s, old)
        await written(s, old, value)
    new = await s.place("new", flush_mode="fsync")
    await written(s, new, "x")
    await s.sleep(11)  # the pulse goes on
    return backup, old, new


async def all_is_well(s: Script, old: Place, new: Place) -> None:
    await s.cluster.healthy()
    assert await s.read(old) == ["a", "b", "c"]
    await written(s, old, "d")
    assert await s.read(old) == ["a", "b", "c", "d"]
    assert all(in_place(s, node, new) for node in NODES)
    for node in NODES:
        assert [folder.partition for folder in s.broker(node).replicas.leftovers.orphans] in ([], [new.id])


@BUMPS
async def test_running_brokers_notice_a_restored_etcd_and_lose_nothing(s: Script, bump: int) -> None:
    backup, old, new = await story(s)
    s.world.metadata.restore(backup, bump)
    await s.sleep(5)
    assert all(s.broker(node).guard.restores == 1 for node in NODES)
    await all_is_well(s, old, new)
    assert not any(new.id in s.broker(node).replicas.partitions for node in NODES), "it is kept, and not served"


@BUMPS
async def test_brokers_that_were_down_meanwhile_notice_it_at_their_start(s: Script, bump: int) -> None:
    backup, old, new = await story(s)
    before = [s.broker(node).me().incarnation for node in NODES]
    stop_all(s)
    s.world.metadata.restore(backup, bump)
    await s.sleep(5)
    start_all(s)
    await all_is_well(s, old, new)
    assert s.world.metadata.get(keys.RESTORED_KEY) is not None
    assert min(s.broker(node).me().incarnation for node in NODES) > max(before), "no incarnation comes twice"
    await s.sleep(1)
    assert [folder.partition for folder in s.broker("broker-0").replicas.leftovers.orphans] == [new.id]


async def test_an_old_isr_is_not_believed_after_a_restore(s: Script) -> None:
    """The backup names an in-sync replica that has missed everything since, and one that comes back later has it."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    await s.cluster.healthy()
    backup = s.world.metadata.snapshot()
    late = s.followers(place)[0]
    s.kill(late)
    await s.until(lambda: late not in s.isr(place))
    await written(s, place, "b")
    await s.sleep(11)
    others = [node for node in NODES if node != late]
    s.kill(*others)
    s.world.metadata.restore(backup, 1_000_000)
    s.restart(late)
    await s.sleep(30)
    assert not s.leads(late, place), "the others may have more"
    s.restart(*others)
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b"]


async def test_a_view_that_was_ahead_of_a_restored_etcd_hears_of_changes_again(s: Script) -> None:
    backup = s.world.metadata.snapshot()
    for number in range(3):
        await s.place(f"forgotten-{number}")
    s.world.metadata.restore(backup)
    await s.sleep(5)
    place = await s.place("new")
    await written(s, place, "x")
    assert await s.read(place) == ["x"]


@BUMPS
async def test_a_topic_that_comes_back_with_the_backup_has_its_records(s: Script, bump: int) -> None:
    """It was deleted after the backup was taken: its logs lie in the trash, and are taken back."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a", "b")
    await s.cluster.healthy()
    backup = s.world.metadata.snapshot()
    async with s.client() as client:
        await client.admin.delete_topic(place.topic)
    await s.until(lambda: not any(in_place(s, node, place) for node in NODES))
    s.world.metadata.restore(backup, bump)
    await s.sleep(15)
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b"]


@BUMPS
async def test_no_producer_id_and_no_epoch_of_a_shard_is_given_twice(s: Script, bump: int) -> None:
    place = await s.place(flush_mode="fsync")
    backup = s.world.metadata.snapshot()
    writers = [await s.producer() for _ in range(3)]
    session = await s.session("t")
    await s.write(place, session, "x")
    await s.end(session, counts={place: 1})
    await s.sleep(11)
    before = s.coordinator_epoch(session)
    stop_all(s)
    s.world.metadata.restore(backup, bump)
    await s.sleep(5)
    start_all(s)
    await s.cluster.healthy()
    ids = {writer.producer_id for writer in writers}
    assert not ids & {(await s.retry(s.producer)).producer_id for _ in range(3)}
    assert s.coordinator_epoch(session) > before
    again = await s.retry(lambda: s.session("t"))
    assert again.epoch > session.epoch, "the shard's log was read, not written from its beginning"
    await s.write(place, again, "y")
    await s.end(again, counts={place: 1}, visible=True)
    assert await s.read(place) == ["x", "y"]


async def test_a_topic_that_etcd_has_lost_is_brought_back_by_its_keys(s: Script) -> None:
    """As docs/operations.md says: topic id and replicas stand in the names of the folders, and nobody knows the ISR."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a", "b")
    topic = s.world.metadata.get(keys.topic_key(place.topic))
    assert topic is not None
    key, brokers = keys.partition_key(*place.id), s.state(place).replicas
    s.world.metadata.commit((), (), (topic.key, key))
    await s.until(lambda: not any(place.id in s.broker(node).replicas.partitions for node in NODES))
    guess = keys.Partition(place.topic, brokers, None, 0, tuple(BrokerRef(broker, 0) for broker in brokers))
    s.world.metadata.commit((), (Put(topic.key, topic.value), Put(key, guess.encode())), ())
    await s.cluster.healthy()
    await written(s, place, "c")
    assert await s.read(place) == ["a", "b", "c"]


async def test_a_partition_behind_its_logs_gets_a_leader_again(s: Script) -> None:
    """Only this partition went back, so nothing else tells of it; and its brokers have all been restarted."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    for value in ("b", "c", "d"):
        await another_leader(s, place)
        await written(s, place, value)
    state = s.state(place)
    assert state.leader_epoch >= 3
    s.kill(*NODES)
    older = replace(state, leader_epoch=0)
    s.world.metadata.commit((), (Put(keys.partition_key(*place.id), older.encode()),), ())
    s.restart(*NODES)
    await s.cluster.healthy()
    await written(s, place, "e")
    assert await s.read(place) == ["a", "b", "c", "d", "e"]
    assert s.state(place).leader_epoch > state.leader_epoch


async def test_a_living_leader_whose_epoch_went_back_takes_a_higher_one(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    await another_leader(s, place)
    await written(s, place, "a")
    state, leader = s.state(place), s.leader(place)
    s.replica(leader, place).stop_leading()
    older = replace(state, leader_epoch=state.leader_epoch - 1)
    s.world.metadata.commit((), (Put(keys.partition_key(*place.id), older.encode()),), ())
    await s.until(lambda: s.leads(leader, place) and s.state(place).leader_epoch > state.leader_epoch)
    await written(s, place, "b")
    assert await s.read(place) == ["a", "b"]
