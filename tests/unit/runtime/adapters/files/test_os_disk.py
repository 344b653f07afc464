"""The data directory on a real file system: one process at a time, and nothing outside of it."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from oncelog.errors import StorageError
from oncelog_runtime.adapters.files import os_disk
from oncelog_runtime.adapters.files.os_disk import OsDisk


def reason(error: pytest.ExceptionInfo[StorageError]) -> str:
    return error.value.context["reason"]


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    program = (
        "import sys\n"
        "from oncelog.errors import StorageError\n"
        "from oncelog_runtime.adapters.files.os_disk import OsDisk\n"
        "try:\n    OsDisk(sys.argv[1])\nexcept StorageError as e:\n    print(e.context['reason'], e.message)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    assert said.startswith("locked")
    assert "in use by another process" in said
    disk.close()
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout == ""


def test_paths_cannot_leave_the_root(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path / "root")
    for path in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(ValueError):
            disk.open(path, create=True)
    disk.close()


def test_the_lock_is_no_name_that_anybody_sees(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    assert disk.list("") == []
    assert (tmp_path / ".lock").exists()
    disk.close()
    disk.close()


def test_one_boot_has_one_name_and_an_unknown_one_is_new_for_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boot_id(name: str) -> str:
        disk = OsDisk(tmp_path / name)
        disk.close()
        return disk.boot_id

    monkeypatch.setattr(os_disk, "_BOOT_ID", tmp_path / "boot_id")
    assert boot_id("a") != boot_id("b")
    (tmp_path / "boot_id").write_text("0123\n")
    assert boot_id("a") == boot_id("b") == "0123"


def test_a_replacement_that_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        disk = OsDisk(tmp_path)
        await disk.write_atomic("state", b"one")

        def full(_fd: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.raises(StorageError) as error:
                await disk.write_atomic("state", b"two")
        assert reason(error) == "full"
        assert disk.read_file("state") == b"one"
        await disk.write_atomic("state", b"three")
        assert disk.read_file("state") == b"three"
        disk.close()

    asyncio.run(scenario())


def test_the_next_writer_waits_for_the_thread_of_a_cancelled_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        disk = OsDisk(tmp_path)
        began, go_on, really = threading.Event(), threading.Event(), os_disk._replace
        writes: list[bytes] = []

        def slow(path: str, data: bytes) -> None:
            writes.append(data)
            if not began.is_set():
                began.set()
                assert go_on.wait(10)
            really(path, data)

        monkeypatch.setattr(os_disk, "_replace", slow)
        first = asyncio.create_task(disk.write_atomic("state", b"one"))
        await asyncio.to_thread(began.wait, 10)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(disk.write_atomic("state", b"two"))
        await asyncio.sleep(0.05)
        assert writes == [b"one"], "the second one would be overwritten by the first"
        go_on.set()
        await second
        assert disk.read_file("state") == b"two"
        disk.close()

    asyncio.run(scenario())


def test_syncs_do_not_wait_behind_slow_work(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = OsDisk(tmp_path, work_threads=1)
        file, go_on = disk.open("a", create=True), threading.Event()
        working = asyncio.create_task(disk.run(go_on.wait))
        file.append([b"x"])
        async with asyncio.timeout(10):
            await file.sync()
        assert not working.done()
        go_on.set()
        assert await working
        file.close()
        disk.close()

    asyncio.run(scenario())


def test_syncs_of_a_directory_share_one_that_begins_after_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        disk = OsDisk(tmp_path)
        disk.make_dirs("logs")
        began, go_on, syncs = threading.Event(), threading.Event(), 0
        really = os.fsync

        def slow(fd: int) -> None:
            nonlocal syncs
            syncs += 1
            began.set()
            assert go_on.wait(10)
            really(fd)

        monkeypatch.setattr("os.fsync", slow)
        first = asyncio.create_task(disk.sync_dir("logs"))
        await asyncio.to_thread(began.wait, 10)
        later = [asyncio.create_task(disk.sync_dir("logs")) for _ in range(20)]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(first, *later)
        assert syncs == 2, "one was under way when the others came, so it may not cover what they made"
        disk.close()

    asyncio.run(scenario())


def test_a_shared_sync_of_a_directory_that_fails_fails_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        disk = OsDisk(tmp_path)
        disk.make_dirs("logs")

        def broken(_fd: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", broken)
            found = await asyncio.gather(*(disk.sync_dir("logs") for _ in range(3)), return_exceptions=True)
        assert all(isinstance(error, StorageError) for error in found)
        await disk.sync_dir("logs")
        disk.close()

    asyncio.run(scenario())
