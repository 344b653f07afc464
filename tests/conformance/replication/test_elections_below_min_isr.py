"""Who leads when the ISR had fallen below `min_insync_replicas`, and when registrations outlive their processes.

KIP-966 (eligible leader replicas), KIP-858 (directory ids). Three replicas, two of them required, in every script.
"""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.types import BrokerRef
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.metadata.cluster_keys import Partition
from tests.conformance.script import Place, Script

VALUES = [f"v{i}" for i in range(5)]
ALL = ("broker-0", "broker-1", "broker-2")


async def written(s: Script, place: Place) -> None:
    """Five records, each acknowledged by all."""
    writer = await s.producer()
    for sequence, value in enumerate(VALUES):
        await s.write(place, writer, value, seq=sequence)


async def alone(s: Script, place: Place, leader: str) -> None:
    """The ISR has shrunk to the leader; who left last, or at the same time, is eligible."""
    await s.until(lambda: s.isr(place) == {leader} and s.state(place).eligible, "the ISR shrinks", within_s=60)


async def whole(s: Script, place: Place) -> None:
    """Everything is there and everybody is in sync again."""
    await s.cluster.healthy()
    await s.until(lambda: s.isr(place) == set(ALL), "everybody is in the ISR", within_s=60)
    assert s.state(place).eligible == ()
    assert await s.read(place) == VALUES


async def test_frozen_followers_take_over_from_a_leader_that_lost_power(s: Script) -> None:
    place = await s.place()
    await written(s, place)
    leader, followers = s.leader(place), s.followers(place)
    for name in followers:
        s.world.nodes[name].pause(10_000)
    await alone(s, place, leader)
    s.power_cut(leader)
    await s.until(lambda: any(s.leads(name, place) for name in followers), "an eligible one leads", within_s=60)
    s.restart(leader)
    await whole(s, place)


async def test_killed_followers_come_back_to_a_leader_that_lost_power(s: Script) -> None:
    place = await s.place()
    await written(s, place)
    leader, followers = s.leader(place), s.followers(place)
    s.kill(*followers)
    await alone(s, place, leader)
    s.power_cut(leader)
    s.restart(leader, *followers)
    await whole(s, place)


