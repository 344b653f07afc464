"""Who must not lead, whatever etcd says: in a used epoch nobody, and nobody whose log was set aside."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from oncelog.v1 import placement_pb2 as pl
from oncelog.wire import methods
from oncelog_partition_leader.core.replication.replica_state import EMPTY, Standing
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.ports import Put
from tests.conformance.script import Place, Script

_NODES = ("broker-0", "broker-1", "broker-2")


def controller(s: Script) -> str:
    item = s.world.metadata.get(keys.CONTROLLER_KEY)
    assert item is not None
    return f"broker-{keys.decode_ref(item.value).broker_id}"


async def test_nobody_leads_in_an_epoch_in_which_a_log_has_batches(s: Script) -> None:
    """etcd went back by one election (a restore): the next one would give an epoch that was used already.

    Two leaders of one epoch may give one offset to two batches, and no truncation by epochs could tell them apart.
    """
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    await s.write(place, writer, "x")
    first = s.leader(place)
    s.kill(first)
    await s.new_leader(place, first)
    s.restart(first)
    await s.cluster.healthy()
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    used = s.state(place)
    s.kill(*_NODES)
    before = replace(used, leader_epoch=used.leader_epoch - 1)
    s.world.metadata.commit((), (Put(keys.partition_key(*place.id), before.encode()),), ())
    s.restart(*_NODES)
    await s.until(lambda: s.state(place).leader_epoch >= used.leader_epoch, "an election")
    await s.sleep(5)
    for node in _NODES:
        leadership = s.replica(node, place).leadership
        if leadership is not None:
            assert leadership.epoch > used.leader_epoch, f"{node} leads in epoch {leadership.epoch} a second time"


async def given_to(s: Script, place: Place, node: str) -> None:
    """An operator has this broker lead, in the next epoch."""
    request = pl.TransferLeadershipRequest(topic_id=place.topic_id, partition=0, broker_id=int(node[-1]))
    await s.retry(lambda: s.call(controller(s), methods.TRANSFER_LEADERSHIP, request))
    await s.until(lambda: s.leads(node, place))


async def killed_with_a_record_that_nobody_else_has(s: Script, place: Place, leader: str, *more: str) -> None:
    """The leader dies, and so do more."""
    end = s.replica(leader, place).log.log_end_offset
    held, writer = s.hold(methods.REPLICATE, source=leader), await s.producer()
    s.start(s.write(place, writer, "never acknowledged", timeout_ms=20_000))
    await s.until(lambda: s.replica(leader, place).log.log_end_offset > end)
    s.kill(leader, *more)
    held.close()


async def test_an_epoch_that_is_given_a_second_time_gives_no_offset_a_second_time(s: Script) -> None:
    """etcd goes back by one election, and the next one gives the same epoch to another broker.

    The old leader has a record that nobody else got, and the new one acknowledges another in its place. Were both of one
    epoch, the old leader would keep its own, and lead with it later.
    """
    place, (writer, other) = await s.place(), [await s.producer(), await s.producer()]
    await s.write(place, writer, "x")
    before, (named, (preferred, old)) = s.state(place), (s.leader(place), s.followers(place))
    await given_to(s, place, old)
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    await killed_with_a_record_that_nobody_else_has(s, place, old, named)
    s.world.metadata.commit((), (Put(keys.partition_key(*place.id), before.encode()),), ())
    await s.until(lambda: s.leads(preferred, place), "it has records of the epoch that it is given")
    s.restart(named)
    await s.rejoined(named, place)
    await s.retry(lambda: s.write(place, other, "z"))
    s.restart(old)
    await s.rejoined(old, place)
    s.kill(named, preferred)
    await s.until(lambda: s.leads(old, place))
    s.restart(named)
    await s.rejoined(named, place)
    assert await s.read(place) == ["x", "y", "z"]


async def test_a_replica_whose_log_was_set_aside_vouches_for_nothing(s: Script) -> None:
    """An empty log that stands in the place of a rotten one must never lead for what that one held."""
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    for number in range(3):
        await s.write(place, writer, "x" * 100, seq=number)
    named = s.broker(follower := s.followers(place)[0]).me()
    s.kill(follower)
    assert s.world.nodes[follower].disk.flip_some_bit(Random(1), within=f"-{place.topic_id}-0/", suffix=".log")
    s.hold(methods.REPLICATE, source=s.leader(place), target=follower)  # so that it is not repaired
    s.restart(follower)
    await s.until(lambda: follower in s.cluster.services and place.id in s.broker(follower).replicas.partitions)
    broker = s.broker(follower)
    await s.until(lambda: broker.me().incarnation > named.incarnation)
    told = broker.replicas.status(place.id)
    assert (told.log, told.standing(named, broker.me(), s.state(place).leader_epoch)) == (EMPTY, Standing.LOST)
