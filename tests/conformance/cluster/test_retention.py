"""Retention by time: what is old is told by most brokers' clocks, since a leader's deletions are everybody's."""

from __future__ import annotations

from tests.conformance.script import Place, Script, cluster

DAY_MS = 24 * 3_600_000
WEEK = str(7 * DAY_MS)
VALUES = [f"{i:0100}" for i in range(40)]


async def written(s: Script, **config: str) -> Place:
    """A topic of many small segments."""
    place = await s.place(segment_bytes="1000", retention_ms=WEEK, **config)
    async with s.client() as client, client.producer() as producer:
        for value in VALUES:
            await producer.send_and_wait("work", value=value.encode(), partition=0)
    return place


@cluster(retention_interval_ms=1_000)
async def test_a_leader_whose_clock_is_days_ahead_deletes_nothing(s: Script) -> None:
    place = await written(s)
    leader = s.leader(place)
    s.world.nodes[leader].clock.step(8 * DAY_MS)
    await s.sleep(10)
    assert s.leader(place) == leader
    assert await s.read(place) == VALUES


@cluster(retention_interval_ms=1_000)
async def test_what_is_old_by_most_clocks_is_deleted_whatever_the_leaders_clock_says(s: Script) -> None:
    place = await written(s)
    for follower in s.followers(place):
        s.world.nodes[follower].clock.step(8 * DAY_MS)
    await s.until(lambda: s.replica(s.leader(place), place).log.log_start_offset > 0, within_s=20)


@cluster(retention_interval_ms=1_000, trash_retention_ms=DAY_MS)
async def test_a_broker_whose_clock_is_days_ahead_keeps_its_trash(s: Script) -> None:
    leader = s.leader(await written(s))
    async with s.client() as client:
        await client.admin.delete_topic("work")
    trash = s.broker(leader).replicas.leftovers.trash
    await s.until(lambda: bool(trash.entries()), "the log is in the trash", within_s=20)
    s.world.nodes[leader].clock.step(8 * DAY_MS)
    await s.sleep(10)
    assert trash.entries()
