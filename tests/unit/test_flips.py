"""Turned bits in a broker's files (`tests/hostile/flips`): a sample; `python -m tests.hostile.flips --flips 500` turns many."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.crash_points import Run, recorded
from tests.hostile.flips import Flips, kind_of

FLIPS = 70


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return recorded(tmp_path_factory.mktemp("flips") / "run")


def test_every_flip_ends_as_it_must(run: Run, tmp_path: Path) -> None:
    flips = Flips(run, tmp_path, seed=1)
    flips.turn(FLIPS)
    assert not flips.report.wrong
    ends = sum((ends for ends in flips.report.ends.values()), Counter[str]())
    assert ends.total() == FLIPS
    assert {"unharmed", "rebuilt", "told"} <= set(ends)


def test_every_kind_of_file_is_hit(run: Run, tmp_path: Path) -> None:
    kinds = set(Flips(run, tmp_path, seed=1).kinds)
    assert {
        *("*.log", "*.index", "*.txnindex", "*.snapshot", "leader-epochs", "recovery-point", "reached-epoch"),
        *("*.log.cleaned", "*-*.compacted", "compaction-point", "*.log.swap", "*.log (set aside)"),
        *("directory.json", "custody.json", "partition.json", "clean-shutdown"),
    } <= kinds


def test_the_same_seed_turns_the_same_bits(run: Run, tmp_path: Path) -> None:
    first, second = (Flips(run, tmp_path / name, seed=5) for name in ("a", "b"))
    first.turn(10)
    second.turn(10)
    assert first.report == second.report


def test_kinds_are_names_without_offsets() -> None:
    assert kind_of(f"logs/a/{7:020d}.log.cleaned") == "*.log.cleaned"
    assert kind_of(f"logs/a.quarantined-0/{7:020d}.log") == "*.log (set aside)"
    assert kind_of("logs/directory.json") == "directory.json"
