"""The contract of `oncelog_runtime.ports.Helpers`, for real processes and for simulated ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from oncelog_runtime.adapters.files.os_disk import OsDisk
from oncelog_runtime.adapters.helper_processes import HelperProcesses
from oncelog_runtime.ports import Disk, Helper, HelperGoneError, Helpers
from oncelog_runtime.sim.helpers import SimHelpers
from tests.contracts import helper_works
from tests.contracts.conftest import RealRunner, SimRunner


class Bench:
    """A disk, its helpers and the loop to use them on."""

    def __init__(self, disk: Disk, helpers: Helpers, runner: RealRunner | SimRunner) -> None:
        self.disk = disk
        self.helpers = helpers
        self.run = runner.run


@pytest.fixture(params=["processes", "sim"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "sim":
        sim = SimRunner()
        disk = sim.world.node("n").disk
        yield Bench(disk, SimHelpers(disk, Random(1)), sim)
        sim.world.close()
        return
    real = OsDisk(tmp_path / "root")
    yield Bench(real, HelperProcesses(tmp_path / "root"), RealRunner())
    real.close()


async def talk(helper: Helper) -> None:
    """Sends more than a dead end takes."""
    for _ in range(3):
        await helper.send(b"?")


def test_messages_go_both_ways_whole_and_in_order(bench: Bench) -> None:
    async def test() -> None:
        helper = await bench.helpers.start(helper_works.echo)
        messages = [b"one", b"\x00" * 3_000_000, b"\n", b"last"]
        for message in messages:
            await helper.send(message)
            assert await helper.receive() == message
        helper.kill()

    bench.run(test())


def test_a_helper_works_on_the_same_disk(bench: Bench) -> None:
    async def test() -> None:
        bench.disk.open("given", create=True).append([b"content"])
        helper = await bench.helpers.start(helper_works.copy)
        await helper.send(b"given")
        assert bench.disk.read_file((await helper.receive()).decode()) == b"content"
        helper.kill()

    bench.run(test())


def test_no_two_helpers_have_the_same_name(bench: Bench) -> None:
    async def test() -> None:
        names = []
        for _ in range(2):
            helper = await bench.helpers.start(helper_works.echo)
            await helper.send(b"")
            names.append(await helper.receive())
            helper.kill()
        assert len({*names, b""}) == 3

    bench.run(test())


def test_a_helper_that_came_to_its_end_is_gone_after_its_last_message(bench: Bench) -> None:
    async def test() -> None:
        helper = await bench.helpers.start(helper_works.leave)
        assert await helper.receive() == b"done"
        with pytest.raises(HelperGoneError):
            await helper.receive()
        helper.kill()

    bench.run(test())


def test_who_talks_with_a_killed_helper_is_told(bench: Bench) -> None:
    async def test() -> None:
        helper = await bench.helpers.start(helper_works.sleep)
        assert await helper.receive() == b"here"
        waiting = asyncio.ensure_future(helper.receive())
        await asyncio.sleep(0.01)
        helper.kill()
        helper.kill()
        with pytest.raises(HelperGoneError):
            await waiting
        with pytest.raises(HelperGoneError):
            await helper.receive()
        with pytest.raises(HelperGoneError):
            await talk(helper)

    bench.run(test())
