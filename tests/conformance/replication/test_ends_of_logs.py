"""The end that a leader tells is behind everything that was acknowledged before it was asked, whoever leads by then.

A leader that stood still or is cut off learns late that it was replaced. It can do no harm to the log, but what it takes for
the end lacks what its successor has acknowledged: who reads up to there would miss his own writes.
"""

from __future__ import annotations

import asyncio

from oncelog import errors
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.partition.leadership_confirmation import CONFIRM_MS
from tests.conformance.script import Place, Script, cluster

REFUSALS = (
    errors.NotLeaderError,
    errors.OffsetNotAvailableError,
    errors.NetworkError,
    errors.RequestTimedOutError,
    errors.FencedLeaderEpochError,
)


async def end_by(s: Script, node: str, place: Place) -> int:
    """What this broker takes for the end. Raises its refusal."""
    item = pa.ListOffsetsPartition(topic_id=place.topic_id, partition=place.partition, timestamp_ms=-1)
    request = pa.ListOffsetsRequest(isolation_level=types_pb2.ISOLATION_LEVEL_READ_UNCOMMITTED, partitions=[item])
    (answer,) = (await s.call(node, methods.LIST_OFFSETS, request)).partitions
    if answer.HasField("error"):
        raise from_detail(answer.error)
    return int(answer.offset)


class Asking:
    """Asks one broker every 50 ms, and notes each end that is older than what was acknowledged when it was asked."""

    def __init__(self, s: Script, node: str, place: Place) -> None:
        self._s, self.node, self.place = s, node, place
        self.acknowledged = 0
        self.stale: list[tuple[int, int]] = []
        self.told = self.refused = 0

    async def _once(self) -> None:
        acknowledged = self.acknowledged
        try:
            end = await end_by(self._s, self.node, self.place)
        except REFUSALS:
            self.refused += 1
            return
        self.told += 1
        if end < acknowledged:
            self.stale.append((end, acknowledged))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as asked:
            while True:
                asked.create_task(self._once())
                await asyncio.sleep(0.05)


async def replaced(s: Script, place: Place, old: str, asking: Asking) -> None:
    """Another one leads, and has acknowledged three records more."""
    await s.new_leader(place, old)
    writer = await s.producer()
    for number in range(3):
        await s.retry(lambda number=number: s.write(place, writer, f"new {number}", seq=number))  # type: ignore[misc]
        asking.acknowledged += 1


async def led(s: Script) -> Asking:
    """One record is acknowledged, and whoever leads now is going to be asked."""
    place, writer = await s.place(), await s.producer()
    await s.write(place, writer, "x")
    await s.sleep(1)
    asking = Asking(s, s.leader(place), place)
    asking.acknowledged = 1
    return asking


async def test_a_leader_that_stood_still_tells_no_old_end_when_it_wakes(s: Script) -> None:
    """Neither etcd nor a follower tells it of its successor for a while."""
    asking = await led(s)
    old, place = asking.node, asking.place
    s.world.nodes[old].pause(8_000)
    s.cut_from_etcd(old)
    held = [s.hold(methods.REPLICATE, source=old), s.hold(methods.REPLICATE, target=old)]
    await replaced(s, place, old, asking)
    task = s.start(asking.run())
    await s.sleep(8)
    assert s.leads(old, place), "it is awake, and has heard nothing"
    assert asking.refused > 0
    for messages in held:
        messages.release()
    await s.until(lambda: not s.leads(old, place), "a follower's refusal")
    task.cancel()
    assert asking.stale == []


async def test_a_leader_that_is_cut_off_from_everybody_tells_no_end(s: Script) -> None:
    asking = await led(s)
    old, place = asking.node, asking.place
    s.cut(old, *s.followers(place))
    s.cut_from_etcd(old)
    task = s.start(asking.run())
    await replaced(s, place, old, asking)
    await s.sleep(2)
    task.cancel()
    assert asking.stale == []
    assert asking.refused > 0
    assert s.leads(old, place), "it has heard nothing of its successor"


async def test_a_follower_that_is_back_without_the_old_leaders_knowledge_confirms_nothing_for_another(
    s: Script,
) -> None:
    """The old leader saw one follower die, and then nothing of etcd: that one came back to the other, which leads."""
    asking = await led(s)
    old, place = asking.node, asking.place
    died, stayed = s.followers(place)
    s.kill(died)
    await s.until(lambda: s.isr(place) == {old, stayed}, "a smaller ISR")
    s.cut_from_etcd(old)
    held = [s.hold(methods.REPLICATE, source=old), s.hold(methods.REPLICATE, target=old)]
    s.restart(died)
    task = s.start(asking.run())
    await replaced(s, place, old, asking)
    await s.sleep(2)
    task.cancel()
    for messages in held:
        messages.release()
    assert asking.stale == []
    assert asking.refused > 0


async def test_with_one_follower_dead_the_end_is_told_at_once(s: Script) -> None:
    place, writer = await s.place(), await s.producer()
    await s.write(place, writer, "x")
    s.kill(s.followers(place)[0])
    began = asyncio.get_running_loop().time()
    assert await end_by(s, s.leader(place), place) == 1
    assert asyncio.get_running_loop().time() - began < 0.1


async def test_of_three_replicas_the_last_one_that_lives_tells_the_end(s: Script) -> None:
    """Nothing can be written, but what is there can be read: a process that has ended leads nothing."""
    place, writer = await s.place(), await s.producer()
    await s.write(place, writer, "x")
    leader = s.leader(place)
    s.kill(*s.followers(place))
    began = asyncio.get_running_loop().time()
    await s.retry(lambda: end_by(s, leader, place))
    assert asyncio.get_running_loop().time() - began < 2 * CONFIRM_MS / 1000


@cluster(default_replication_factor=2, brokers=2, internal_topic_replication_factor=2)
async def test_of_two_replicas_without_a_minimum_the_one_that_lives_tells_the_end(s: Script) -> None:
    place, writer = await s.place(min_insync_replicas="1"), await s.producer()
    await s.write(place, writer, "x")
    leader = s.leader(place)
    s.kill(*s.followers(place))
    assert await s.retry(lambda: end_by(s, leader, place)) == 1
