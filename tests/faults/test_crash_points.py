"""Crashes of a broker's logs at steps of their disk (`crash_points`): a sample here, all of them and every plant by command."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from oncelog_runtime.adapters.files.os_disk import OsDisk
from tests.contracts.conftest import RealRunner
from tests.faults.crash_points import Run, found_bug, recorded, sweep
from tests.faults.file_journal import Crash, Journal, build, recording
from tests.faults.planted_disk_bugs import PLANTED
from tests.faults.scripted_logs import turn_bit

EVERY = 23
"""A prime number, so that the sample is not in step with what a log repeats."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return recorded(tmp_path_factory.mktemp("crashes") / "run")


def test_a_crash_at_any_step_keeps_what_was_acknowledged(run: Run, tmp_path: Path) -> None:
    result = sweep(run, tmp_path, range(0, len(run.journal.ops) + 1, EVERY))
    assert not result.wrong
    assert result.opened > 100, "the crashes leave different logs"


def test_the_script_does_everything_that_is_done_to_a_log(run: Run) -> None:
    kinds = Counter(op.kind for op in run.journal.ops)
    assert {"create", "mkdir", "write", "truncate", "sync", "sync folder", "rename", "remove"} == set(kinds)
    touched = " ".join(f"{op.path} {op.to}" for op in run.journal.ops)
    for name in (
        *(".snapshot", ".index", ".txnindex", "leader-epochs", "recovery-point", "clean-shutdown", "partition.json"),
        *("custody.json", "directory.json", "seal.json", "reached-epoch", "compaction-point"),
        *(".swap", ".cleaned", ".compacted", ".quarantined-0"),
    ):
        assert name in touched
    assert len(run.journal.ops) > 1_000


@pytest.mark.parametrize("name", ["a sync that does nothing", "a recovery point that is raised before the data"])
def test_a_planted_bug_is_found(name: str, tmp_path: Path) -> None:
    assert found_bug(tmp_path, PLANTED[name](), every=3) is not None


# ---------------------------------------------------------------- what a crash leaves


def _journal(tmp_path: Path) -> Journal:
    """One synced file, one that is written and not synced, a rename and a removal that no folder's sync has followed."""
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    journal = Journal(root.resolve())

    async def work() -> None:
        disk = OsDisk(root)
        file = disk.open("synced", create=True)
        file.append([b"one"])
        await file.sync()
        other = disk.open("other", create=True)
        await disk.sync_dir("")
        other.append([b"x" * 2_000])
        file.append([b"two"])
        disk.rename("synced", "renamed")
        disk.remove("other")
        await disk.write_atomic("small", b"text")
        disk.close()

    with recording(journal):
        RealRunner().run(work())
    return journal


def _step(journal: Journal, kind: str, path: str) -> int:
    return next(number for number, op in enumerate(journal.ops, 1) if op.kind == kind and op.path == path)


def _left(journal: Journal, count: int, how: Crash) -> dict[str, bytes | None]:
    left = journal.crash(count, how, Random(1))
    return {path: data for path, data in left.items() if path not in (".lock", "small.tmp", "small")}


def test_a_kill_loses_nothing_and_a_power_cut_what_was_not_synced(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    count = _step(journal, "remove", "other")
    assert _left(journal, count, Crash.KILL) == {"renamed": b"onetwo"}
    assert _left(journal, count, Crash.LOST) == {"synced": b"one", "other": b""}
    assert _left(journal, count, Crash.NAMES) == {"renamed": b"one"}


def test_a_write_may_be_half_done(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    count = _step(journal, "write", "other") - 1
    assert _left(journal, count, Crash.HALF)["other"] == b"x" * 1_000


def test_a_small_file_is_there_whole_or_as_before(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    contents = {
        journal.crash(count, how, Random(count)).get("small") for count in range(len(journal.ops) + 1) for how in Crash
    }
    assert contents == {None, b"text"}


def test_the_whole_run_is_the_folder_itself(run: Run, tmp_path: Path) -> None:
    left = run.journal.crash(len(run.journal.ops), Crash.KILL, Random(1))
    root = run.journal.root
    assert left == {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in root.rglob("*")
    }
    build(tmp_path / "again", left)
    assert sorted(path.name for path in (tmp_path / "again").rglob("*")) == sorted(
        path.name for path in root.rglob("*")
    )


def test_a_turned_bit_is_a_step_of_the_disk(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    disk = OsDisk(root)
    disk.open("a", create=True).append([b"abc"])
    turn_bit(disk, "a", 1)
    assert disk.read_file("a") == b"acc"
    disk.close()
