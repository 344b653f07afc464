"""What a log says of the leader epoch that it has reached, after crashes and cuts."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_partition_leader.log.checkpoints import REACHED_EPOCH
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.reached_epoch import ReachedEpoch, noted_epoch
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import DIRECTORY, batch, open_log, run, write

PATH = f"{DIRECTORY}/{REACHED_EPOCH}"


async def reopened(disk: SimDisk, log_end_offset: int) -> ReachedEpoch:
    return await ReachedEpoch.open(disk, DIRECTORY, log_end_offset)


def test_a_log_without_a_note_has_reached_nothing() -> None:
    async def story(disk: SimDisk) -> None:
        assert (await reopened(disk, 10)).epoch == noted_epoch(disk, DIRECTORY) == -1

    run(story)


def test_the_last_note_counts_while_the_log_goes_as_far() -> None:
    async def story(disk: SimDisk) -> None:
        disk.make_dirs(DIRECTORY)
        notes = await reopened(disk, 10)
        notes.note(3, 8)
        notes.note(4, 10)
        assert (notes.epoch, notes.at_offset, notes.is_synced) == (4, 10, False)
        assert (await reopened(disk, 10)).epoch == 4
        assert (await reopened(disk, 9)).epoch == -1, "what the log has lost since may be what the leader began with"
        assert (await reopened(disk, 10)).epoch == noted_epoch(disk, DIRECTORY) == -1, (
            "another log may have grown in its place"
        )

    run(story)


def test_a_log_that_is_cut_below_its_note_forgets_it_first() -> None:
    async def story(disk: SimDisk) -> None:
        disk.make_dirs(DIRECTORY)
        notes = await reopened(disk, 10)
        notes.note(4, 10)
        await notes.forget_above(10)
        assert notes.epoch == 4
        await notes.forget_above(9)
        assert notes.epoch == (await reopened(disk, 20)).epoch == -1

    run(story)


def test_a_note_that_is_torn_counts_for_nothing_and_neither_does_the_one_before() -> None:
    """The torn one may have been a cut."""

    async def story(disk: SimDisk) -> None:
        disk.make_dirs(DIRECTORY)
        (await reopened(disk, 10)).note(4, 10)
        file = disk.open(PATH)
        file.append([b"half"])
        file.close()
        notes = await reopened(disk, 10)
        assert notes.epoch == -1
        notes.note(5, 10)
        assert (await reopened(disk, 10)).epoch == 5, "the rest of the torn one is gone"

    run(story)


def test_the_file_does_not_grow_for_ever() -> None:
    async def story(disk: SimDisk) -> None:
        disk.make_dirs(DIRECTORY)
        notes = await reopened(disk, 10)
        for epoch in range(1_000):
            notes.note(epoch, 10)
        assert (await reopened(disk, 10)).epoch == 999
        assert len(disk.read_file(PATH)) < 100

    run(story)


def test_a_log_reaches_an_epoch_by_a_batch_or_by_a_note() -> None:
    async def story(disk: SimDisk) -> None:
        log = await open_log(disk)
        assert log.reached_epoch == -1
        write(log, batch(), epoch=2)
        assert log.reached_epoch == 2
        log.reach(2, 1)
        assert not disk.exists(PATH), "the batch says it"
        log.reach(5, 1)
        assert (log.reached_epoch, log.last_epoch) == (5, 2)
        await log.close(clean=False)
        assert (await open_log(disk)).reached_epoch == 5

    run(story)


def test_a_note_is_on_disk_after_the_logs_next_sync() -> None:
    async def story(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, batch(), epoch=2)
        log.reach(5, 1)
        await log.sync()
        assert (await open_log(disk.after_power_cut())).reached_epoch == 5

    run(story)


def test_a_cut_log_has_only_the_epoch_of_its_last_batch() -> None:
    async def story(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, batch(), epoch=2)
        write(log, batch(sequence=1), epoch=3)
        log.reach(5, 2)
        await log.truncate_to(1)
        assert log.reached_epoch == 2
        await log.close(clean=False)
        assert (await open_log(disk)).reached_epoch == 2

    run(story)


def test_a_log_that_begins_anew_has_reached_nothing() -> None:
    async def story(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, batch(), epoch=2)
        log.reach(5, 1)
        await log.reset_to(100, None)
        await asyncio.sleep(0)
        assert log.reached_epoch == -1

    run(story)


@pytest.mark.parametrize("reopened", [None, True, False])
def test_a_cut_at_the_start_of_an_emptied_log_does_not_forget_who_wrote_before(reopened: bool | None) -> None:
    """Neither does it keep who wrote what was cut. `reopened` before and after the cut: cleanly, or after a crash."""

    async def story(disk: SimDisk) -> None:
        async def again(log: PartitionLog) -> PartitionLog:
            if reopened is None:
                return log
            await log.close(clean=reopened)
            return await open_log(disk)

        log = await open_log(disk)
        write(log, batch(count=3), epoch=2)
        await log.advance_log_start(3)
        write(log, batch(sequence=3, count=2), epoch=4)
        log = await again(log)
        assert (log.log_start_offset, log.last_epoch) == (3, 4)
        await log.truncate_to(3)
        assert (log.log_start_offset, log.log_end_offset, log.last_epoch, log.reached_epoch) == (3, 3, 2, 2)
        log.check()
        log = await again(log)
        assert (log.log_end_offset, log.last_epoch) == (3, 2)

    run(story)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_start_at_a_new_epoch_remembers_the_one_before(clean: bool) -> None:
    """The records of both are there when the first ones are deleted; then the others are cut."""

    async def story(disk: SimDisk) -> None:
        log = await open_log(disk)
        write(log, batch(count=3), epoch=2)
        write(log, batch(sequence=3, count=2), epoch=4)
        await log.advance_log_start(3)
        await log.close(clean)
        log = await open_log(disk)
        await log.truncate_to(3)
        assert (log.last_epoch, log.epochs.end_offset_for(4)) == (2, (2, 3))

    run(story)
