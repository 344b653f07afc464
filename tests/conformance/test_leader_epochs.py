"""A leader epoch belongs to one leadership for ever, whatever etcd says: an offset is given once in it."""

from __future__ import annotations

from dataclasses import replace

from oncelog_runtime import cluster as keys
from oncelog_runtime.ports import Put
from tests.conformance.script import Script

_NODES = ("broker-0", "broker-1", "broker-2")


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
