"""A leader below `min_insync_replicas` seals its log: it holds everything committed, whatever its machine loses after that.

Three replicas, two of them required, flush mode `replicated`: nothing but the seal syncs the log in time.
"""

from __future__ import annotations

from oncelog import errors
from oncelog_partition_leader.log.checkpoints import SEAL
from oncelog_partition_leader.replication.sealing import read_seal
from oncelog_runtime.sim import SimDisk
from tests.conformance.script import Place, Script

VALUES = [f"v{i}" for i in range(5)]
ALL = ("broker-0", "broker-1", "broker-2")


async def sealed(s: Script) -> tuple[Place, str, list[str]]:
    """Five records are acknowledged by all, then the followers are killed, and the leader has sealed its log."""
    place = await s.place()
    writer = await s.producer()
    for sequence, value in enumerate(VALUES):
        await s.write(place, writer, value, seq=sequence)
    leader, followers = s.leader(place), s.followers(place)
    s.kill(*followers)
    await s.until(lambda: s.isr(place) == {leader}, "the ISR shrinks to the leader", within_s=60)
    await s.until(lambda: has_seal(s, leader, place), "it seals its log", within_s=10)
    return place, leader, followers


def disk_of(s: Script, name: str) -> SimDisk:
    return s.world.nodes[name].disk


def has_seal(s: Script, name: str, place: Place) -> bool:
    """For the epoch of now, and where no power cut takes it."""
    disk, directory = disk_of(s, name), s.broker(name).replicas.directory_of(place.topic, place.id)
    seal = read_seal(disk, directory)
    is_durable = disk.platter(f"{directory}/{SEAL}") is not None
    return is_durable and seal is not None and seal.leader_epoch == s.state(place).leader_epoch


async def whole(s: Script, place: Place, values: list[str]) -> None:
    await s.cluster.healthy()
    await s.until(lambda: s.isr(place) == set(ALL), "everybody is in the ISR", within_s=60)
    assert await s.read(place) == values


async def test_the_last_member_leads_alone_after_a_power_cut(s: Script) -> None:
    place, leader, followers = await sealed(s)
    s.power_cut(leader)
    s.restart(leader)
    await s.until(lambda: s.leads(leader, place), "nobody else is back, and it needs nobody", within_s=20)
    s.restart(*followers)
    await whole(s, place, VALUES)


async def test_the_last_member_leads_alone_after_one_power_cut_more(s: Script) -> None:
    place, leader, followers = await sealed(s)
    for _ in range(2):
        s.power_cut(leader)
        s.restart(leader)
        await s.until(lambda: s.leads(leader, place), within_s=20)
        await s.until(lambda: has_seal(s, leader, place), "sealed anew, for its new epoch", within_s=10)
    s.restart(*followers)
    await whole(s, place, VALUES)


async def test_nothing_is_acknowledged_before_the_seal_is_gone_from_the_disk(s: Script) -> None:
    """Else the sealed log would lead alone, without what was acknowledged since."""
    place, leader, (second, third) = await sealed(s)
    s.world.nodes[leader].hang_disk()
    s.restart(second)
    await s.until(lambda: s.isr(place) == {leader, second}, "the ISR is at its minimum again", within_s=60)
    writer = await s.producer()
    acknowledged = list(VALUES)
    try:
        await s.write(place, writer, "late", seq=0, timeout_ms=1_000)
        acknowledged.append("late")
    except errors.RequestTimedOutError:
        pass
    s.kill(second)
    s.power_cut(leader)
    s.restart(leader)
    await s.sleep(15)
    s.restart(second, third)
    await s.cluster.healthy()
    await s.until(lambda: s.isr(place) == set(ALL), within_s=60)
    assert (await s.read(place))[: len(acknowledged)] == acknowledged


async def test_a_seal_that_was_broken_proves_nothing(s: Script) -> None:
    place, leader, (second, third) = await sealed(s)
    s.restart(second)
    await s.until(lambda: s.isr(place) == {leader, second}, within_s=60)
    await s.write(place, await s.producer(), "more", seq=0)
    assert not has_seal(s, leader, place)
    s.kill(second)
    s.power_cut(leader)  # only the follower has it now
    s.restart(leader)
    await s.sleep(20)
    assert not s.leads(leader, place)
    s.restart(second, third)
    await whole(s, place, [*VALUES, "more"])


async def test_a_seal_proves_nothing_once_another_one_has_led(s: Script) -> None:
    place, leader, (second, third) = await sealed(s)
    s.power_cut(leader)
    s.restart(second, third)
    await s.until(lambda: s.isr(place) == {second, third}, "the eligible ones lead", within_s=60)
    await s.write(place, await s.producer(), "more", seq=0)
    s.restart(leader)
    await whole(s, place, [*VALUES, "more"])
