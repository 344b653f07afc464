"""Whole clusters under faults: a few seeds at every push, and all that ever failed (`make sim` runs hundreds).

Also the simulation's own promises: one seed is one run in whatever process, and every kind of fault really happens.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.run import NEEDED
from tests.simulation.scenario import Verdict, run_seed

_HERE = Path(__file__).parent
_SEEDS = range(1, 13)
_DETERMINISM_SEED = 4
_verdicts: dict[int, Verdict] = {}


def remembered() -> list[int]:
    """The seeds in `seeds.txt`."""
    lines = (_HERE / "seeds.txt").read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("seed", [*_SEEDS, *remembered()])
def test_a_cluster_keeps_its_promises(seed: int) -> None:
    verdict = _verdicts[seed] = run_seed(seed)
    assert not verdict.violations, str(verdict)
    assert verdict.sights > 100, "the invariants saw something"


def test_something_happened_in_these_runs() -> None:
    """Runs after the seeds; a run with no successes is not a pass."""
    operations: Counter[str] = Counter()
    injected: Counter[str] = Counter()
    for seed in _SEEDS:
        verdict = _verdicts.get(seed) or run_seed(seed)
        operations.update(verdict.operations)
        injected.update(verdict.injected)
    assert not [name for name in NEEDED if not operations[name]], operations
    for fault in ("lose_reply", "duplicate_request", "replay_request", "lease_loss_every_ms", "crash_every_ms"):
        assert injected[fault], f"{fault} never happened: {injected}"


def test_one_seed_is_one_run_in_any_process() -> None:
    """Two processes with different hash seeds: the digest mixes every step, message, sync and etcd write."""
    code = (
        f"from tests.simulation.scenario import run_seed; v = run_seed({_DETERMINISM_SEED}); print(v.digest, v.steps)"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(_HERE.parents[1])},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "77")
    ]
    one, other = (process.communicate(timeout=120)[0].strip() for process in runs)
    assert one
    assert one == other
