"""A fault of ours in the middle of a group: what is written is not written again, and everybody is answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.log.partition_log import LogConfig
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader import log_helpers
from tests.unit.partition_leader.leading import Leading, Run, batch, run, turn

__all__ = ["run"]


def test_a_group_that_was_written_in_part_is_answered_as_far_and_ends_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raised, it would be taken for a group of which nothing is written, and all of it would be written again."""

    async def scenario(disk: SimDisk) -> None:
        log = await log_helpers.open_log(disk, LogConfig(segment_bytes=256))
        monkeypatch.setattr(log, "_roll", lambda: 1 // 0)
        written = log_helpers.write(log, *[log_helpers.plain()] * 5)
        assert [batch.base_offset for batch in written] == [0, 1]
        assert log.failed is not None

    log_helpers.run(scenario)


def test_what_follows_a_broken_append_is_refused_and_not_appended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(leading: Leading) -> None:
        healthy, calls = ReplicaSet.wrote, [0]

        def broken_once(*arguments: Any) -> bool:
            calls[0] += 1
            return bool(healthy(*arguments)) if calls[0] > 1 else bool(1 // 0)

        with monkeypatch.context() as patch:
            patch.setattr(ReplicaSet, "wrote", broken_once)
            answers = [leading.produce(batch(1, 0)), leading.produce(batch(1, 1)), leading.produce(batch(2, 0))]
            await turn()
            await turn()
        asyncio.get_running_loop().errors.clear()  # type: ignore[attr-defined]
        assert leading.leadership.ended is not None
        assert [answer.done() and answer.exception() is not None for answer in answers] == [True] * 3
        assert leading.log.log_end_offset == 1

    run(scenario)
