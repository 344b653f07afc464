"""The work goes at its rate, in parts, tells how far it is, and shares no file with anybody."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from oncelog_partition_leader.log.compaction import pass_work
from oncelog_partition_leader.log.compaction.pass_job import Beat, Job, Limits, Written
from oncelog_partition_leader.log.compaction.pass_work import PassWork
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.compaction_helpers import COMPACT, DAY_MS, LIMITS, keyed, records_of, table_of
from tests.unit.partition_leader.log_helpers import NOW_MS, marker, open_log, run, write


def test_a_pass_takes_as_long_as_its_rate_asks_for() -> None:
    async def test(disk: SimDisk) -> None:
        times: list[float] = []
        for rate in (1_000, 100_000):
            log = await open_log(disk, COMPACT, directory=f"{rate}/{(await open_log(disk)).directory}")
            for number in range(60):
                write(log, keyed((b"k", b"%d" % number * 50)))
            await log.sync()
            size, began = log.size_bytes - log._segments[-1].index.size, disk.loop.time()
            tally = await log.compact(NOW_MS, log.log_end_offset, Limits(100, 1 << 20, rate))
            assert tally is not None
            assert tally.bytes_seen == size
            times.append((disk.loop.time() - began) * rate / size)
        assert 2 <= times[0] <= 2.5, "everything is read twice, and little is written"
        assert times[1] < 20

    run(test)


def test_a_large_segment_is_synced_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_work, "_PIECE_BYTES", 1_000)
    monkeypatch.setattr(pass_work, "_SYNC_BYTES", 2_000)

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(COMPACT, segment_bytes=20_000))
        for number in range(60):
            write(log, keyed((b"k%d" % (number % 50), b"%d" % number * 50)))
        log._roll()
        await log.sync()
        syncs: list[str] = []
        sync_time = disk.sync_time

        async def counted(path: str) -> bool:
            syncs.append(path)
            return await sync_time(path)

        disk.sync_time = counted  # type: ignore[method-assign]
        assert await log.compact(NOW_MS, log.log_end_offset, Limits(100, 1 << 20, 0))
        assert sum(path.endswith(".cleaned") for path in syncs) > 3

    run(test)


class Beats:
    """A worker that notes when it told how far it is."""

    def __init__(self, disk: SimDisk) -> None:
        self._work = PassWork(disk, "noted")
        self._loop = disk.loop
        self.seen: list[tuple[float, int]] = []

    def _noting(self, beat: Beat) -> Beat:
        async def noted(at: int) -> None:
            self.seen.append((self._loop.time(), at))
            await beat(at)

        return noted

    async def look(self, job: Job, beat: Beat) -> int:
        return await self._work.look(job, self._noting(beat))

    async def rewrite(self, first: int, end: int, beat: Beat) -> Written:
        return await self._work.rewrite(first, end, self._noting(beat))


def test_it_tells_how_far_it_is_also_while_it_waits_for_its_rate() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        for number in range(60):
            write(log, keyed((b"k", b"%d" % number * 50)))
        await log.sync()
        beats = Beats(disk)
        assert await log.compact(NOW_MS, log.log_end_offset, Limits(100, 1 << 20, 20), worker=beats)
        times = [time for time, _ in beats.seen]
        assert max(two - one for one, two in pairwise(times)) < 10.5
        assert times[-1] - times[0] > 500
        assert {at for _, at in beats.seen} == set(range(max(at for _, at in beats.seen) + 1)), "at every segment"

    run(test)


def test_snapshots_are_read_one_by_one_and_only_where_a_marker_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they may take longer than the broker waits for a word of its helper."""

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(COMPACT, segment_bytes=700))
        for number in range(1, 21):
            write(log, keyed((b"k", b"v"), producer=(50, 0, 0), txn=(50, number)), marker((50, number)))
        await log.sync()
        events: list[str] = []
        beats, open_in = Beats(disk), PassWork._open_in

        async def told(_at: int) -> None:
            events.append("told")

        def read(work: PassWork, path: str) -> object:
            events.append("read")
            return open_in(work, path)

        monkeypatch.setattr(PassWork, "_open_in", read)
        monkeypatch.setattr(beats, "_noting", lambda _beat: told)
        ends = [NOW_MS, NOW_MS + DAY_MS, NOW_MS + 3 * DAY_MS, NOW_MS + 5 * DAY_MS]
        reads = []
        for now_ms in ends:
            events.clear()
            await log.compact(now_ms, log.log_end_offset, LIMITS, worker=beats, held_everywhere=log.log_end_offset)
            reads.append(events.count("read"))
            assert ("read", "read") not in pairwise(events), "it tells before each of them"
        assert reads[0] == 0, "no marker has a time yet"
        assert max(reads) > 1

    run(test)


def test_a_worker_that_lives_on_beside_the_next_one_harms_nothing() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        for number in range(60):
            write(log, keyed((b"k%d" % (number % 7), b"%d" % number * 50)))
        await log.sync()
        table, late = table_of(records_of(log)), PassWork(disk, "late")
        rewritten: list[Written] = []

        async def lives_on() -> None:
            job = await log._job([s.index for s in log._segments[:2]], 0, NOW_MS, LIMITS)
            assert await late.look(job, _go_on) > 0
            rewritten.append(await late.rewrite(0, 2, _go_on))

        old = asyncio.ensure_future(lives_on())
        assert await log.compact(NOW_MS, log.log_end_offset, LIMITS, worker=PassWork(disk, "new"))
        await asyncio.wait([old])
        assert rewritten or old.exception() is not None, "it may meet segments that are not its own any more"
        log.check()
        assert table_of(records_of(log)) == table
        heir = disk.after_kill()
        assert table_of(records_of(await open_log(heir, COMPACT))) == table
        assert not [name for name in heir.list(log.directory) if name.endswith(".cleaned")]

    for seed in range(10):
        run(test, seed)


async def _go_on(_at: int) -> None:
    return
