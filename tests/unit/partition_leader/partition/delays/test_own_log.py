"""A done batch is committed in the leadership of its mover, or nowhere."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.core.batch.header import NO_SHARD, BatchIdentity, partition_tag
from oncelog.errors import NotLeaderError, RequestTimedOutError
from oncelog_partition_leader.partition.delays.own_log import OwnLog
from oncelog_partition_leader.partition.delays.waiting_log import done_batch
from tests.unit.partition_leader.leading import TOPIC_ID, Leading, Run, run

__all__ = ["run"]  # the fixture

DATA = done_batch([3], BatchIdentity(partition_tag(TOPIC_ID, 0), 7, 0, 0, -1, 0, NO_SHARD))


def test_it_returns_when_the_batch_is_committed_and_a_repeat_is_appended_once(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        own = OwnLog(leading.leadership, leading.host.clock)
        first = asyncio.ensure_future(own.append(DATA, "tx", 1_000))
        await asyncio.sleep(0.1)
        again = asyncio.ensure_future(own.append(DATA, "tx", 1_000))
        await asyncio.sleep(0.1)
        assert not first.done()
        leading.acknowledge(1)
        await first
        await again
        assert leading.log.log_end_offset == 1

    run(scenario)


def test_nothing_is_written_after_the_leadership(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        own = OwnLog(leading.leadership, leading.host.clock)
        waiting = asyncio.ensure_future(own.append(DATA, "tx", 1_000))
        await asyncio.sleep(0.1)
        assert not own.is_over
        leading.leadership.end()
        assert own.is_over
        with pytest.raises(RequestTimedOutError):
            await waiting
        with pytest.raises(NotLeaderError):
            await own.append(DATA, "tx", 1_000)
        assert leading.log.log_end_offset == 1

    run(scenario)
