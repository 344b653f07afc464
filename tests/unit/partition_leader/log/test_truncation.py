"""Cuts of a log: its end, or all of it, goes together with everything that was derived from it."""

from __future__ import annotations

import pytest

from oncelog.core.batch.header import read_header
from oncelog.errors import (
    CorruptMessageError,
    OffsetOutOfRangeError,
)
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.partition_log import LogConfig
from oncelog_partition_leader.log.recovery.recovery import recover
from oncelog_partition_leader.log.state_replay import states_from
from oncelog_partition_leader.log.truncation import begin_anew
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import (
    DIRECTORY,
    batch,
    contents,
    open_log,
    plain,
    run,
    state_of,
    write,
    write_scripted,
)

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=200, tail_cache_bytes=0)


@pytest.mark.parametrize("offset", range(23))
@pytest.mark.parametrize("synced", [True, False])
def test_a_cut_log_is_as_if_it_had_never_been_longer(offset: int, synced: bool) -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        write_scripted(log)
        if synced:
            await log.sync()
        chunks, boundary = [], 0
        data = contents(log)
        position = 0
        while position < len(data):
            header = read_header(data, position)
            if header.next_offset > offset:
                break
            chunks.append(data[position : position + header.batch_length])
            boundary, position = header.next_offset, position + header.batch_length
        await log.truncate_to(offset)
        log.check()
        assert log.log_end_offset == boundary
        expected = await open_log(disk, SMALL, DIRECTORY.replace("logs/", "logs/copy/"))
        for chunk in chunks:
            expected.append_as_follower(chunk, 9)
        assert state_of(log) == state_of(expected)
        write(log, plain(), epoch=9)
        write(expected, plain(), epoch=9)
        await log.close(clean=False)
        again = await open_log(disk, SMALL)
        assert state_of(again) == state_of(expected)

    run(test)


def test_a_cut_at_the_end_is_nothing_and_below_the_log_is_refused() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        await log.reset_to(10, None)
        write(log, plain())
        await log.truncate_to(11)
        await log.truncate_to(99)
        assert log.log_end_offset == 11
        with pytest.raises(OffsetOutOfRangeError):
            await log.truncate_to(9)
        await log.truncate_to(10)
        assert (log.log_start_offset, log.log_end_offset, log.last_epoch) == (10, 10, -1)

    run(test)


@pytest.mark.case("hole 23")
def test_a_follower_that_begins_above_takes_the_leaders_state() -> None:
    async def test(disk: SimDisk) -> None:
        leader = await open_log(disk)
        write_scripted(leader)
        end = leader.log_end_offset
        follower = await open_log(disk, directory=DIRECTORY.replace("logs/", "logs/copy/"))
        write(follower, plain(), plain())
        await follower.reset_to(end, leader.producers.snapshot())
        assert (follower.log_start_offset, follower.log_end_offset, follower.synced_end_offset) == (end, end, end)
        write(leader, batch(1, 4), epoch=5)
        follower.append_as_follower(contents(leader, end), 5)
        assert follower.producers.snapshot() == leader.producers.snapshot()
        await follower.close(clean=False)
        again = await open_log(disk, directory=DIRECTORY.replace("logs/", "logs/copy/"))
        assert again.producers.snapshot() == leader.producers.snapshot()
        assert again.log_start_offset == end

    run(test)


def test_a_bad_snapshot_changes_nothing() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, plain())
        with pytest.raises(CorruptMessageError):
            await log.reset_to(5, b"garbage")
        states = ProducerStates()
        states.end_offset = 9
        with pytest.raises(CorruptMessageError):
            await log.reset_to(5, states.snapshot())
        assert log.log_end_offset == 1

    run(test)


def test_a_log_that_begins_anew_knows_its_producers_and_where_it_begins() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        write_scripted(log)
        await log.close()
        found = await recover(disk, DIRECTORY, SMALL)
        states = states_from(found.producers.snapshot(), 100, SMALL)
        fresh = await begin_anew(disk, DIRECTORY, found.point, found.segments, states)
        fresh.close()
        again = await recover(disk, DIRECTORY, SMALL)
        assert (again.log_end_offset, again.point.log_start_offset) == (100, 100)
        assert again.producers.snapshot() == states.snapshot()

    run(test)
