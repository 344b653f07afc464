"""The whole rack loses power, and a topic that is not in `fsync` mode loses its last records: its channels go on all the same.

The offsets of lost records are given out again, perhaps before anybody has looked at the channel. What it remembers of the lost
records must not count for those that came in their places (`Opening`, rule 4).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.work.message import ChannelMessage
from tests.simulation.cluster import SimCluster

TOPIC = "jobs"
CHANNEL = "work"
BEFORE = 30
"""So many records are there before the lights go out."""
AFTER = 20
"""So many are written afterwards."""
QUIET_S = 10


@dataclass(slots=True)
class Seen:
    """What came to workers, and what they acknowledged with success."""

    came: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    again: list[int] = field(default_factory=list)
    """Those that came after their acknowledgement was confirmed."""


async def write(client: Client, values: range) -> None:
    """Writes until each is acknowledged; one that was written twice may come twice."""
    left = list(values)
    while left:
        try:
            async with client.producer() as producer:
                while left:
                    await producer.send_and_wait(TOPIC, b"%d" % left[0], partition=0)
                    del left[0]
        except errors.OncelogError:
            await asyncio.sleep(0.05)


async def work(client: Client, seen: Seen, *, is_patient: bool = False) -> None:
    """Acknowledges what comes. One that is not patient leaves some to later, and goes on for ever."""
    async with client.worker(TOPIC, channel=CHANNEL) as worker:
        silence = 0
        while silence < QUIET_S or not is_patient:
            messages = await worker.getmany(timeout_ms=1_000)
            silence = 0 if messages else silence + 1
            for message in messages:
                value = int(message.value or b"-1")
                seen.came.add(value)
                if value in seen.acknowledged:
                    seen.again.append(value)
                if is_patient or value % 7 != 3:
                    await acknowledge(message, seen)


async def acknowledge(message: ChannelMessage, seen: Seen) -> None:
    try:
        await message.ack()
    except errors.OncelogError:
        return  # it may count, or come again
    seen.acknowledged.add(int(message.value or b"-1"))


async def lights_out(cluster: SimCluster, away_s: float) -> None:
    """Every machine loses power; brokers are back at once, and coordinators a little later."""
    nodes = cluster.world.nodes
    for node in nodes.values():
        node.crash(silent=True)
    for name in sorted(nodes):
        if name.startswith("coordinator"):
            await asyncio.sleep(away_s)
        nodes[name].restart()


async def values_in(client: Client) -> set[int]:
    found = set[int]()
    async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(p) < end for p, end in ends.items()]):
            found.update(int(record.value or b"-1") for record in await consumer.getmany(timeout_ms=1_000))
    return found


def through_a_power_cut(seed: int) -> tuple[Seen, set[int]]:
    """Returns what was seen, and the values that are in the log in the end."""
    seen, left = Seen(), set[int]()

    async def main(cluster: SimCluster) -> None:
        random = cluster.world.random("losses")
        await cluster.healthy()
        async with cluster.client("client", request_timeout_ms=700) as client:
            await client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
            await client.admin.create_channel(TOPIC, CHANNEL, ack_wait_ms=2_000)
            working = asyncio.ensure_future(work(client, seen))
            await write(client, range(BEFORE))
            await asyncio.sleep(random.random() * 0.3)
            writing = asyncio.ensure_future(write(client, range(BEFORE, BEFORE + AFTER)))
            await lights_out(cluster, away_s=5 * random.random())
            await writing
            await cluster.healthy()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await work(client, seen, is_patient=True)
            left.update(await values_in(client))

    with SimCluster(f"channel-losses-{seed}") as cluster:
        cluster.world.loop.run(main(cluster))
    return seen, left


@pytest.mark.parametrize("seed", range(12))
def test_what_takes_the_offsets_of_lost_records_is_delivered(seed: int) -> None:
    seen, left = through_a_power_cut(seed)
    assert set(range(BEFORE, BEFORE + AFTER)) <= left
    assert left <= seen.came, f"never delivered: {sorted(left - seen.came)}"
    assert not set(seen.again) & left, f"came again, though it was acknowledged and is still there: {seen.again}"
    assert not set(range(BEFORE)) <= left, "each of these seeds loses records, or it would show nothing"
