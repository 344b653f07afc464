"""A disk that shows a real folder and keeps every change in memory: below the folder nothing ever happens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog.errors import StorageError
from oncelog_runtime.adapters.files.overlay_disk import OverlayDisk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.log").write_bytes(b"0123456789")
    (tmp_path / "t" / "b.log").write_bytes(b"bb")
    return tmp_path


def seen(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_nothing_below_the_folder_is_ever_changed(root: Path) -> None:
    before, disk = seen(root), OverlayDisk(root)
    file = disk.open("t/a.log")
    file.append([b"more"])
    file.truncate(3)
    disk.open("t/new.log", create=True).append([b"x"])
    disk.remove("t/b.log")
    disk.rename("t/a.log", "t/c.log")
    disk.make_dirs("u/v")
    asyncio.run(disk.write_atomic("t/state", b"{}"))
    disk.remove("t")
    assert seen(root) == before
    assert [path.name for path in root.iterdir()] == ["t"]


def test_what_is_appended_and_cut_is_seen_by_whoever_opens_the_file_again(root: Path) -> None:
    disk = OverlayDisk(root)
    file = disk.open("t/a.log")
    file.append([b"ab", b"cd"])
    assert (file.size, file.read(8, 4), file.read(10, 99), file.read(14, 1)) == (14, b"89ab", b"abcd", b"")
    file.truncate(12)
    assert disk.read_file("t/a.log") == b"0123456789ab"
    file.truncate(4)
    file.append([b"xy"])
    file.close()
    assert disk.open("t/a.log").read(0, 99) == b"0123xy"
    asyncio.run(file.sync())


def test_a_process_that_goes_on_writing_there_is_not_seen(root: Path) -> None:
    disk = OverlayDisk(root)
    file = disk.open("t/a.log")
    with (root / "t" / "a.log").open("ab") as other:
        other.write(b"later")
    assert (file.size, disk.read_file("t/a.log")) == (10, b"0123456789")


def test_a_name_that_was_removed_is_gone_until_it_is_made_anew(root: Path) -> None:
    disk = OverlayDisk(root)
    disk.remove("t/a.log")
    assert not disk.exists("t/a.log")
    assert disk.list("t") == ["b.log"]
    with pytest.raises(StorageError) as error:
        disk.open("t/a.log")
    assert error.value.context["reason"] == "absent"
    again = disk.open("t/a.log", create=True)
    assert (again.size, disk.list("t")) == (0, ["a.log", "b.log"])


def test_a_directory_that_was_removed_takes_all_below_it_along(root: Path) -> None:
    disk = OverlayDisk(root)
    disk.open("t/new.log", create=True)
    disk.make_dirs("u/v")
    disk.remove("t")
    disk.remove("u")
    assert not any(disk.exists(path) for path in ("t", "t/a.log", "t/new.log", "u", "u/v"))
    assert disk.list("") == []
    disk.make_dirs("t")
    assert (disk.exists("t"), disk.list("t")) == (True, [])


def test_a_renamed_file_has_its_bytes_and_its_old_name_is_gone(root: Path) -> None:
    disk = OverlayDisk(root)
    disk.rename("t/a.log", "t/b.log")
    assert disk.list("t") == ["b.log"]
    assert disk.read_file("t/b.log") == b"0123456789"
    with pytest.raises(StorageError):
        disk.rename("t/a.log", "t/d.log")


def test_directories_of_the_folder_and_of_memory_are_there(root: Path) -> None:
    disk = OverlayDisk(root)
    disk.make_dirs("u/")
    assert [disk.exists(path) for path in ("t", "t/", "u", "v")] == [True, True, True, False]
    assert disk.list("") == ["t", "u"]
    assert disk.list("v") == []


def test_a_small_file_is_replaced_and_work_runs_at_once(root: Path) -> None:
    async def scenario() -> None:
        disk = OverlayDisk(root)
        for data in (b"one", b"two"):
            await disk.write_atomic("t/a.log", data)
        await disk.sync_dir("t")
        assert disk.read_file("t/a.log") == b"two"
        assert await disk.run(lambda: 42) == 42
        assert 0 < disk.space().free_bytes <= disk.space().total_bytes

    asyncio.run(scenario())


def test_a_file_that_cannot_be_read_is_an_error_with_its_path(root: Path) -> None:
    disk = OverlayDisk(root)
    file = disk.open("t/a.log")
    (root / "t" / "a.log").unlink()
    with pytest.raises(StorageError) as error:
        file.read(0, 10)
    assert error.value.context["path"].endswith("t/a.log")
