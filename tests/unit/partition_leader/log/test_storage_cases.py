"""The storage faults S1-S32 (docs/internals/storage.md): each has an outcome here, or says which part of oncelog gives it.

`CASES` is the table; a test below fails when a number has no row, or a row names no test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from oncelog.core.batch.header import HEADER_BYTES
from oncelog.errors import FencedLeaderEpochError, StorageError
from oncelog_partition_leader.core.producers.decisions import Duplicate
from oncelog_partition_leader.log.checkpoints import Identity
from oncelog_partition_leader.log.partition_log import LogConfig, PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.faults import FaultPlan
from tests.unit.partition_leader.log_helpers import (
    DIRECTORY,
    States,
    batch,
    contents,
    marker,
    open_log,
    plain,
    run,
    write,
)

CASES: Final = {
    1: "an unsynced tail is cut, what was synced is there",
    2: "a short write is taken back; the next append succeeds",
    3: "a torn batch is cut",
    4: "zeros in place of a batch are cut, without a loop",
    5: "nothing after a hole is trusted",
    6: "a full disk refuses; the log stays readable and recovers by itself",
    7: "a full disk under checkpoint or marker: nothing is claimed, tried again",
    8: "an I/O error on append ends this log alone",
    9: "a failed sync is final; no second sync",
    10: "as S9",
    11: "an I/O error on read is an error, never an empty success",
    12: "a flipped bit anywhere in a batch is found on read and on replication",
    13: "a flipped length allocates nothing",
    14: "a bad index is made again",
    15: "a lost aborted index is made again",
    16: "a bad producer snapshot gives way to an older one and the log",
    17: "a lost or too new epoch table is made again",
    18: "elsewhere: the log stores no high watermark; a leader learns it anew in its epoch (tests/simulation)",
    19: "a missing segment is rot, never bridged",
    20: "a new segment's directory entry is synced before anything in it counts",
    21: "an empty checkpoint file is recognised",
    22: "stray files are removed or ignored",
    23: "elsewhere: the broker registers a new incarnation, so an empty log is in no ISR (tests/simulation)",
    24: "a log that ends below its recovery point is rot; an older one as a whole: elsewhere, by its claim (test_custody)",
    25: "elsewhere: the lock of the data directory (tests/contracts/test_disk.py)",
    26: "another partition's directory is refused",
    27: "as S8",
    28: "elsewhere: slow syncs in the fault plan (tests/simulation)",
    29: "a segment that cannot be created refuses the append, and only that",
    30: "an epoch below the log's own is refused",
    31: "a batch of another partition is found on read and on recovery",
    32: "a scrub finds rot that nobody has read",
}

SMALL: Final = LogConfig(segment_bytes=600, index_interval_bytes=150, tail_cache_bytes=0)
ACTIVE: Final = f"{DIRECTORY}/{0:020d}.log"
Case = Callable[[SimDisk], Coroutine[Any, Any, None]]
_TESTED: dict[int, Case] = {}


def case(*numbers: int) -> Callable[[Case], Case]:
    """The outcome of these numbers."""

    def register(test: Case) -> Case:
        for number in numbers:
            _TESTED[number] = test
        return test

    return register


def _size(disk: SimDisk, path: str = ACTIVE) -> int:
    return disk.open(path).size


def _edit(disk: SimDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.append([data])


async def _written(disk: SimDisk, count: int = 4, config: LogConfig | None = None, synced: int = 2) -> PartitionLog:
    """A log of `count` equal batches, of which the first `synced` are synced and noted, and no clean stop."""
    log = await open_log(disk, config)
    for n in range(count):
        write(log, batch(1, n, payload=bytes([n]) * 80))
        if n == synced - 1:
            await log.sync()
    return log


async def _reopened(disk: SimDisk, log: PartitionLog, config: LogConfig | None = None) -> PartitionLog:
    await log.close(clean=False)
    again = await open_log(disk, config)
    again.check()
    return again


async def _is_rot(disk: SimDisk, config: LogConfig | None = None) -> None:
    before = disk.checksum()
    with pytest.raises(StorageError) as refusal:
        await open_log(disk, config)
    assert refusal.value.context["reason"] == "rot"
    assert disk.checksum() == before, "the files are kept"


# ---------------------------------------------------------------- writes


@case(1)
async def _s1(disk: SimDisk) -> None:
    log = await _written(disk, count=4, synced=2)
    data = contents(log)
    heir = disk.after_power_cut()
    again = await open_log(heir)
    assert 2 <= again.log_end_offset <= 4
    assert data.startswith(contents(again))
    again.check()


@case(2)
async def _s2(disk: SimDisk) -> None:
    log = await _written(disk)
    before, state = contents(log), log.producers.snapshot()
    disk.plan = FaultPlan(short_write=1.0)
    with pytest.raises(StorageError):
        write(log, batch(1, 4))
    disk.plan = FaultPlan()
    assert (contents(log), log.producers.snapshot()) == (before, state)
    write(log, batch(1, 4))
    log.check()


@case(3)
async def _s3(disk: SimDisk) -> None:
    for cut in (1, 60, HEADER_BYTES - 1, HEADER_BYTES + 3):
        log = await _written(disk, count=3, synced=2)
        whole = _size(disk)
        _edit(disk, ACTIVE, disk.read_file(ACTIVE)[: 2 * whole // 3 + cut])
        log = await _reopened(disk, log)
        assert (log.log_end_offset, _size(disk)) == (2, 2 * whole // 3)
        write(log, batch(1, 2, payload=b"\2" * 80))
        disk.remove(DIRECTORY)


@case(4)
async def _s4(disk: SimDisk) -> None:
    log = await _written(disk, count=3, synced=2)
    size = _size(disk)
    data = disk.read_file(ACTIVE)
    for zeroed in (data[: size - 80] + bytes(80), data[: 2 * size // 3] + bytes(5000)):
        _edit(disk, ACTIVE, zeroed)
        log = await _reopened(disk, log)
        assert log.log_end_offset == 2


@case(5)
async def _s5(disk: SimDisk) -> None:
    log = await _written(disk, count=5, synced=2)
    disk.flip_bit(ACTIVE, 2 * 200 + 150)
    assert (await _reopened(disk, log)).log_end_offset == 2
    log = await open_log(disk, SMALL, DIRECTORY[:-1] + "5")
    directory = log.directory
    for n in range(9):
        write(log, plain(bytes([n]) * 80, tag=log.tag))
    disk.remove(f"{directory}/{3:020d}.log")
    await log.close(clean=False)
    again = await open_log(disk, SMALL, directory)
    assert (again.log_end_offset, disk.exists(f"{directory}/{6:020d}.log")) == (3, False)


@case(6)
async def _s6(disk: SimDisk) -> None:
    log = await _written(disk)
    before = contents(log)
    disk.capacity = disk.used()
    with pytest.raises(StorageError) as refusal:
        write(log, batch(1, 4))
    assert refusal.value.context["reason"] == "full"
    assert contents(log) == before
    disk.capacity = None
    assert write(log, batch(1, 4))[0].base_offset == 4
    assert await log.sync() == 5


@case(7)
async def _s7(disk: SimDisk) -> None:
    config = replace(SMALL, checkpoint_bytes=100)
    log = await open_log(disk, config)
    write(log, batch(1, 0, txn=(1, 1)))
    disk.capacity = disk.used()
    assert await log.sync() == 1, "the data is on disk, the checkpoint is not"
    assert log.wants_sync
    with pytest.raises(StorageError):
        write(log, marker((1, 1), commit=False))
    assert log.last_stable_offset(1) == 0, "undecided"
    with pytest.raises(StorageError):
        await log.close()
    disk.capacity = None
    log = await open_log(disk, config)
    write(log, marker((1, 1), commit=False))
    await log.sync()
    assert not log.wants_sync
    assert disk.exists(f"{DIRECTORY}/{2:020d}.snapshot")


@case(8, 27)
async def _s8(disk: SimDisk) -> None:
    log = await _written(disk)
    other = await open_log(disk, directory=DIRECTORY[:-1] + "4")
    disk.plan = FaultPlan(append_error=1.0)
    with pytest.raises(StorageError):
        write(log, batch(1, 4))
    disk.plan = FaultPlan()
    assert log.failed is not None
    with pytest.raises(StorageError):
        write(log, batch(1, 4))
    write(other, plain(tag=other.tag))
    assert (await _reopened(disk, log)).log_end_offset == 4


@case(9, 10)
async def _s9(disk: SimDisk) -> None:
    log = await _written(disk, count=4, synced=2)
    disk.plan = FaultPlan(sync_error=1.0)
    with pytest.raises(StorageError):
        await log.sync()
    disk.plan = FaultPlan()
    assert log.synced_end_offset == 2
    for _ in range(2):
        with pytest.raises(StorageError):
            await log.sync()
    with pytest.raises(StorageError):
        write(log, batch(1, 4))
    await log.close(clean=True)
    heir = disk.after_power_cut()
    assert (await open_log(heir)).log_end_offset == 2
    disk.drop_unsynced(ACTIVE)  # or the kernel drops what it could not write, and keeps other files
    assert (await open_log(disk.after_kill())).log_end_offset == 2, "a torn end, not rot"


@case(29)
async def _s29(disk: SimDisk) -> None:
    log = await _written(disk, count=3, config=SMALL)

    def no_more(path: str, *, create: bool = False) -> Any:
        raise StorageError("too many open files", reason="emfile", path=path)

    disk.open, real = no_more, disk.open  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        write(log, batch(1, 3))
    disk.open = real  # type: ignore[method-assign]
    log.check()
    assert write(log, batch(1, 3))[0].base_offset == 3
    log.check()


@case(20)
async def _s20(disk: SimDisk) -> None:
    log = await open_log(disk, SMALL)
    data = b"".join(write(log, plain(bytes([n]) * 80))[0].data for n in range(7))
    assert await log.sync() == 7
    again = await open_log(disk.after_power_cut(), SMALL)
    assert contents(again) == data


# ---------------------------------------------------------------- reads and rot


@case(11)
async def _s11(disk: SimDisk) -> None:
    log = await _written(disk, config=replace(SMALL, segment_bytes=10_000))
    disk.plan = FaultPlan(read_error=1.0)
    with pytest.raises(StorageError) as refusal:
        log.read(0, 100, 4)
    assert refusal.value.context["reason"] == "io"
    assert log.failed is not None


@case(12, 13)
async def _s12(disk: SimDisk) -> None:
    for position in range(0, 200, 1 if isinstance(disk, SimDisk) else 7):
        log = await _written(disk, count=3, config=replace(SMALL, segment_bytes=10_000), synced=3)
        good = log.read(1, 1, 3)
        disk.flip_bit(ACTIVE, 200 + position, position % 8)
        bad = disk.read_file(ACTIVE)[200:400]
        with pytest.raises(StorageError) as refusal:
            log.read(1, 1, 3)
        assert refusal.value.context["reason"] == "rot"
        await log.close(clean=False)
        await _is_rot(disk)
        follower = await open_log(disk, directory=DIRECTORY.replace("logs/", "logs/copy/"))
        await follower.reset_to(1, None)
        with pytest.raises(Exception, match=r"CRC|checksum|length|magic|zeros|offset") as error:
            follower.append_as_follower(bad, 1)
        assert follower.log_end_offset == 1, error
        follower.append_as_follower(good, 1)
        disk.remove(DIRECTORY)
        disk.remove(follower.directory)


@pytest.mark.case("S12")
def test_a_cut_that_meets_a_flipped_bit_fails_the_log_as_rot() -> None:
    async def cut_above(position: int, disk: SimDisk) -> None:
        log = await _written(disk, config=replace(SMALL, segment_bytes=10_000), synced=4)
        disk.flip_bit(ACTIVE, position, position % 8)
        with pytest.raises(StorageError) as refusal:
            await log.truncate_to(3)
        assert refusal.value.context["reason"] == "rot"
        assert log.failed is not None, "a log that is cut half is used no more"
        assert log.synced_end_offset <= log.log_end_offset

    for position in range(200):
        run(partial(cut_above, position))


@case(31)
async def _s31(disk: SimDisk) -> None:
    other = await open_log(disk, directory=DIRECTORY[:-1] + "4")
    (stray,) = write(other, plain(bytes(80), tag=other.tag))
    log = await open_log(disk, LogConfig(tail_cache_bytes=0))
    write(log, plain(bytes(80)))
    await log.sync()
    _edit(disk, ACTIVE, stray.data)
    with pytest.raises(StorageError):
        log.read(0, 100, 1)
    await log.close(clean=False)
    await _is_rot(disk)


@case(32)
async def _s32(disk: SimDisk) -> None:
    log = await _written(disk, count=9, config=SMALL, synced=9)
    assert [number async for number in log.scrub()] == [600, 600, 600]
    disk.flip_bit(f"{DIRECTORY}/{3:020d}.log", 333)
    with pytest.raises(StorageError) as refusal:
        _ = [number async for number in log.scrub()]
    assert refusal.value.context["reason"] == "rot"


@case(19)
async def _s19(disk: SimDisk) -> None:
    for base in (0, 3, 6):
        log = await _written(disk, count=9, config=SMALL, synced=9)
        await log.close(clean=False)
        disk.remove(f"{DIRECTORY}/{base:020d}.log")
        await _is_rot(disk, SMALL)
        disk.remove(DIRECTORY)


@case(24)
async def _s24(disk: SimDisk) -> None:
    log = await _written(disk, count=4, synced=4)
    await log.close(clean=False)
    _edit(disk, ACTIVE, disk.read_file(ACTIVE)[:400])
    await _is_rot(disk)


# ---------------------------------------------------------------- derived files


async def _several(disk: SimDisk) -> tuple[PartitionLog, tuple[object, ...]]:
    """A log of several segments with transactions and epochs, checkpointed, and what it must look like."""
    log = await open_log(disk, SMALL)
    for n in range(6):
        write(log, batch(1, n), batch(5, 0, txn=(5, n + 1)), marker((5, n + 1), commit=False), epoch=n)
        await log.sync()
    write(log, batch(1, 6), epoch=6)
    return log, _facts(log)


def _facts(log: PartitionLog) -> tuple[object, ...]:
    return log.epochs.entries, log.aborted_between(0, 99), log.producers.snapshot(), contents(log)


def _names(disk: SimDisk, suffix: str) -> list[str]:
    return [f"{DIRECTORY}/{name}" for name in disk.list(DIRECTORY) if name.endswith(suffix)]


async def _damaged_one_by_one(disk: SimDisk, paths: list[str]) -> None:
    """Each file lost, emptied, cut, garbled and swapped with another one: the log is the same after each."""
    assert paths
    log = await open_log(disk, SMALL)
    facts = _facts(log)
    for path in paths:
        other = disk.read_file(paths[0] if path != paths[0] else paths[-1])
        for damage in (None, b"", disk.read_file(path)[:-1], b"\x5a" * 64, other):
            await log.close()
            if damage is None:
                disk.remove(path)
            else:
                _edit(disk, path, damage)
            log = await open_log(disk, SMALL)
            log.check()
            assert _facts(log) == facts, (path, damage)


@case(14)
async def _s14(disk: SimDisk) -> None:
    log, _ = await _several(disk)
    await log.close()
    await _damaged_one_by_one(disk, _names(disk, ".index"))


@case(15)
async def _s15(disk: SimDisk) -> None:
    log, _ = await _several(disk)
    await log.close()
    await _damaged_one_by_one(disk, _names(disk, ".txnindex"))


@case(17)
async def _s17(disk: SimDisk) -> None:
    log, facts = await _several(disk)
    epochs = type(log.epochs)()
    for epoch, start in log.epochs.entries:
        epochs.assign(epoch, start, log.log_end_offset)
    epochs.assign(77, log.log_end_offset, log.log_end_offset + 5)
    await log.close()
    await _damaged_one_by_one(disk, [f"{DIRECTORY}/leader-epochs"])
    log = await open_log(disk, SMALL)
    await log.close()
    _edit(disk, f"{DIRECTORY}/leader-epochs", epochs.dump())
    assert _facts(await open_log(disk, SMALL)) == facts


@case(16)
async def _s16(disk: SimDisk) -> None:
    log, facts = await _several(disk)
    await log.close(clean=False)
    for path in reversed(_names(disk, ".snapshot")):
        disk.flip_bit(path, 9)
        log = await open_log(disk, SMALL)
        assert _facts(log) == facts
        decision = States(log.producers).decide(batch(1, 3))
        assert isinstance(decision, Duplicate), "dedupe still holds"
        assert decision.base_offset >= 0
        await log.close(clean=False)
    newer = States()
    for n in range(40):
        newer.apply(batch(9, n))
    _edit(disk, f"{DIRECTORY}/{40:020d}.snapshot", newer.states.snapshot())
    assert _facts(await open_log(disk, SMALL)) == facts, "a snapshot above the log is not used"


@case(21)
async def _s21(disk: SimDisk) -> None:
    log, facts = await _several(disk)
    for name in ("leader-epochs", "recovery-point", "partition.json", "clean-shutdown"):
        await log.close()
        _edit(disk, f"{DIRECTORY}/{name}", b"")
        log = await open_log(disk, SMALL)
        assert _facts(log) == facts
        log.check()


@case(22)
async def _s22(disk: SimDisk) -> None:
    log, facts = await _several(disk)
    await log.close()
    removed = ("leader-epochs.tmp", f"{5:020d}.log.swap", f"{0:020d}.log.deleted")
    ignored = ("5.log", f"{5:020d}.LOG", "a0000000000000000005.log", "notes.txt", f"{5:021d}.log")
    for name in (*removed, *ignored):
        _edit(disk, f"{DIRECTORY}/{name}", b"stray")
    assert _facts(await open_log(disk, SMALL)) == facts
    assert not [name for name in removed if disk.exists(f"{DIRECTORY}/{name}")]
    assert all(disk.exists(f"{DIRECTORY}/{name}") for name in ignored)


@case(26)
async def _s26(disk: SimDisk) -> None:
    log = await _written(disk)
    await log.close()
    wrong = DIRECTORY[:-1] + "9"
    disk.rename(DIRECTORY, wrong)
    before = disk.checksum()
    with pytest.raises(StorageError) as refusal:
        await open_log(disk, directory=wrong)
    assert refusal.value.context["reason"] == "identity"
    assert disk.checksum() == before
    with pytest.raises(StorageError):
        await open_log(disk, directory="logs/nonsense")


@pytest.mark.parametrize("old", [False, True], ids=["with a checksum", "of an older version"])
@pytest.mark.case("S26")
def test_whatever_byte_of_an_identity_is_flipped_the_log_is_kept(old: bool) -> None:
    async def scenario(disk: SimDisk) -> None:
        log, facts = await _several(disk)
        await log.close()
        path = f"{DIRECTORY}/partition.json"
        whole = disk.read_file(path)
        sound = json.dumps({k: v for k, v in json.loads(whole).items() if k != "tag"}).encode() if old else whole
        for position in range(len(sound)):
            for bit in (0, 3):
                _edit(disk, path, sound[:position] + bytes([sound[position] ^ 1 << bit]) + sound[position + 1 :])
                log = await open_log(disk, SMALL)
                assert _facts(log) == facts
                await log.close()
                found = Identity.decode(disk.read_file(path))
                assert found is not None
                assert found[0] == Identity.of_directory(DIRECTORY)
        _edit(disk, path, sound)
        assert _facts(await open_log(disk, SMALL)) == facts, "and a sound one of either version is taken as it is"
        assert disk.read_file(path) == sound

    run(scenario)


@pytest.mark.case("S26")
def test_an_identity_that_nothing_speaks_for_is_rot() -> None:
    """The folder's name is one partition's, the batches are another's, and the file is damaged: not ours to guess."""

    async def scenario(disk: SimDisk) -> None:
        log = await _written(disk)
        await log.close()
        wrong = DIRECTORY[:-1] + "9"
        disk.rename(DIRECTORY, wrong)
        _edit(disk, f"{wrong}/partition.json", b"{")
        with pytest.raises(StorageError) as refusal:
            await open_log(disk, directory=wrong)
        assert refusal.value.context["reason"] == "rot", "it is set aside, and fetched from the leader"

    run(scenario)


@case(30)
async def _s30(disk: SimDisk) -> None:
    log = await _written(disk)
    write(log, batch(1, 4), epoch=8)
    log = await _reopened(disk, log)
    with pytest.raises(FencedLeaderEpochError):
        write(log, batch(1, 5), epoch=7)
    assert log.last_epoch == 8


# ---------------------------------------------------------------- the table


def case_tests() -> Mapping[int, Case]:
    """The tests of the table by number, for `test_storage_cases_on_files`."""
    return _TESTED


def test_every_number_has_a_row_and_every_row_a_test() -> None:
    assert sorted(CASES) == list(range(1, 33))
    elsewhere = {number for number, outcome in CASES.items() if outcome.startswith("elsewhere: ")}
    assert sorted(_TESTED.keys() | elsewhere) == list(range(1, 33))
    assert not _TESTED.keys() & elsewhere


@pytest.mark.parametrize("number", sorted(_TESTED), ids=lambda number: f"S{number}")
@pytest.mark.parametrize("seed", [0, 1])
def test_storage_case(number: int, seed: int) -> None:
    run(_TESTED[number], seed)
