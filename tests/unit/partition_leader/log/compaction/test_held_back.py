"""What a replica that is behind still needs stays in a compacted log, and costs no pass for each look."""

from __future__ import annotations

import pytest

from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.compaction_helpers import COMPACT, DAY_MS, LIMITS, keyed, records_of
from tests.unit.partition_leader.log_helpers import NOW_MS, open_log, run, write


@pytest.mark.case("G154")
def test_a_tombstone_waits_for_the_slowest_replica_without_a_pass_for_each_look() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, keyed((b"a", b"1"), (b"b", b"1")), keyed((b"a", None)), keyed((b"b", None)))
        log._roll()
        await log.sync()

        async def passes(now_ms: int, held: int) -> int:
            count = 0
            while await log.compact(now_ms, log.log_end_offset, LIMITS, held_everywhere=held):
                count += 1
                assert count < 9, "no pass leads to the next one"
            return count

        assert await passes(NOW_MS, 3) == 1
        assert await passes(NOW_MS + DAY_MS, 2) == 1, "its time is over: it finds out for whom they wait"
        assert await passes(NOW_MS + 2 * DAY_MS, 3) == 0, "the last of what waits is not there yet"
        assert [r.value for r in records_of(log)] == [None, None]
        await log.close()
        log = await open_log(disk, COMPACT)
        assert await passes(NOW_MS + 2 * DAY_MS, 2) == 1, "one pass after a restart finds it out again"
        assert [r.value for r in records_of(log)] == [None, None]
        assert await passes(NOW_MS + 2 * DAY_MS, 4) == 1
        assert records_of(log) == []

    run(test)
