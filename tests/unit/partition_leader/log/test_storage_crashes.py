"""127: a log's whole life in small, with everything that can be done to it, killed and cut off at any time.

After each crash the log is a sound prefix of what it was, with everything that was synced; and all that is derived from
it is what a log without crashes would have. Planted faults of the disk are on for every third seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

import pytest

from oncelog.errors import StorageError
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.log.partition_log import LogConfig, PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.faults import FaultPlan
from tests.unit.partition_leader.log_helpers import NOW_MS, batch, contents, fence, marker, open_log, run, write

TORN: Final = FaultPlan(torn_noise=0.5, zero_tail=0.5)
FAULTS: Final = replace(TORN, sync_error=0.03, append_error=0.01, disk_full=0.02, short_write=0.02)


@dataclass
class Facts:
    """What a crash must not change, but for the unsynced tail."""

    data: bytes
    log_start: int
    synced: int
    end: int
    aborted: list[AbortedEntry]
    snapshot: bytes

    @staticmethod
    def of(log: PartitionLog) -> Facts:
        """Of a log that works."""
        return Facts(
            contents(log),
            log.log_start_offset,
            log.synced_end_offset,
            log.log_end_offset,
            [entry for entry in log.aborted_between(0, 1 << 40) if entry.marker_offset >= log.log_start_offset],
            log.producers.snapshot(),
        )


class Life:
    """One seed's log, its configuration, and what the high watermark would be."""

    def __init__(self, seed: int) -> None:
        random = self.random = Random(seed)
        self.faults = FAULTS if seed % 3 == 0 else TORN
        self.config = LogConfig(
            segment_bytes=random.choice([500, 900, 5000]),
            index_interval_bytes=200,
            checkpoint_bytes=random.choice([150, 700, 1 << 20]),
            retention_bytes=random.choice([-1, 1500]),
            tail_cache_bytes=random.choice([0, 500, 1 << 20]),
        )
        self.epoch = 0
        self.high_watermark = 0
        self.unknown_start = False

    def batches(self) -> list[bytes]:
        """A few batches of any kind; a follower's log takes what no client could send."""
        return [self._batch() for _ in range(self.random.randrange(1, 4))]

    def _batch(self) -> bytes:
        random, kind = self.random, self.random.random()
        count, name = random.randrange(1, 4), (20, random.randrange(1, 5))
        if kind < 0.3:
            payload = random.randbytes(random.choice([8, 60, 200]))
            return batch(random.randrange(3), random.randrange(5), count, epoch=self.epoch, payload=payload)
        if kind < 0.6:
            return batch(10 + random.randrange(3), 0, count, txn=name, payload=random.randbytes(20))
        if kind < 0.9:
            return marker(name, commit=random.random() < 0.5, winners=random.choice([None, (10,), (11, 12)]))
        return fence(random.randrange(3), self.epoch + random.randrange(2))

    async def step(self, log: PartitionLog) -> None:
        """One thing that is done to a log."""
        random, kind = self.random, self.random.random()
        if kind < 0.5:
            write(log, *self.batches(), epoch=self.epoch, now_ms=NOW_MS + self.epoch * 20_000_000)
        elif kind < 0.7:
            await log.sync()
        elif kind < 0.8:
            await log.truncate_to(random.randrange(log.log_start_offset, log.log_end_offset + 1))
            self.high_watermark = min(self.high_watermark, log.log_end_offset)
        elif kind < 0.9:
            self.high_watermark = random.randrange(self.high_watermark, log.log_end_offset + 1)
            await self._unless_unknown(log.apply_retention(NOW_MS, self.high_watermark))
        elif kind < 0.93:
            target = random.randrange(log.log_start_offset, log.log_end_offset + 1)
            await self._unless_unknown(log.advance_log_start(target))
        elif kind < 0.95:
            self.high_watermark = log.log_end_offset + random.randrange(3)
            await log.reset_to(self.high_watermark, log.producers.snapshot())
        log.check()

    async def _unless_unknown(self, moved: object) -> None:
        """A log start that could not be stored may have been stored."""
        try:
            await moved  # type: ignore[misc]
        except StorageError:
            self.unknown_start = True
            raise

    async def live(self, log: PartitionLog) -> Facts | None:
        """Some steps; None when the log failed."""
        self.unknown_start = False
        for _ in range(self.random.randrange(1, 12)):
            try:
                await self.step(log)
            except StorageError:
                if log.failed is not None:
                    return None
        failed = log.failed is not None  # an append that filled a segment first tells what it has written, and no error
        return None if self.unknown_start or failed else Facts.of(log)


def _compare(before: Facts, log: PartitionLog, power_cut: bool) -> None:
    after = Facts.of(log)
    assert before.synced <= after.end <= before.end
    assert power_cut or after.end == before.end
    assert before.log_start == after.log_start
    assert before.data.startswith(after.data)
    if after.end == before.end:
        assert after.aborted == before.aborted
        assert after.snapshot == before.snapshot


@pytest.mark.parametrize("seed", range(60))
def test_after_any_crash_a_log_is_a_sound_prefix_of_itself(seed: int) -> None:
    async def test(disk: SimDisk) -> None:
        life = Life(seed)
        log = await open_log(disk, life.config)
        for _ in range(8):
            before = await life.live(log)
            ending = life.random.choice(["cut", "cut", "kill", "clean"])
            if ending == "clean":
                try:
                    await log.close()
                except StorageError:
                    ending = "kill"
            disk.plan = TORN
            disk = disk.after_power_cut() if ending == "cut" else disk.after_kill()
            log = await open_log(disk, life.config)
            log.check()
            if before is not None:
                _compare(before, log, ending == "cut")
            disk.plan = life.faults
            life.epoch += 1
            life.high_watermark = log.log_start_offset

    run(test, seed, TORN)


@pytest.mark.parametrize("seed", range(8))
def test_what_was_synced_outlives_a_power_cut_though_no_checkpoint_could_be_stored(seed: int) -> None:
    """Rule 3 of `partition_log`: a sync covers the names of rolled segments by itself. The checkpoint, whose own write would
    sync the folder by the way, may fail without harm (S7)."""
    config = LogConfig(segment_bytes=600, index_interval_bytes=200)

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, config)
        disk.write_atomic = _refused  # type: ignore[method-assign]
        for number in range(12):
            write(log, batch(-1, -1, epoch=-1, payload=b"x" * 150))
            assert await log.sync() == number + 1
        assert (await open_log(disk.after_power_cut(), config)).log_end_offset == 12

    run(test, seed)


async def _refused(path: str, _data: bytes) -> None:
    raise StorageError("there is room for the log, not for a new file", reason="full", path=path)


def test_a_log_whose_folder_could_not_be_made_durable_at_first_outlives_a_power_cut() -> None:
    """Random seed 524: the folder was there at the second try, and nothing made its name durable any more."""

    async def test(disk: SimDisk) -> None:
        disk.plan = FaultPlan(sync_error=1.0)
        with pytest.raises(StorageError):
            await open_log(disk)
        disk.plan = FaultPlan()
        log = await open_log(disk)
        write(log, batch())
        await log.sync()
        assert (await open_log(disk.after_power_cut())).log_end_offset == 1

    run(test)
