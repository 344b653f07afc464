"""Disks that neither answer nor fail (S28): their brokers give way, say so, and come back as followers."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.core.batch.header import CODEC_NONE, CODEC_ZSTD
from oncelog_partition_leader.log.data_dir.disk_watch import STALLED
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.observability import health
from tests.conformance.script import Place, Script, cluster

GIVES_WAY_S = 4.0
"""`disk_stall_max_ms`, an election, and a moment."""


async def written(s: Script, place: Place, batch: bytes, within_s: float) -> float:
    """Repeats a produce request until it is acknowledged; how long that took."""
    began = s.world.loop.time()
    while True:
        try:
            await s.produce(place, batch)
            return s.world.loop.time() - began
        except errors.RetriableError:
            assert s.world.loop.time() - began < within_s, "no write was acknowledged in time"
            await asyncio.sleep(0.05)


async def test_a_leader_whose_syncs_do_not_end_gives_way_and_comes_back_as_a_follower(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    await s.write(place, writer, "x")
    old = s.leader(place)
    node, me = s.world.nodes[old], s.broker(old).me()
    node.hang_disk()
    assert await written(s, place, s.batch(place, writer, "y", seq=1), GIVES_WAY_S) > 2
    assert old not in s.isr(place)
    await s.until(lambda: health.DISK_ANSWERS in node.ports.health.failing(health.READINESS))
    await s.write(place, writer, "z", seq=2)
    node.thaw_disk()
    await s.until(lambda: old in s.isr(place))
    assert s.leader(place) != old
    assert s.broker(old).me() == me, "nothing was lost, so it is the same broker"
    await s.until(lambda: health.DISK_ANSWERS not in node.ports.health.failing(health.READINESS))
    assert await s.read(place) == ["x", "y", "z"]


@cluster(replica_lag_time_max_ms=30_000)
async def test_a_follower_whose_syncs_do_not_end_leaves_the_isr(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    await s.write(place, writer, "x")
    leader, epoch, follower = s.leader(place), s.state(place).leader_epoch, s.followers(place)[0]
    s.world.nodes[follower].hang_disk()
    await written(s, place, s.batch(place, writer, "y", seq=1), GIVES_WAY_S)
    assert follower not in s.isr(place)
    assert (s.leader(place), s.state(place).leader_epoch) == (leader, epoch), "the leader led on"
    s.world.nodes[follower].thaw_disk()
    await s.until(lambda: follower in s.isr(place))


async def test_partitions_that_wait_for_no_disk_only_change_their_leader(s: Script) -> None:
    place, synced = await s.place("memory"), await s.place("synced", flush_mode="fsync")
    writer = await s.producer()
    old = s.leader(place)
    s.world.nodes[old].hang_disk()
    s.replica(old, synced).sync.request()  # somebody must ask for a sync, or nobody notices
    await s.until(lambda: s.leader(place) != old)
    await s.write(place, writer, "x")
    assert old in s.isr(place), "it acknowledges what it holds in memory, as ever"


async def test_where_nobody_else_can_lead_it_stays_and_refuses_by_name(s: Script) -> None:
    async with s.client() as client:
        options = {"min_insync_replicas": "1", "flush_mode": "fsync"}
        topic = await client.admin.create_topic("alone", partitions=1, replication_factor=1, config=options)
    place = Place("alone", topic.topic_id, 0)
    writer = await s.producer()
    leader = s.leader(place)
    s.world.nodes[leader].hang_disk()
    batch = s.batch(place, writer, "x")
    with pytest.raises(errors.RequestTimedOutError):
        await s.produce(place, batch)
    await s.until(lambda: s.broker(leader).replicas.disk_watch.stalled)
    with pytest.raises(errors.StorageError) as refused:
        await s.produce(place, batch)
    assert (refused.value.context["reason"], refused.value.retriable) == (STALLED, True)
    s.world.nodes[leader].thaw_disk()
    await written(s, place, batch, 10)
    assert s.leader(place) == leader


async def test_transactions_go_on_when_the_disk_under_their_shard_hangs(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "one")
    await s.end(writer, counts={place: 1}, visible=True)
    log = s.internal(keys.TRANSACTION_TOPIC, writer.txn_shard)
    s.world.nodes[s.leader(log)].hang_disk()
    following = writer.next()
    await s.retry(lambda: s.write(place, following, "two"))
    began = s.world.loop.time()
    await s.retry(lambda: s.end(following, counts={place: 1}, visible=True))
    assert s.world.loop.time() - began < 3 * GIVES_WAY_S
    assert await s.read(place) == ["one", "two"]


async def test_what_was_never_synced_is_not_trusted_after_a_power_cut(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    await s.write(place, writer, "x")
    old = s.leader(place)
    s.world.nodes[old].hang_disk()
    await written(s, place, s.batch(place, writer, "y", seq=1), GIVES_WAY_S)
    s.power_cut(old)  # it had y in memory only
    s.restart(old)
    await s.rejoined(old, place)
    assert s.replica(old, place).log.log_end_offset == 2
    assert await s.read(place) == ["x", "y"]


async def test_a_write_that_blocks_the_process_makes_its_peers_elect_another(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    old = s.leader(place)
    node = s.world.nodes[old]
    node.hang_disk(appends=True)
    batch = s.batch(place, writer, "y", seq=1)
    await written(s, place, batch, GIVES_WAY_S)
    assert not node.is_up, "its event loop stands in the write"
    assert s.leader(place) != old
    node.thaw_disk()
    await s.until(lambda: s.broker(old).me() in s.state(place).isr)
    assert await s.read(place) == ["x", "y"]


@pytest.mark.parametrize("codec", [CODEC_NONE, CODEC_ZSTD], ids=["checked at once", "checked in a thread"])
async def test_a_hung_disk_delays_no_check_of_a_payload(s: Script, codec: int) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    s.world.nodes[s.leader(place)].hang_disk()
    assert await s.write(place, writer, "y", seq=1, codec=codec, timeout_ms=500) == 1


@pytest.mark.parametrize("codec", [CODEC_NONE, CODEC_ZSTD], ids=["checked at once", "checked in a thread"])
async def test_nobody_piles_up_before_a_hung_disk(s: Script, codec: int) -> None:
    places = await s.topic("work", 4, min_insync_replicas="2", flush_mode="fsync")
    writer = await s.producer()
    for place in places:
        await s.write(place, writer, "x")
    node = s.world.nodes[s.leader(places[0])]
    before = len(node.life.tasks())
    node.hang_disk()
    most = 0
    for number in range(1, 61):
        for place in places:
            try:
                await s.write(place, writer, "y", seq=number, codec=codec, timeout_ms=200)
            except errors.OncelogError:
                pass
        await s.sleep(1)
        most = max(most, len(node.life.tasks()))
    assert most < before + 12 * len(places), "sessions that begin again and again leave nothing behind"
    assert len(node.life.tasks()) < before + 4 * len(places)
