"""Replicas were moved after the backup from which etcd is restored: who has the logs now is asked, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from oncelog import errors
from oncelog.wire import methods
from oncelog_partition_leader.core.log.folders import folder_name
from oncelog_runtime.sim import Snapshot
from tests.conformance.cluster.test_moving import controller, moving, reassign, replicas
from tests.conformance.cluster.test_restored_etcd import written
from tests.conformance.script import Place, Script, cluster

SIX = cluster(brokers=6, replica_balance_enabled=False)
BUMPS = pytest.mark.parametrize("bump", [0, 1_000_000])


async def moved(s: Script, place: Place, target: Sequence[int]) -> None:
    """The move is asked for, and has ended."""
    await reassign(s, place, target)
    await s.until(lambda: moving(s) == 0 and set(replicas(s, place)) == set(target))


async def others(s: Script, place: Place, count: int) -> tuple[int, ...]:
    """New replicas: so many brokers that have none, and old ones."""
    old = replicas(s, place)
    new = tuple(sorted(set(range(6)) - set(old)))[:count]
    return (*new, *old[: 3 - count])


def all_down_when_restored(s: Script, backup: Snapshot) -> None:
    """Nobody runs while etcd is restored."""
    s.kill(*(f"broker-{n}" for n in range(6)), "coordinator-0", "coordinator-1")
    s.world.metadata.restore(backup, 1_000_000)


@SIX
@BUMPS
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_what_was_written_after_a_move_is_there_after_a_restore(s: Script, bump: int, count: int) -> None:
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    await s.cluster.healthy()
    backup = s.world.metadata.snapshot()
    target = await others(s, place, count)
    await moved(s, place, target)
    await written(s, place, "b", "c")
    await s.sleep(11)
    s.world.metadata.restore(backup, bump)
    await s.sleep(15)
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b", "c"]
    assert len(replicas(s, place)) == 3, "those too many are gone again"
    await written(s, place, "d")
    assert await s.read(place) == ["a", "b", "c", "d"]


@SIX
async def test_a_partition_that_was_moved_and_never_written_is_led_again(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    await s.cluster.healthy()
    backup = s.world.metadata.snapshot()
    await moved(s, place, await others(s, place, 3))
    await s.sleep(11)
    s.world.metadata.restore(backup)
    await s.sleep(15)
    await s.cluster.healthy()
    await written(s, place, "a")
    assert await s.read(place) == ["a"]


@SIX
async def test_brokers_that_all_were_down_at_the_restore_lose_nothing_either(s: Script) -> None:
    """The brokers that the backup names start a second before the others."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    await s.cluster.healthy()
    backup, old = s.world.metadata.snapshot(), replicas(s, place)
    await moved(s, place, await others(s, place, 3))
    await written(s, place, "b")
    await s.sleep(11)
    all_down_when_restored(s, backup)
    s.restart(*(f"broker-{n}" for n in old))
    await s.sleep(1)
    s.restart(*(f"broker-{n}" for n in range(6) if n not in old), "coordinator-0", "coordinator-1")
    await s.sleep(15)
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b"]


@SIX
async def test_old_replicas_that_are_gone_for_good_leave_the_choice_to_an_operator(s: Script) -> None:
    """All that is known of the partition now is told, and the broker that has everything can be elected."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    await s.cluster.healthy()
    backup, old = s.world.metadata.snapshot(), replicas(s, place)
    target = await others(s, place, 3)
    await moved(s, place, target)
    await written(s, place, "b")
    await s.sleep(11)
    s.kill(f"broker-{old[0]}")
    s.world.metadata.restore(backup)
    await s.sleep(30)
    assert set(replicas(s, place)) == {*old, *target}
    assert s.state(place).leader is None
    async with s.client() as client:
        with pytest.raises(errors.OncelogError):
            await client.admin.transfer_leadership(place.topic, place.partition, target[0])
        survey = await client.admin.survey_replicas(place.topic, place.partition)
        await client.admin.elect_unclean(place.topic, place.partition, target[0], leader_epoch=survey.leader_epoch)
    await s.until(lambda: s.state(place).leader is not None)
    assert await s.read(place) == ["a", "b"]


@cluster(brokers=8, replica_balance_enabled=False)
async def test_a_guess_that_came_back_with_a_second_backup_is_no_reason_to_ask_nobody_else(s: Script) -> None:
    """The second backup was taken while the partition waited for a broker, and then it was moved once more."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    await s.cluster.healthy()
    first, old = s.world.metadata.snapshot(), replicas(s, place)
    new = [n for n in range(8) if n not in old]
    await moved(s, place, (new[0], old[0], old[1]))
    await written(s, place, "b")
    await s.sleep(11)
    s.kill(f"broker-{old[2]}")
    s.world.metadata.restore(first)
    await s.sleep(20)
    assert s.state(place).leader is None, "one of those that the backup names does not answer"
    second = s.world.metadata.snapshot()
    s.restart(f"broker-{old[2]}")
    await s.sleep(10)
    await s.cluster.healthy()
    await moved(s, place, new[1:4])
    await written(s, place, "c")
    await s.sleep(11)
    s.world.metadata.restore(second)
    await s.sleep(20)
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b", "c"]


