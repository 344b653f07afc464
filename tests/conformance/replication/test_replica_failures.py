"""Holes 2, 3, 4, 17, 18, 19, 23, 24 and the parts of 25 about replicas: who leads, what counts, what a power cut leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.ports import Put
from oncelog_runtime.sim.disk import SimDisk
from tests.conformance.script import Place, Script, cluster


def bytes_of(s: Script, node: str, place: Place, end: int) -> bytes:
    """A replica's log up to an offset."""
    log = s.replica(node, place).log
    return bytes(log.read(log.log_start_offset, 1 << 20, end))


def controller(s: Script) -> str:
    """The node that has the controller's role, as etcd says."""
    item = s.world.metadata.get(keys.CONTROLLER_KEY)
    assert item is not None
    return f"broker-{keys.decode_ref(item.value).broker_id}"


def cuts_in(place: Place) -> Callable[[Any, bytes], bool]:
    """For taps: a leader has this partition cut."""
    return lambda request, _: any(
        item.topic_id == place.topic_id and item.HasField("truncate_to") for item in request.partitions
    )


async def acknowledged(s: Script, place: Place, *args: object, **how: object) -> bool:
    """Whether a write was acknowledged to `acks=all`."""
    try:
        await s.write(place, *args, **how)  # type: ignore[arg-type]
    except errors.OncelogError:
        return False
    return True


async def test_a_leader_that_comes_back_from_a_power_cut_does_not_go_on(s: Script) -> None:
    place = await s.place()
    writer, other = await s.producer(), await s.producer()
    await s.write(place, writer, "x")
    before = s.state(place)
    old = s.leader(place)
    s.power_cut(old)  # x was not synced: it is gone here, and only here
    s.restart(old)
    await s.sleep(2)
    await s.retry(lambda: s.write(place, other, "y"))
    after = s.state(place)
    assert after.leader_epoch > before.leader_epoch, "another process leads in another epoch"
    assert await s.read(place) == ["x", "y"]
    await s.rejoined(old, place)
    assert len({bytes_of(s, f"broker-{i}", place, 2) for i in range(3)}) == 1


async def test_a_leader_that_is_heard_again_before_the_next_election_does_not_go_on(s: Script) -> None:
    """The controller stands still. Who takes its role over has heard the old leader in its new life, and only in that."""
    held_by = controller(s)
    places = await s.topic("work", 3, min_insync_replicas="2")
    place = next(one for one in places if s.leader(one) != held_by)
    writer, other = await s.producer(), await s.producer()
    await s.write(place, writer, "x")
    old, before = s.leader(place), s.state(place)
    s.world.nodes[held_by].pause(5_000)
    s.power_cut(old)  # x was not synced: it is gone here, and only here
    s.restart(old)
    await s.until(lambda: s.state(place).leader_epoch > before.leader_epoch, "an election")
    await s.retry(lambda: s.write(place, other, "y"))
    assert await s.read(place) == ["x", "y"]
    await s.rejoined(old, place)
    assert bytes_of(s, old, place, 2) == bytes_of(s, s.leader(place), place, 2)


