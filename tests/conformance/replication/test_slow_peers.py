"""A follower or a reader that takes nothing costs its leader no memory: what waits for it is in the log."""

from __future__ import annotations

import gc
import tracemalloc

from tests.conformance.script import Place, Script, Writer, cluster

VALUE = "x" * 20_000
BATCH = 20
"""Batches of 400 KB."""


@cluster(tail_memory_bytes=1 << 20, replica_lag_time_max_ms=1_000_000, replica_silence_max_ms=1_000_000)
async def test_a_follower_that_takes_nothing_costs_its_leader_no_memory(s: Script) -> None:
    place = await s.place()
    writer, leader, slow = await s.producer(), s.leader(place), s.followers(place)[0]
    await write(s, place, writer, 0, 5)
    s.cut(leader, slow)
    await write(s, place, writer, 5, 10)
    tracemalloc.start()
    try:
        before = held()
        await write(s, place, writer, 15, 60)
        grown = held() - before
    finally:
        tracemalloc.stop()
    assert grown < 8 << 20, f"24 MB were written, and {grown} bytes more are held"
    leadership = s.replica(leader, place).leadership
    assert leadership is not None
    assert leadership.queue._bytes == 0
    s.heal()
    await s.until(lambda: s.replica(slow, place).log.log_end_offset == s.replica(leader, place).log.log_end_offset)


async def write(s: Script, place: Place, writer: Writer, first: int, count: int) -> None:
    """Batches that the leader alone acknowledges."""
    for number in range(first, first + count):
        await s.write(place, writer, *[VALUE] * BATCH, seq=number * BATCH, acks=1)


def held() -> int:
    """Bytes in memory, but for those that the simulated disks hold."""
    gc.collect()
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, "*/sim/disk.py")])
    return sum(one.size for one in snapshot.statistics("filename"))
