"""Producer state from a snapshot and the batches after it: it is of the offset that was asked for, or refused."""

from __future__ import annotations

import pytest

from oncelog.errors import CorruptMessageError, StorageError
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.checkpoints import snapshot_path
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.state_replay import replay_states, states_from
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import DIRECTORY, TAG, batch, open_log, run, write

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=200, tail_cache_bytes=0)


def test_a_snapshot_of_a_later_offset_or_a_damaged_one_is_refused() -> None:
    states = ProducerStates()
    states.end_offset = 9
    assert states_from(None, 5, SMALL).end_offset == 5
    assert states_from(states.snapshot(), 9, SMALL).end_offset == 9
    for bad in (states.snapshot(), b"", states.snapshot()[:-1]):
        with pytest.raises(CorruptMessageError):
            states_from(bad, 8, SMALL)


def test_a_snapshot_that_ends_within_a_batch_is_refused() -> None:
    """Found by fuzzing: the log opened with a producer state that ended before the log did."""

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, batch(7, 0, count=3))
        end = log.log_end_offset
        await log.close()
        states = ProducerStates()
        states.end_offset = end - 1
        await disk.write_atomic(snapshot_path(DIRECTORY, end - 1), states.snapshot())
        for name in disk.list(DIRECTORY):
            if name.endswith(".snapshot") and name != snapshot_path("", end - 1).lstrip("/"):
                disk.remove(f"{DIRECTORY}/{name}")
        with pytest.raises(StorageError, match="does not end where a batch begins"):
            await open_log(disk)

    run(test)


def test_the_state_at_a_batchs_beginning_is_found_again() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        seen = [log.producers.snapshot()]
        for n in range(8):
            write(log, batch(1, n, payload=b"x" * 150))
            seen.append(log.producers.snapshot())
            await log.sync()
        for end, snapshot in enumerate(seen):
            states = replay_states(disk, DIRECTORY, SMALL, log._segments, TAG, end)
            assert states.snapshot() == snapshot

    run(test)