@SIX
async def test_brokers_that_come_late_are_asked_as_long_as_nobody_was_elected(s: Script) -> None:
    """One that the backup names is away. Two that have everything start half a minute after the others, and before that one."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    await s.cluster.healthy()
    backup, old = s.world.metadata.snapshot(), replicas(s, place)
    target = await others(s, place, 3)
    await moved(s, place, (target[0], old[0], old[1]))
    await s.cluster.healthy()  # every broker has seen the end of the move
    await moved(s, place, target)
    await written(s, place, "b")
    await s.sleep(11)
    all_down_when_restored(s, backup)
    s.restart("coordinator-0", "coordinator-1", f"broker-{old[0]}", f"broker-{old[1]}", f"broker-{target[0]}")
    await s.sleep(30)
    assert set(replicas(s, place)) == {*old, target[0]}, "a guess, which waits"
    s.restart(f"broker-{target[1]}", f"broker-{target[2]}")
    await s.sleep(15)
    assert set(replicas(s, place)) == {*old, *target}
    s.restart(f"broker-{old[2]}")
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b"]


def late_watch(s: Script, node: str, late_s: float) -> None:
    """From now on this broker gets what etcd tells only after that time."""
    store, until_s = s.world.metadata, s.world.loop.time() + late_s
    pump = store._pump

    def later(watch: Any) -> None:
        if watch.name == node and s.world.loop.time() < until_s:
            s.world.loop.call_later(until_s - s.world.loop.time(), later, watch, context=s.world.loop.world)
        else:
            pump(watch)

    store._pump = later  # type: ignore[method-assign]


@SIX
@pytest.mark.parametrize("phase_s", [0, 3, 6])
async def test_a_broker_that_registers_before_it_knows_of_the_restore_has_not_told(s: Script, phase_s: float) -> None:
    """The lease with which it started is newer than the backup. By its old view etcd knows all of its replicas."""
    async with s.client() as client:
        created = await client.admin.create_topic("one", partitions=1, replication_factor=1)
    place = Place("one", created.topic_id, 0)
    await written(s, place, "a")
    await s.cluster.healthy()
    backup, new = s.world.metadata.snapshot(), (replicas(s, place)[0] + 1) % 6
    await moved(s, place, (new,))
    s.kill(f"broker-{new}")
    await s.sleep(5)
    s.restart(f"broker-{new}")
    await s.cluster.healthy()
    await written(s, place, "b", "c")
    await s.sleep(11 + phase_s)
    late_watch(s, f"broker-{new}", 5)
    s.world.metadata.restore(backup, 1_000_000)
    await s.sleep(28)
    await s.cluster.healthy()
    assert await s.read(place) == ["a", "b", "c"]


@cluster(brokers=8, replica_balance_enabled=False)
@pytest.mark.parametrize("how", ["decommission", "unclean"])
async def test_a_guess_that_had_to_wait_ends_with_as_many_replicas_as_the_topic_has(s: Script, how: str) -> None:
    """A broker that the backup names does not come back, or late."""
    place = await s.place(flush_mode="fsync")
    await written(s, place, "a")
    await s.cluster.healthy()
    backup, old = s.world.metadata.snapshot(), replicas(s, place)
    target = tuple(sorted({*range(8)} - {*old}))[:3]
    await moved(s, place, target)
    await written(s, place, "b")
    await s.sleep(11)
    s.kill(f"broker-{old[0]}")
    s.world.metadata.restore(backup)
    await s.sleep(20)
    assert set(replicas(s, place)) == {*old, *target}, "it waits for the one that is down"
    async with s.client() as client:
        if how == "decommission":
            await client.admin.decommission([old[0]])
            await s.sleep(5)
        else:
            survey = await client.admin.survey_replicas(place.topic, place.partition)
            await client.admin.elect_unclean(place.topic, place.partition, target[0], leader_epoch=survey.leader_epoch)
    s.restart(f"broker-{old[0]}")
    await s.until(lambda: len(replicas(s, place)) == 3 and not moving(s))
    assert await s.read(place) == ["a", "b"]


@SIX
async def test_a_copy_of_the_call_that_made_a_topic_takes_nothing_from_its_logs(s: Script) -> None:
    """The topic is newer than the backup, and the brokers with its logs are down when the copy comes."""
    await s.place("first")
    await s.cluster.healthy()
    backup, calls = s.world.metadata.snapshot(), s.watch(methods.CREATE_TOPIC)
    place = await s.place("work", flush_mode="fsync")
    call = calls.seen[-1].request
    calls.close()
    await written(s, place, "a", "b")
    away = [f"broker-{n}" for n in replicas(s, place)]
    s.kill(*away)
    s.world.metadata.restore(backup, 1_000_000)
    await s.sleep(15)
    answer = await s.retry(lambda: s.call(controller(s), methods.CREATE_TOPIC, call))
    again = await s.retry(lambda: s.call(controller(s), methods.CREATE_TOPIC, call))
    assert place.topic_id != answer.topic_id == again.topic_id
    s.restart(*away)
    await s.sleep(20)
    await s.cluster.healthy()
    folder = folder_name(place.topic, place.id)
    assert all(s.world.nodes[node].disk.exists(f"logs/{folder}") for node in away), "etcd does not know it: it is kept"
