"""A restore of etcd meets something else: a log that fails, partitions that are added again, a disk that hangs."""

from __future__ import annotations

from oncelog.errors import StorageError
from oncelog_partition_leader.core.log.folders import folder_name
from oncelog_partition_leader.log.checkpoints import LEADER_EPOCHS
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.metadata.restore_guard import PULSE_FILE
from tests.conformance.cluster.test_restored_etcd import NODES, written
from tests.conformance.script import Place, Script

BUMP = 1_000_000


async def test_a_failed_log_does_not_make_an_old_value_believed(s: Script) -> None:
    """The backup's ISR names a replica that left it since; a failed log writes the value anew."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    await s.cluster.healthy()
    backup = s.world.metadata.snapshot()
    late = s.followers(place)[0]
    s.kill(late)
    await s.until(lambda: late not in s.isr(place))
    await written(s, place, "b")
    await s.sleep(11)
    one, other = [node for node in NODES if node != late]
    s.kill(one, other)
    s.world.metadata.restore(backup, BUMP)
    s.restart(late, one)
    await s.sleep(20)
    assert not s.leads(late, place)
    s.replica(one, place).fail(StorageError("a bad sector", reason="io"))
    await s.sleep(20)
    assert not s.leads(late, place), "the others may have more"
    s.restart(other)
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b"]


async def test_partitions_that_are_added_again_are_led_by_the_log_that_goes_furthest(s: Script) -> None:
    (first,) = await s.topic("t", 1, flush_mode="fsync", min_insync_replicas="2")
    await written(s, first, "a")
    await s.cluster.healthy()
    backup = s.world.metadata.snapshot()
    async with s.client() as client:
        await client.admin.add_partitions("t", 2)
    place = Place("t", first.topic_id, 1)
    await written(s, place, "b")
    await s.cluster.healthy()
    behind = s.leader(place)
    s.kill(behind)
    await s.new_leader(place, behind)
    await written(s, place, "c")
    await s.sleep(11)
    s.world.metadata.restore(backup, BUMP)
    s.restart(behind)
    await s.sleep(8)
    async with s.client() as client:
        await s.retry(lambda: client.admin.add_partitions("t", 2))
    await s.sleep(10)
    await s.cluster.healthy()
    assert await s.read(place) == ["b", "c"]


async def test_partitions_that_are_truly_new_get_a_leader_after_a_restore(s: Script) -> None:
    (first,) = await s.topic("t", 1, flush_mode="fsync", min_insync_replicas="2")
    await written(s, first, "a")
    backup = s.world.metadata.snapshot()
    await s.topic("gone", 1)
    await s.sleep(11)
    s.world.metadata.restore(backup, BUMP)
    await s.sleep(8)
    async with s.client() as client:
        await s.retry(lambda: client.admin.add_partitions("t", 2))
    place = Place("t", first.topic_id, 1)
    await s.cluster.healthy()
    await written(s, place, "b")
    assert await s.read(place) == ["b"]


async def test_a_stalled_disk_does_not_go_in_and_out_of_an_idle_isr(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    busy = await s.place("busy", flush_mode="fsync")
    await s.write(place, await s.producer(), "x")
    follower = s.followers(place)[0]
    s.world.nodes[follower].hang_disk()
    s.replica(follower, busy).sync.request()
    await s.until(lambda: s.broker(follower).replicas.disk_watch.stalled)
    await s.sleep(5)
    revisions: set[int] = set()
    for _ in range(400):
        await s.sleep(0.05)
        found = s.world.metadata.get(keys.partition_key(*place.id))
        assert found is not None
        revisions.add(found.mod_revision)
    assert len(revisions) <= 3, "it left once, and comes back once"


async def test_a_restore_that_only_the_logs_show_is_noticed_before_anybody_is_elected(s: Script) -> None:
    """A backup of seconds ago, put back while every process is down; the tables of epochs on disk are behind the logs."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    await s.cluster.healthy()
    backup = s.world.metadata.snapshot()
    old = s.leader(place)
    s.kill(old)
    new = await s.new_leader(place, old)
    await written(s, place, "b")
    others = [name for name in s.world.nodes if name not in NODES]
    s.kill(*[name for name in s.world.nodes if name != old])  # coordinators would notice, too
    for node in NODES:
        disk = s.world.nodes[node].disk
        disk.remove(PULSE_FILE)
        disk.remove(f"logs/{folder_name(place.topic, place.id)}/{LEADER_EPOCHS}")
    s.world.metadata.restore(backup, BUMP)
    s.restart(old, new)
    await s.sleep(20)
    assert s.world.metadata.get(keys.RESTORED_KEY) is not None
    assert not s.leads(old, place)
    s.restart(*[node for node in NODES if node not in (old, new)], *others)
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b"]


async def test_what_was_committed_by_a_leader_that_wrote_nothing_is_kept_after_a_restore(s: Script) -> None:
    """Found by seed 920080: a log whose last batch is of a later epoch was left alone in it, and had nothing that counts.

    Those who went on without it acknowledged a record of an older epoch, and nobody wrote after that.
    """
    place = await s.place(min_insync_replicas="2")
    await written(s, place, "a")
    await s.cluster.healthy()
    backup = s.world.metadata.snapshot()
    first, (follower, alone) = s.leader(place), s.followers(place)
    s.cut(alone, first)
    await s.write(place, await s.producer(), "b", acks=1)
    await s.until(lambda: s.replica(follower, place).log.log_end_offset == 2)
    s.kill(first, follower)
    s.heal()
    assert await s.new_leader(place, first) == alone
    await s.write(place, await s.retry(s.producer), "of no account", acks=1)
    s.kill(alone)
    s.restart(first, follower)
    await s.new_leader(place, alone)
    assert await s.read(place) == ["a", "b"]
    await s.sleep(11)
    s.kill(first, follower)
    s.world.metadata.restore(backup, BUMP)
    s.restart(*NODES)
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b"]
