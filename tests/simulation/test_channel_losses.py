"""Channels of a topic that lost its last records in a power cut (`Opening`, rule 4): nothing that is there is passed over, and
what was acknowledged and is there does not come again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.work.message import ChannelMessage
from tests.simulation.cluster import SimCluster
from tests.simulation.power_cut import TOPIC, through

CHANNEL: Final = "work"
QUIET_S: Final = 10


@dataclass(slots=True)
class Seen:
    """What came to workers, and what they acknowledged with success."""

    came: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    again: list[int] = field(default_factory=list)
    """Those that came after their acknowledgement was confirmed."""


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


@pytest.mark.parametrize("seed", range(12))
def test_what_takes_the_offsets_of_lost_records_is_delivered(seed: int) -> None:
    seen, left = Seen(), set[int]()

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("client", request_timeout_ms=700) as client:
            await client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
            await client.admin.create_channel(TOPIC, CHANNEL, ack_wait_ms=2_000)
            working = asyncio.ensure_future(work(client, seen))

            async def before() -> None:
                """The worker works on, through everything."""

            async def after() -> None:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
                await work(client, seen, is_patient=True)

            left.update(await through(cluster, client, before, after))

    with SimCluster(f"channel-losses-{seed}") as cluster:
        cluster.world.loop.run(main(cluster))
    assert left <= seen.came, f"never delivered: {sorted(left - seen.came)}"
    assert not set(seen.again) & left, f"came again, though it was acknowledged and is still there: {seen.again}"