async def test_a_follower_that_comes_back_from_a_power_cut_is_not_elected(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    leader, (second, third) = s.leader(place), s.followers(place)
    await s.write(place, writer, "x")
    s.power_cut(second)  # it had acknowledged x, and lost it
    s.cut(leader, second)  # and cannot catch up
    s.cut_from_etcd(leader)  # and is not taken out of the ISR for its new incarnation
    s.restart(second)
    await s.until(lambda: second in s.cluster.services and s.broker(second).registration.registered)
    await s.until(lambda: s.broker(third).contacts.heard(s.broker(second).me()))  # nobody else is elected
    s.kill(leader)
    await s.new_leader(place, leader)
    assert await s.read(place) == ["x"]


async def test_a_follower_whose_sync_failed_is_not_elected(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    leader, (second, _) = s.leader(place), s.followers(place)
    await s.write(place, writer, "x")
    before = s.broker(second).me()
    s.fail_syncs(second)
    s.replica(second, place).sync.request()
    await s.until(lambda: s.broken(second, place))
    s.lose_unsynced(second)  # the kernel drops the pages; a re-scan ends before x
    s.heal_disk(second)
    s.hold(methods.REPLICATE, source=leader, target=second)  # nor can it catch up
    await s.until(lambda: not s.broken(second, place))
    s.kill(leader)
    await s.new_leader(place, leader)
    assert await s.read(place) == ["x"]
    assert s.broker(second).me() == before, "its other partitions did not notice"


async def test_a_leader_whose_disk_failed_gives_no_offset_twice(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    old, epoch = s.leader(place), s.state(place).leader_epoch
    s.fail_syncs(old)
    s.replica(old, place).sync.request()
    await s.until(lambda: not s.leads(old, place))
    s.lose_unsynced(old)
    s.heal_disk(old)
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    assert s.state(place).leader_epoch > epoch
    assert await s.read(place) == ["x", "y"]
    await s.rejoined(old, place)
    assert len({bytes_of(s, f"broker-{i}", place, 2) for i in range(3)}) == 1


async def test_in_fsync_mode_the_leader_counts_its_own_disk_too(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    await s.write(place, writer, "x")
    leader = s.leader(place)
    s.slow_syncs(leader)
    assert not await acknowledged(s, place, writer, "y", seq=1), "y is on two disks, and not on the leader's"
    answer, headers = await s.fetch(place, committed=False)
    assert (answer.high_watermark, len(headers)) == (1, 1), "nor can it be read"
    s.heal_disk(leader)
    await s.until(lambda: s.replica(leader, place).high_watermark == 2)


async def test_in_fsync_mode_every_follower_acknowledges_what_is_on_its_disk(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    follower = s.followers(place)[0]
    s.slow_syncs(follower)
    assert not await acknowledged(s, place, writer, "x")
    assert s.replica(s.leader(place), place).high_watermark == 0
    s.heal_disk(follower)
    await s.until(lambda: s.replica(s.leader(place), place).high_watermark == 1)
    s.power_cut("broker-0", "broker-1", "broker-2")
    s.restart("broker-0", "broker-1", "broker-2")
    await s.cluster.healthy()
    assert await s.read(place) == ["x"]


async def test_a_follower_that_has_not_heard_of_fsync_acknowledges_as_its_leader_counts(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    leader, follower = s.leader(place), s.followers(place)[0]
    s.cut_from_etcd(follower)
    item = s.world.metadata.get(keys.topic_key(place.topic))
    assert item is not None
    topic = keys.Topic.decode(item.value)
    changed = replace(topic, config={**topic.config, "flush_mode": "fsync"})
    s.world.metadata.commit([], [Put(item.key, changed.encode())], [])
    await s.until(lambda: s.replica(leader, place).topic_config.fsync)
    assert not s.replica(follower, place).topic_config.fsync, "it has not heard of the change"
    s.slow_syncs(follower)
    assert follower in s.isr(place)
    assert not await acknowledged(s, place, writer, "x", timeout_ms=500), "x is not on the follower's disk"
    assert follower in s.isr(place)


async def test_while_an_isr_answer_is_lost_the_larger_isr_counts(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    leader, (second, third) = s.leader(place), s.followers(place)
    s.kill(second)
    await s.until(lambda: s.isr(place) == {leader, third})
    s.lose_etcd_answers(leader, keys.partition_key(*place.id), and_cut=True)
    s.restart(second)
    await s.until(lambda: s.isr(place) == {leader, second, third})  # etcd says so; the leader heard nothing
    s.hold(methods.REPLICATE, source=leader, target=second)
    heard = await acknowledged(s, place, writer, "x", timeout_ms=600)
    s.kill(leader)
    assert await s.new_leader(place, leader) == second
    assert await s.read(place) == (["x"] if heard else [])
    assert not heard


async def test_epochs_never_start_again(s: Script) -> None:
    epoch_key = keys.shard_epoch_key(keys.KIND_TXN, 0)

    def epoch() -> int:
        item = s.world.metadata.get(epoch_key)
        return 0 if item is None else int(item.value)

    seen = [epoch()]
    for _ in range(3):
        s.expire_ownership(s._owner(keys.KIND_TXN, 0))  # the leased keys are deleted and made again
        await s.until(lambda: epoch() != seen[-1])
        seen.append(epoch())
    assert seen == sorted(set(seen))
    place = await s.place()
    epochs = [s.state(place).leader_epoch]
    for _ in range(2):
        leader = s.leader(place)
        s.kill(leader)
        await s.new_leader(place, leader)
        epochs.append(s.state(place).leader_epoch)
        s.restart(leader)
        await s.cluster.healthy()
    assert epochs == sorted(set(epochs))


async def test_a_deposed_leader_cannot_shrink_the_isr(s: Script) -> None:
    # With another leader, the dead or the cut follower is the controller: then an election comes before any shrinking.
    place = next(one for one in await s.topic("work", 3) if s.leader(one) == controller(s))
    old, (second, third) = s.leader(place), s.followers(place)
    s.kill(third)
    late = s.delay_etcd_writes(old, keys.partition_key(*place.id))
    s.cut(old, second)
    await s.until(lambda: late.waiting, "the leader wants to shrink the ISR")
    s.cut_from_etcd(old)
    await s.new_leader(place, old)
    state = s.state(place)
    s.heal_etcd(old)
    late.release()
    await s.sleep(1)
    assert s.state(place).leader == state.leader
    assert s.state(place).leader_epoch == state.leader_epoch


async def test_a_deposed_controller_elects_nobody(s: Script) -> None:
    place = await s.place()
    item = s.world.metadata.get(keys.CONTROLLER_KEY)
    assert item is not None
    old = f"broker-{keys.decode_ref(item.value).broker_id}"
    late = s.delay_etcd_writes(old, keys.PARTITIONS)
    victim = next(name for name in (*s.followers(place), s.leader(place)) if name != old)
    s.kill(victim)
    await s.until(lambda: late.waiting, "the controller elects without the dead one")
    s.world.metadata.expire_lease(item.lease_id)  # its registration and its role are gone
    await s.until(
        lambda: (found := s.world.metadata.get(keys.CONTROLLER_KEY)) and found.mod_revision != item.mod_revision
    )
    await s.sleep(2)
    state = s.state(place)
    late.release()
    await s.sleep(0.5)
    assert s.state(place).leader_epoch >= state.leader_epoch
    assert late.results[0] is False, "the late write compared the controller's key"


async def test_records_that_a_power_cut_took_are_named_never_silent(s: Script) -> None:
    first, second = await s.topic("work", 2, min_insync_replicas="2")
    writer = await s.session("t")
    markers = s.hold(methods.WRITE_TXN_MARKERS)
    await s.write(first, writer, "p1")
    await s.write(second, writer, "p2")
    await s.end(writer, counts={first: 1, second: 1})
    await markers.caught()
    nodes = ("broker-0", "broker-1", "broker-2")
    s.power_cut(*nodes, keep=lambda path: f"-{second.topic_id}-1/" in path or "__" in path)
    markers.close()
    s.restart(*nodes)
    await s.cluster.healthy()
    assert (await s.end(writer, visible=True)).visible
    assert await s.read(second) == ["p2"]
    with pytest.raises(errors.TransactionDataLossError):
        await s.fetch(first)
    assert await s.read(first, skip_lost_transactions=True) == []


async def test_a_replica_that_begins_above_the_start_knows_older_producers(s: Script) -> None:
    place = await s.place()
    early, other = await s.producer(), await s.producer()
    old = s.batch(place, early, "v0")
    await s.produce(place, old)
    await s.write(place, other, "v1")
    leader, second = s.leader(place), s.followers(place)[0]
    request = pa.DeleteRecordsRequest(topic_id=place.topic_id, partition=0, before_offset=1)
    await s.call(leader, methods.DELETE_RECORDS, request)
    s.kill(second)
    node = s.world.nodes[second]
    node.disk = SimDisk(s.world.loop, Random(7), s.world.plan, second)  # a new, empty disk
    s.restart(second)
    await s.rejoined(second, place)
    assert s.replica(second, place).log.log_start_offset == 1
    s.kill(leader)
    assert await s.new_leader(place, leader) == second
    answer = await s.retry(lambda: s.produce(place, old))
    assert answer.duplicate, "a producer of whom it holds no batch is known"
    await s.write(place, early, "v2", seq=1)
    assert await s.read(place, from_offset=1) == ["v1", "v2"]


async def test_a_late_message_of_an_older_session_counts_for_nothing(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    leader, follower = s.leader(place), s.followers(place)[0]
    held = s.hold(methods.REPLICATE, source=leader, target=follower, match=lambda r, _: r.partitions[0].length > 0)
    sending = s.start(s.write(place, writer, "y", seq=1, timeout_ms=20_000))
    old = await held.caught()
    held.close()
    old.fail()  # the session ends; the next one brings y
    await sending
    await s.write(place, writer, "z", seq=2)
    before = s.replica(follower, place).log.log_end_offset
    old.deliver_late()
    await s.sleep(0.5)
    assert s.replica(follower, place).log.log_end_offset == before == 3
    assert bytes_of(s, leader, place, 3) == bytes_of(s, follower, place, 3)


async def with_a_tail_that_must_be_cut(s: Script, place: Place) -> None:
    """The leader writes a record that nobody else gets, and is killed."""
    leader, writer = s.leader(place), await s.producer()
    end, held = s.replica(leader, place).log.log_end_offset, s.hold(methods.REPLICATE, source=leader)
    s.start(s.write(place, writer, "never acknowledged", timeout_ms=20_000))
    await s.until(lambda: s.replica(leader, place).log.log_end_offset > end)
    s.kill(leader)
    held.close()


async def test_a_late_copy_of_a_cut_cuts_nothing_that_came_since(s: Script) -> None:
    place, writer = await s.place(), await s.producer()
    await s.write(place, writer, "x")
    old, others = s.leader(place), s.followers(place)
    await with_a_tail_that_must_be_cut(s, place)
    new = await s.new_leader(place, old)
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    cuts = s.watch(methods.REPLICATE, source=new, target=old, match=cuts_in(place))
    s.restart(old)
    await s.rejoined(old, place)
    await s.write(place, writer, "z", seq=2)
    s.hold(methods.REPLICATE, source=new, target=old)  # what it loses now it does not get again
    (await cuts.caught()).deliver_late()
    await s.sleep(0.1)
    s.kill(*others)
    await s.until(lambda: s.isr(place) == {old} and s.leads(old, place), "the last one of the ISR")
    s.restart(*others)
    await s.rejoined(others[0], place)
    assert await s.read(place) == ["x", "y", "z"]


async def test_a_killed_member_does_not_hold_the_watermark(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    s.kill(s.followers(place)[0])
    began = s.now_ms
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    assert s.now_ms - began < 1_000, "the lag time is four seconds"


async def test_followers_of_an_idle_partition_learn_the_last_watermark(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "x")
    await s.sleep(0.1)
    assert [s.replica(name, place).high_watermark for name in s.followers(place)] == [1, 1]


@cluster(brokers=3, session_timeout_ms=2_000)
async def test_a_flipped_bit_in_the_leaders_fields_is_found(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "x")
    follower = s.followers(place)[0]
    s.replica(follower, place).sync.request()
    await s.until(lambda: s.replica(follower, place).sync.synced_end == 1)
    s.kill(follower)
    node = s.world.nodes[follower]
    (path,) = [p for p in node.disk._files if place.topic_id in p and p.endswith(".log")]
    node.disk.flip_bit(path, 12)  # the leader epoch, outside of the body's checksum
    s.restart(follower)
    await s.rejoined(follower, place)
    assert bytes_of(s, follower, place, 1) == bytes_of(s, s.leader(place), place, 1)
