"""`make planted` = `python -m tests.simulation.planted [--seeds N] [--plant NAME]`: takes rules out, and shows what notices.

Each plant is given to its scripts, which must pass without it, and to the random simulation, at most `--seeds` seeds of
it, up to the first one that has a violation with the plant and none without. Exit status 1 when a plant is caught by
nothing, or when a script of it already fails without any plant.

Rule: a seed that fails without a plant proves nothing about any plant. It is run once for all of them (`_CleanSeeds`).
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.planted_bugs import Plant, all_plants, plant_named
from tests.simulation.scenario import run_seed

_TESTS = Path(__file__).parents[1]
_FAILED = re.compile(r"^(?:FAILED|ERROR) tests/(\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)
_KINDS = ("hole", "pair", "rule")


@dataclass
class Catch:
    """What caught a plant. `healthy` False: a script fails without it, so its failure proves nothing."""

    name: str
    rule: str
    kind: str
    healthy: bool = True
    scripts: list[str] = field(default_factory=list)
    check: str = ""
    seeds: int = 0

    @property
    def is_caught(self) -> bool:
        """By a script or by a random seed."""
        return self.healthy and bool(self.scripts or self.check)


def failing(scripts: Sequence[str], plant: str = "") -> set[str]:
    """Which of these tests fail now, in a process of their own: with a plant, or without any."""
    if not scripts:
        return set()
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    command += ["-p", "tests.simulation.planted_plugin", *(f"tests/{script}" for script in scripts)]
    env = {**os.environ, "ONCELOG_PLANT": plant, "COLUMNS": "400"}
    ran = subprocess.run(command, cwd=_TESTS.parent, env=env, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"pytest could not run {scripts} with {plant or 'no plant'}: {ran.stdout}{ran.stderr}")
    return set(_FAILED.findall(ran.stdout)) & set(scripts)


def try_scripts(plant: Plant, unhealthy: set[str]) -> Catch:
    """The scripted half. `unhealthy`: scripts that fail without any plant."""
    catch = Catch(plant.name, plant.rule, plant.kind, healthy=not unhealthy & set(plant.scripts))
    found = failing(plant.scripts, plant.name)
    catch.scripts = [script for script in plant.scripts if script in found - unhealthy]
    return catch


class _CleanSeeds:
    """Whether a seed is clean without a plant; remembered in a folder, for all processes of this run."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def is_clean(self, seed: int) -> bool:
        """Runs it, unless that was done before."""
        for clean in (True, False):
            if (self._folder / f"{seed}-{clean}").exists():
                return clean
        clean = not run_seed(seed).violations
        (self._folder / f"{seed}-{clean}").touch()
        return clean


def try_seeds(plant: Plant, catch: Catch, seeds: Iterable[int], clean: _CleanSeeds) -> None:
    """The random half."""
    for seed in seeds:
        with plant.planted():
            verdict = run_seed(seed)
        catch.seeds += 1
        if verdict.violations and clean.is_clean(seed):
            catch.check = " ".join(verdict.violations[0].partition(":")[0].split()[:3])
            return


def try_all(name: str, seeds: range, unhealthy: set[str], folder: str) -> Catch:
    """Everything about one plant, in a process of its own."""
    logging.getLogger().addHandler(logging.NullHandler())  # what goes wrong here is the point
    plant = plant_named(name)
    catch = try_scripts(plant, unhealthy)
    try_seeds(plant, catch, seeds, _CleanSeeds(folder))
    return catch


def report(catches: list[Catch]) -> None:
    """The table, and its sums."""
    print(f"{'plant':28} {'caught by script':72} {'by random simulation':40} rule removed")
    for catch in catches:
        script = catch.scripts[0].rpartition("::")[2] if catch.scripts else "-"
        script = script if catch.healthy else "FAILS WITHOUT THE PLANT"
        more = f" (+{len(catch.scripts) - 1})" if len(catch.scripts) > 1 else ""
        mark = "" if catch.is_caught else "   <-- NOT CAUGHT"
        print(f"{catch.name:28} {script[: 72 - len(more)] + more:72} {_found(catch):40} {catch.rule}{mark}")
    for kind in _KINDS:
        these = [catch for catch in catches if catch.kind == kind]
        if these:
            print(f"{kind}s caught by random seeds: {sum(bool(c.check) for c in these)} of {len(these)};", end=" ")
            print(f"by scripts: {sum(bool(c.scripts) for c in these)} of {len(these)}")


def _found(catch: Catch) -> str:
    if catch.check:
        return f"{catch.check}, seeds needed: {catch.seeds}"
    return f"not in {catch.seeds} seeds" if catch.seeds else "-"


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make planted", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="random seeds tried for each plant; 0 = scripts only")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--plant", action="append", help="only this one (may be repeated), or all that begin so")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    plants = [p for p in all_plants() if not options.plant or p.name.startswith(tuple(options.plant))]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    catches: list[Catch] = []
    for catch in _run(plants, seeds, options.jobs):
        catches.append(catch)
        print(f"{catch.name}: {_found(catch)}, {len(catch.scripts)} scripts", file=sys.stderr, flush=True)
    report(catches)
    return 0 if catches and all(catch.is_caught for catch in catches) else 1


def _run(plants: list[Plant], seeds: range, jobs: int) -> Iterator[Catch]:
    unhealthy = failing(sorted({script for plant in plants for script in plant.scripts}))
    with tempfile.TemporaryDirectory() as folder:
        if jobs <= 1:
            yield from (try_all(plant.name, seeds, unhealthy, folder) for plant in plants)
            return
        names, n = [plant.name for plant in plants], len(plants)
        with ProcessPoolExecutor(jobs) as pool:
            yield from pool.map(try_all, names, [seeds] * n, [unhealthy] * n, [folder] * n)


if __name__ == "__main__":
    sys.exit(main())
