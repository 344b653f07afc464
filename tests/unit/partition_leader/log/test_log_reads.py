"""Reads of a log: stable ends, and bytes that do not belong where they were found."""

from __future__ import annotations

from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import (
    batch,
    marker,
    open_log,
    plain,
    run,
    write,
)


def test_the_last_stable_offset_waits_for_the_marker_to_be_committed() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, plain(), batch(1, 0, 2, txn=(1, 1)), plain())
        assert [log.last_stable_offset(hw) for hw in (0, 1, 4)] == [0, 1, 1]
        write(log, marker((1, 1), commit=False))
        assert (log.last_stable_offset(4), log.last_stable_offset(5)) == (1, 5)
        (entry,) = log.aborted_between(0, 5)
        assert (entry.first_offset, entry.marker_offset) == (1, 4)
        assert log.aborted_between(0, 1) == []
        assert log.aborted_between(5, 9) == []

    run(test)
