"""The small files beside the segments: a damaged one does not exist, and what they claim is never too much."""

from __future__ import annotations

import json

import pytest

from oncelog.errors import StorageError
from oncelog_partition_leader.log import checkpoints as points
from oncelog_partition_leader.log.checkpoints import Identity, RecoveryPoint
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import DIRECTORY, TAG, TOPIC_ID, run

PATH = f"{DIRECTORY}/{points.RECOVERY_POINT}"


def in_directory(disk: SimDisk) -> RecoveryPoint:
    disk.make_dirs(DIRECTORY)
    return RecoveryPoint(disk, DIRECTORY)


def reread(disk: SimDisk) -> tuple[int, int] | None:
    point = RecoveryPoint(disk, DIRECTORY)
    return (point.end_offset, point.log_start_offset) if point.read() else None


# ---------------------------------------------------------------- the recovery point


def test_without_a_file_nothing_is_certainly_on_disk() -> None:
    async def test(disk: SimDisk) -> None:
        assert not in_directory(disk).read()

    run(test)


def test_the_last_good_record_counts() -> None:
    async def test(disk: SimDisk) -> None:
        point = in_directory(disk)
        await point.store(10, 3)
        for end in (20, 30):
            point.note(end)
        point.close()
        assert reread(disk) == (30, 3)
        size = disk.open(PATH).size
        disk.open(PATH).truncate(size - 1)
        assert reread(disk) == (20, 3), "the torn one does not exist"
        disk.flip_bit(PATH, size // 3 + 2, 1)
        assert reread(disk) == (10, 3), "and nothing behind a damaged one is believed"
        disk.flip_bit(PATH, 0, 1)
        assert reread(disk) is None

    run(test)


def test_a_file_that_says_the_same_need_not_be_stored_again_unless_it_is_damaged() -> None:
    async def test(disk: SimDisk) -> None:
        point = in_directory(disk)
        assert not point.is_stored(0, 0), "nobody has looked"
        point.read()
        assert point.is_stored(0, 0), "without a file that is what the next process finds"
        assert not point.is_stored(5, 0)
        await point.store(10, 3)
        assert point.note(20) is False
        point.close()
        again = RecoveryPoint(disk, DIRECTORY)
        assert again.read()
        assert again.is_stored(20, 3)
        assert not again.is_stored(10, 3)
        disk.open(PATH).truncate(disk.open(PATH).size - 1)
        torn = RecoveryPoint(disk, DIRECTORY)
        torn.read()
        assert not torn.is_stored(10, 3), "a record that is added behind a torn one would not be found"

    run(test)


def test_the_first_note_says_that_the_name_of_the_file_is_new() -> None:
    async def test(disk: SimDisk) -> None:
        point = in_directory(disk)
        point.read()
        assert point.note(10) is True
        assert point.note(20) is False
        point.close()
        assert reread(disk) == (20, 0)

    run(test)


def test_what_was_stored_outlives_a_power_cut_and_what_was_noted_may_not() -> None:
    async def test(disk: SimDisk) -> None:
        point = in_directory(disk)
        for path in ("", "logs", DIRECTORY):
            await disk.sync_dir(path)
        await point.store(10, 3)
        point.note(20)
        after = reread(disk.after_power_cut())
        assert after is not None
        assert after[0] in (10, 20), "too low is harmless"

    run(test)


def test_a_full_disk_takes_no_note_and_that_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(disk: SimDisk) -> None:
        point = in_directory(disk)
        await point.store(10, 0)

        def full(*_: object, **__: object) -> None:
            raise StorageError("full", reason="full")

        monkeypatch.setattr(disk, "open", full)
        point.note(20)
        monkeypatch.undo()
        assert reread(disk) == (10, 0)

    run(test)


def test_a_file_that_has_grown_long_asks_to_be_replaced() -> None:
    async def test(disk: SimDisk) -> None:
        point = in_directory(disk)
        for end in range(1, 4_000):
            point.note(end)
        assert point.is_full
        assert disk.open(PATH).size < 1 << 17, "and grows no longer"
        await point.store(4_000, 0)
        assert not point.is_full
        assert reread(disk) == (4_000, 0)

    run(test)


# ---------------------------------------------------------------- the mark of a clean stop


def test_the_mark_of_a_clean_stop_says_what_the_log_was() -> None:
    data = points.pack_clean(70, 900)
    assert points.read_clean(data) == (70, 900)
    for bad in (b"", data[:-1], data + b"x", bytes([data[0] ^ 1]) + data[1:]):
        assert points.read_clean(bad) is None


# ---------------------------------------------------------------- names and snapshots


@pytest.mark.parametrize("name", ["7.log", "x.log", "+0000000000000000007.log", "²0000000000000000007.log", "a.index"])
@pytest.mark.case("S22")
def test_other_names_are_none_of_ours(name: str) -> None:
    assert points.numbered([f"{12:020d}.log", name, f"{3:020d}.log"], ".log") == [3, 12]


def test_snapshots_stay_at_the_start_of_segments_and_the_newest_two() -> None:
    async def test(disk: SimDisk) -> None:
        disk.make_dirs(DIRECTORY)
        for offset in (0, 5, 10, 15, 20, 25):
            await disk.write_atomic(points.snapshot_path(DIRECTORY, offset), b"")
        points.prune_snapshots(disk, DIRECTORY, {5, 10})
        assert points.snapshot_offsets(disk, DIRECTORY) == [5, 10, 20, 25], "0 is below the first segment"

    run(test)


# ---------------------------------------------------------------- identity


def test_a_directorys_name_says_whose_log_it_holds() -> None:
    assert Identity.of_directory(DIRECTORY) == Identity(TOPIC_ID, 3)
    assert Identity.of_directory(f"logs/a-b-{TOPIC_ID}-3/") == Identity(TOPIC_ID, 3)
    assert Identity(TOPIC_ID, 3).tag == TAG
    for name in ("logs/nonsense", f"logs/orders-{TOPIC_ID}-x", f"logs/orders-{TOPIC_ID}-²", f"logs/{TOPIC_ID}-3"):
        with pytest.raises(StorageError) as refusal:
            Identity.of_directory(name)
        assert refusal.value.context["reason"] == "identity"


def test_an_identity_proves_itself_by_its_tag_and_an_older_versions_does_not() -> None:
    identity = Identity(TOPIC_ID, 3)
    assert Identity.decode(identity.encode()) == (identity, True)
    value = json.loads(identity.encode())
    assert Identity.decode(json.dumps({**value, "partition": 4}).encode()) is None
    del value["tag"]
    assert Identity.decode(json.dumps(value).encode()) == (identity, False)
    for bad in (b"", b"{", b"[]", b'{"topic_id":"x"}'):
        assert Identity.decode(bad) is None
