"""A helper is a process of the lowest priority that inherits nothing, and that ends with its parent, however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from oncelog_runtime.adapters.helper_processes import HelperProcess, HelperProcesses
from oncelog_runtime.ports import HelperGoneError
from tests.contracts import helper_works

PARENT = """
import asyncio, sys, time
from oncelog_runtime.adapters.helper_processes import HelperProcesses
from tests.contracts.helper_works import tell

async def main():
    helper = await HelperProcesses(sys.argv[1]).start(tell)
    print((await helper.receive()).decode(), flush=True)
    time.sleep(60)

asyncio.run(main())
"""


def run(tmp_path: Path, test: Callable[[HelperProcesses], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(HelperProcesses(tmp_path)), 60))  # type: ignore[arg-type]


def is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def is_reaped(helper: HelperProcess) -> bool:
    for _ in range(1_000):
        if helper.process.returncode is not None:
            return True
        await asyncio.sleep(0.01)
    return False


def test_it_has_the_lowest_priority_and_nothing_of_its_parent(tmp_path: Path) -> None:
    async def test(helpers: HelperProcesses) -> None:
        helper = await helpers.start(helper_works.tell)
        pid, priority, *names = (await helper.receive()).decode().split()
        assert (int(pid), int(priority)) == (helper.process.pid, 19)
        assert str(tmp_path / "file") not in names
        assert any(name.startswith("socket:") for name in names)
        helper.kill()
        assert await is_reaped(helper)

    with open(tmp_path / "file", "wb") as file:
        os.set_inheritable(file.fileno(), True)
        run(tmp_path, test)


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    root = Path(__file__).parents[4]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline().split()[0])
        assert is_there(pid)
        parent.kill()

    for _ in range(2_000):
        if not is_there(pid):
            return
        time.sleep(0.01)
    pytest.fail("the helper lives on")


@pytest.mark.parametrize("frozen", [False, True])
def test_a_killed_helper_is_gone_and_waited_for_also_when_it_is_frozen(tmp_path: Path, frozen: bool) -> None:
    async def test(helpers: HelperProcesses) -> None:
        helper = await helpers.start(helper_works.sleep)
        assert await helper.receive() == b"here"
        if frozen:
            os.kill(helper.process.pid, signal.SIGSTOP)
        helper.kill()
        assert await is_reaped(helper)
        assert not is_there(helper.process.pid)

    run(tmp_path, test)


def test_the_death_of_a_helper_is_told(tmp_path: Path) -> None:
    async def test(helpers: HelperProcesses) -> None:
        helper = await helpers.start(helper_works.end)
        await helper.send(b"now")
        with pytest.raises(HelperGoneError):
            await helper.receive()
        helper.kill()
        assert await is_reaped(helper)

    run(tmp_path, test)


def test_a_process_that_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(helpers: HelperProcesses) -> None:
        with pytest.raises(HelperGoneError, match="No such file"):
            await helpers.start(helper_works.echo)

    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    run(tmp_path, test)