async def test_an_empty_directory_is_not_elected_over_two_whole_logs(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    await written(s, place)
    leader, followers = s.leader(place), s.followers(place)
    s.kill(*followers)
    await alone(s, place, leader)
    s.lose_volume(leader)
    s.restart(leader)
    await s.sleep(20)
    assert not s.leads(leader, place), "it was the whole ISR, and its directory is new"
    s.restart(*followers)
    await whole(s, place)


@pytest.mark.case("S24")
async def test_an_older_image_of_a_disk_does_not_lead_over_whole_logs(s: Script) -> None:
    """It was taken in this boot, so by itself it looks whole, and every member of the ISR was restarted."""
    place = await s.place()
    writer = await s.producer()
    for sequence, value in enumerate(VALUES[:4]):
        await s.write(place, writer, value, seq=sequence)
    old, others = s.leader(place), s.followers(place)
    s.kill(old)
    image = {path: bytes(inode.data) for path, inode in s.world.nodes[old].disk._files.items()}
    s.restart(old)
    await s.rejoined(old, place)
    await s.until(lambda: {old, *others} == s.isr(place))
    await s.retry(lambda: s.write(place, writer, VALUES[4], seq=4))
    s.kill(*others, old)
    disk = s.world.nodes[old].disk
    for path in list(disk._files):
        disk.remove(path)
    for path, data in image.items():
        disk.open(path, create=True).append([data])
    s.restart(old)
    await s.sleep(10)
    assert not s.leads(old, place), "it may lack what was written since"
    s.restart(*others)
    await whole(s, place)


async def test_a_committed_spark_batch_is_remembered_though_the_last_member_lost_its_volume(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    first = await s.join("q", batch=7)
    await s.write_as(first, place, "row")
    await s.commit_batch("q", first.writer.txn_no, [first], batch=7)
    await s.stable(place)
    log = s.shard_log("q")
    last, others = s.leader(log), s.followers(log)
    s.kill(*others)
    await s.until(lambda: s.isr(log) == {last}, within_s=60)
    s.lose_volume(last)
    s.restart(last, *others)
    await s.cluster.healthy()
    again = await s.join_reply("q", "run-2", 7, attempt="2")
    assert again.already_committed
    assert await s.read(place) == ["row"]


async def test_after_a_power_cut_of_all_the_longest_log_leads_and_an_empty_one_waits(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    await written(s, place)
    leader, (second, third) = s.leader(place), s.followers(place)
    s.power_cut(leader, second, third)
    s.lose_volume(leader)
    s.restart(leader)
    await s.sleep(20)
    assert not s.leads(leader, place)
    s.restart(second, third)
    await whole(s, place)


async def test_the_first_of_a_killed_cluster_leads_at_once_and_waits_for_nobody(s: Script) -> None:
    place = await s.place()
    await written(s, place)
    s.kill(*ALL)
    s.restart("broker-2")
    await s.until(lambda: s.leads("broker-2", place), "it lost nothing", within_s=20)
    s.restart("broker-0", "broker-1")
    await whole(s, place)


async def test_a_registration_that_outlives_its_process_is_not_elected(s: Script) -> None:
    """All are killed; one is back within the time of the others' leases, and one of those comes back without its disk."""
    place = await s.place()
    await written(s, place)
    s.kill(*ALL)
    s.lose_volume("broker-0")
    s.restart("broker-1", "broker-2")
    await s.until(lambda: any(s.leads(name, place) for name in ("broker-1", "broker-2")), within_s=20)
    dead = s.world.metadata.get(keys.broker_key(0))
    assert dead is not None, "the old registration of broker-0 is still there"
    assert dead.mod_revision not in {ref.incarnation for ref in s.state(place).isr}
    s.restart("broker-0")
    await whole(s, place)


async def test_a_follower_that_is_not_registered_joins_no_isr(s: Script) -> None:
    """It has everything by the time; but nobody could elect who is not registered."""
    place = await s.place()
    await written(s, place)
    leader, (lost, other) = s.leader(place), s.followers(place)
    first = s.broker(lost).me()
    s.expire_registration(lost)
    await s.until(lambda: s.broker(lost).me() != first and first not in s.state(place).isr, within_s=20)
    again = s.broker(lost).me()
    followers = s.replica(leader, place).require_leadership().replicas.followers
    await s.until(lambda: followers[again.broker_id].end == len(VALUES), "it has everything, and may join in a second")
    assert again not in s.state(place).isr
    s.cut_from_etcd(lost)
    s.expire_registration(lost)
    seen: set[BrokerRef] = set()
    s.world.loop.add_step_hook(lambda: seen.update(s.state(place).isr))
    await s.sleep(10)
    assert seen == {s.broker(leader).me(), s.broker(other).me()}
    s.heal_etcd(lost)
    await whole(s, place)


async def test_a_lowered_minimum_commits_nothing_while_others_are_eligible(s: Script) -> None:
    """Else an eligible replica could be elected that lacks what was committed without it."""
    place = await s.place()
    await written(s, place)
    leader, followers = s.leader(place), s.followers(place)
    s.kill(*followers)
    await alone(s, place, leader)
    async with s.client() as client:
        await client.admin.alter_topic(place.topic, config={"min.insync.replicas": "1"})
    await s.until(lambda: s.state(place).eligible == (), "etcd names nobody eligible any more")
    writer = await s.producer()
    await s.retry(lambda: s.write(place, writer, "alone"))
    s.kill(leader)
    s.restart(*followers)
    await s.sleep(20)
    assert not any(s.leads(name, place) for name in followers), "they lack the last record"
    s.restart(leader)
    await s.cluster.healthy()
    assert await s.read(place) == [*VALUES, "alone"]


async def test_an_operator_may_elect_who_is_left_and_is_told_the_price_first(s: Script) -> None:
    """The last member's disk is gone for ever, and the others had left the ISR before the last records."""
    place = await s.place(min_insync_replicas="1")
    writer = await s.producer()
    await s.write(place, writer, "everywhere")
    leader, followers = s.leader(place), s.followers(place)
    await s.until(lambda: all(s.replica(name, place).log.log_end_offset == 1 for name in followers))
    s.kill(*followers)
    await s.until(lambda: s.isr(place) == {leader}, within_s=60)
    await s.write(place, writer, "only here", seq=1)
    s.kill(leader)
    s.lose_volume(leader)
    s.restart(leader, *followers)
    await s.sleep(20)
    assert not any(s.leads(name, place) for name in ALL)
    async with s.client() as client:
        survey = await client.admin.survey_replicas(place.topic, 0)
        standings = {f"broker-{replica.broker_id}": replica.standing for replica in survey.replicas}
        assert standings == {leader: "lost", **dict.fromkeys(followers, "")}
        chosen = int(followers[0].removeprefix("broker-"))
        assert survey.missing(chosen) == (0, (int(leader.removeprefix("broker-")),))
        with pytest.raises(errors.IneligibleReplicaError):
            await client.admin.elect_unclean(place.topic, 0, chosen, leader_epoch=survey.leader_epoch - 1)
        await client.admin.elect_unclean(place.topic, 0, chosen, leader_epoch=survey.leader_epoch)
        await s.cluster.healthy()
        with pytest.raises(errors.IneligibleReplicaError):  # a late copy of the call
            await client.admin.elect_unclean(place.topic, 0, chosen, leader_epoch=survey.leader_epoch)
    assert s.leader(place) == followers[0]
    assert await s.read(place) == ["everywhere"]


def test_an_older_version_that_changes_the_isr_ends_the_eligibility() -> None:
    """It keeps fields that it does not know, so the eligible replicas are bound to the ISR for which they were written."""
    s = Partition.decode(
        b'{"eligible":[[2,12]],"eligible_isr":[[1,11]],"isr":[[1,11],[3,13]],"leader":[1,11],"leader_epoch":4,'
        b'"last_known_leader":null,"replicas":[1,2,3],"topic":"t","version":1}'
    )
    assert s.eligible == ()
