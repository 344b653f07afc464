"""The contract of `oncelog_runtime.ports.Disk`, for the real disk and the simulated one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.errors import StorageError
from oncelog_runtime.adapters.files.os_disk import OsDisk
from oncelog_runtime.ports import Disk
from tests.contracts.conftest import RealRunner, SimRunner


class Bench:
    """A disk and the loop to use it on."""

    def __init__(self, disk: Disk, runner: RealRunner | SimRunner) -> None:
        self.disk = disk
        self.run = runner.run


@pytest.fixture(params=["os", "sim"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "sim":
        sim = SimRunner()
        yield Bench(sim.world.node("n").disk, sim)
        sim.world.close()
        return
    disk = OsDisk(tmp_path / "root")
    yield Bench(disk, RealRunner())
    disk.close()


def reason(error: pytest.ExceptionInfo[StorageError]) -> str:
    return error.value.context["reason"]


def test_appended_bytes_are_read_back_before_any_sync(bench: Bench) -> None:
    file = bench.disk.open("a.log", create=True)
    file.append([b"one", memoryview(b"two"), b""])
    file.append([b"three"])
    assert file.size == 11
    assert file.read(0, 100) == b"onetwothree"
    assert file.read(3, 3) == b"two"
    assert file.read(11, 5) == b""
    file.close()


def test_an_append_of_very_many_buffers_is_whole(bench: Bench) -> None:
    file = bench.disk.open("a.log", create=True)
    parts = [b"%04d" % i for i in range(3000)]
    file.append(parts)
    assert file.read(0, file.size) == b"".join(parts)
    file.close()


def test_an_absent_file_is_only_made_when_asked(bench: Bench) -> None:
    with pytest.raises(StorageError) as error:
        bench.disk.open("nothing.log")
    assert reason(error) == "absent"
    assert not bench.disk.exists("nothing.log")
    bench.disk.open("nothing.log", create=True).close()
    assert bench.disk.exists("nothing.log")


def test_a_file_needs_its_directory(bench: Bench) -> None:
    with pytest.raises(StorageError) as error:
        bench.disk.open("deep/a.log", create=True)
    assert reason(error) == "absent"
    bench.disk.make_dirs("deep/er")
    bench.disk.make_dirs("deep/er")
    bench.disk.open("deep/er/a.log", create=True).close()
    assert bench.disk.list("deep") == ["er"]
    assert bench.disk.list("deep/er") == ["a.log"]


def test_an_open_file_continues_at_its_end(bench: Bench) -> None:
    first = bench.disk.open("a.log", create=True)
    first.append([b"one"])
    first.close()
    again = bench.disk.open("a.log")
    assert again.size == 3
    again.append([b"two"])
    assert again.read(0, 10) == b"onetwo"
    again.close()


def test_a_truncated_file_goes_on_at_the_cut(bench: Bench) -> None:
    file = bench.disk.open("a.log", create=True)
    file.append([b"0123456789"])
    file.truncate(4)
    assert file.size == 4
    file.append([b"xy"])
    assert file.read(0, 100) == b"0123xy"
    with pytest.raises(ValueError):
        file.truncate(7)
    file.close()


def test_a_closed_file_refuses_everything(bench: Bench) -> None:
    file = bench.disk.open("a.log", create=True)
    file.close()
    file.close()
    for use in (lambda: file.append([b"x"]), lambda: file.read(0, 1), lambda: file.truncate(0)):
        with pytest.raises(StorageError) as error:
            use()
        assert reason(error) == "closed"


def test_many_syncs_at_once_all_return(bench: Bench) -> None:
    async def scenario() -> None:
        file = bench.disk.open("a.log", create=True)

        async def write(i: int) -> None:
            for _ in range(5):
                file.append([b"%d" % i])
                await file.sync()

        await asyncio.gather(*(write(i) for i in range(8)))
        assert file.size == 40
        file.close()

    bench.run(scenario())


def test_a_cancelled_sync_does_not_disturb_the_others(bench: Bench) -> None:
    async def scenario() -> None:
        file = bench.disk.open("a.log", create=True)
        file.append([b"x"])
        first = asyncio.create_task(file.sync())
        second = asyncio.create_task(file.sync())
        await asyncio.sleep(0)
        first.cancel()
        await second
        file.append([b"y"])
        await file.sync()
        file.close()

    bench.run(scenario())


def test_a_file_may_be_closed_under_a_sync(bench: Bench) -> None:
    async def scenario() -> None:
        file = bench.disk.open("a.log", create=True)
        file.append([b"x" * 4096])
        syncing = asyncio.create_task(file.sync())
        await asyncio.sleep(0)
        file.close()
        await asyncio.wait([syncing])
        assert bench.disk.read_file("a.log") == b"x" * 4096

    bench.run(scenario())


def test_names_move_and_vanish(bench: Bench) -> None:
    async def scenario() -> None:
        disk = bench.disk
        disk.make_dirs("t/p-0")
        file = disk.open("t/p-0/a.log", create=True)
        file.append([b"a"])
        disk.rename("t/p-0/a.log", "t/p-0/b.log")
        assert file.read(0, 1) == b"a"  # the open file is still the same one
        assert disk.list("t/p-0") == ["b.log"]
        disk.rename("t/p-0", "t/p-1")
        await disk.sync_dir("t")
        assert disk.read_file("t/p-1/b.log") == b"a"
        assert not disk.exists("t/p-0")
        disk.remove("t")
        disk.remove("t")
        assert disk.list("t") == []
        assert disk.list("") == []
        file.close()

    bench.run(scenario())


def test_a_rename_replaces_a_file_but_no_directory(bench: Bench) -> None:
    disk = bench.disk
    for name in ("a", "b"):
        file = disk.open(name, create=True)
        file.append([name.encode()])
        file.close()
    disk.rename("a", "b")
    assert disk.read_file("b") == b"a"
    disk.make_dirs("d")
    with pytest.raises(StorageError):
        disk.rename("b", "d")
    with pytest.raises(StorageError) as error:
        disk.rename("nothing", "c")
    assert reason(error) == "absent"


def test_write_atomic_replaces_and_leaves_nothing_else(bench: Bench) -> None:
    async def scenario() -> None:
        disk = bench.disk
        disk.make_dirs("d")
        await disk.write_atomic("d/state", b"one")
        await asyncio.gather(disk.write_atomic("d/state", b"two"), disk.write_atomic("d/state", b"six"))
        assert disk.read_file("d/state") in (b"two", b"six")
        assert disk.list("d") == ["state"]

    bench.run(scenario())


def test_reading_an_absent_file_says_so(bench: Bench) -> None:
    with pytest.raises(StorageError) as error:
        bench.disk.read_file("nothing")
    assert reason(error) == "absent"


def test_run_returns_and_raises_what_the_work_does(bench: Bench) -> None:
    async def scenario() -> None:
        assert await bench.disk.run(lambda: 42) == 42
        with pytest.raises(StorageError):
            await bench.disk.run(lambda: bench.disk.read_file("nothing"))

    bench.run(scenario())


def test_the_room_of_the_volume_is_told(bench: Bench) -> None:
    space = bench.disk.space()
    assert 0 < space.free_bytes <= space.total_bytes
