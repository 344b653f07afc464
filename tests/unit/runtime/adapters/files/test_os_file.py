"""A file on a real disk: what fails changes nothing, and a failed sync is never made good."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncelog.errors import StorageError
from oncelog_runtime.adapters.files.os_disk import OsDisk
from oncelog_runtime.adapters.files.os_file import OsFile, mapped


def reason(error: pytest.ExceptionInfo[StorageError]) -> str:
    return error.value.context["reason"]


def test_a_full_disk_leaves_the_former_size(tmp_path: Path) -> None:
    """A file size limit makes the kernel write short and then refuse, as a full disk does."""
    program = (
        "import resource, signal, sys\n"
        "from oncelog.errors import StorageError\n"
        "from oncelog_runtime.adapters.files.os_disk import OsDisk\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "file = OsDisk(sys.argv[1]).open('a', create=True)\n"
        "file.append([b'x' * 1000])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))\n"
        "try:\n    file.append([b'y' * 600, b'z' * 600])\n"
        "except StorageError as e:\n    print(e.context['errno'], file.size)\n"
        "file.append([b'w' * 500])\n"
        "print(file.size)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    assert said.split() == ["EFBIG", "1000", "1500"]
    assert (tmp_path / "a").read_bytes() == b"x" * 1000 + b"w" * 500


def test_a_failed_sync_breaks_the_file_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        disk = OsDisk(tmp_path)
        file = disk.open("a", create=True)
        file.append([b"x"])

        def fail(fd: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr("os.fdatasync", fail)
            with pytest.raises(StorageError) as error:
                await file.sync()
            assert reason(error) == "io"
        for again in (file.sync,):
            with pytest.raises(StorageError) as error:
                await again()
            assert reason(error) == "broken"
        with pytest.raises(StorageError):
            file.append([b"y"])
        assert file.read(0, 1) == b"x"
        file.close()
        disk.close()

    asyncio.run(scenario())


def test_slow_appends_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = OsDisk(tmp_path)
    file = disk.open("a", create=True)
    times = iter([0.0, 0.049, 1.0, 1.051])
    monkeypatch.setattr("oncelog_runtime.adapters.files.os_file.perf_counter", lambda: next(times))
    file.append([b"x"])
    assert disk.slow_writes == 0
    file.append([b"x"])
    assert disk.slow_writes == 1
    file.close()
    disk.close()


@pytest.mark.parametrize(
    ("number", "says"), [(errno.ENOSPC, "full"), (errno.EDQUOT, "full"), (errno.ENOENT, "absent"), (errno.EIO, "io")]
)
def test_an_error_of_the_system_has_a_reason_that_says_what_to_do(number: int, says: str) -> None:
    with pytest.raises(StorageError) as error, mapped("t/a.log"):
        raise OSError(number, "no")
    assert reason(error) == says
    assert error.value.context["path"] == "t/a.log"
    assert error.value.context["errno"] == errno.errorcode[number]


class Kernel:
    """Writes as it is told: so many bytes of each call, or an error."""

    def __init__(self, *answers: int | OSError) -> None:
        self.answers = list(answers)

    def write(self, fd: int, data: bytes, position: int, real: Callable[[int, bytes, int], int]) -> int:
        answer = self.answers.pop(0) if self.answers else len(data)
        if isinstance(answer, OSError):
            raise answer
        return real(fd, data[:answer], position)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel, pwrite = Kernel(), os.pwrite
    monkeypatch.setattr("os.pwrite", lambda fd, data, position: kernel.write(fd, data, position, pwrite))
    monkeypatch.setattr("os.pwritev", lambda fd, parts, position: kernel.write(fd, b"".join(parts), position, pwrite))
    return kernel


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OsFile]:
    """One that holds "before"."""
    disk = OsDisk(tmp_path)
    file = disk.open("a", create=True)
    file.append([b"before"])
    yield file
    file.close()
    disk.close()


def test_a_short_write_is_continued(file: OsFile, kernel: Kernel) -> None:
    kernel.answers = [2]
    file.append([b"one", b"two"])
    assert (file.size, file.read(0, 99)) == (12, b"beforeonetwo")


@pytest.mark.parametrize(
    ("answers", "says"), [((2, 1), "short"), ((2, OSError(errno.ENOSPC, "full")), "full"), ((OSError(5, "io"),), "io")]
)
def test_what_was_written_in_part_is_cut_off_again(
    file: OsFile, tmp_path: Path, kernel: Kernel, answers: tuple[int | OSError, ...], says: str
) -> None:
    kernel.answers = list(answers)
    with pytest.raises(StorageError) as error:
        file.append([b"one", b"two"])
    assert reason(error) == says
    assert (file.size, (tmp_path / "a").read_bytes()) == (6, b"before")
    file.append([b"!"])
    assert file.read(0, 99) == b"before!"


def test_a_file_whose_failed_write_cannot_be_cut_off_takes_nothing_more(
    file: OsFile, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_fd: int, _size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    kernel.answers = [2, 1]
    with monkeypatch.context() as patch:
        patch.setattr("os.ftruncate", refuse)
        with pytest.raises(StorageError):
            file.append([b"much"])
    with pytest.raises(StorageError) as error:
        file.append([b"two"])
    assert reason(error) == "broken"
    assert file.read(0, 99) == b"before", "what is whole can be read"


def test_a_file_without_news_is_not_synced_again(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    fdatasync = os.fdatasync

    def counted(fd: int) -> None:
        syncs.append(fd)
        fdatasync(fd)

    async def scenario() -> None:
        monkeypatch.setattr("os.fdatasync", counted)
        for _ in range(3):
            await file.sync()
        assert len(syncs) == 1
        file.append([b"x"])
        await asyncio.gather(*(file.sync() for _ in range(5)))
        assert len(syncs) == 2, "all who wait share one"

    asyncio.run(scenario())
