"""`make planted` = `python -m tests.simulation.planted [--seeds N] [--hole N]`: takes each rule out, and shows what catches it.

Each planted bug is given to the conformance scripts of its hole, which must pass without it and fail with it, and to the
random simulation, at most `--seeds` seeds of it. Exit status 1 when a plant is caught by nothing, or when a script of
it already fails without any plant.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.script import run_script
from tests.simulation.planted_bugs import Plant, all_plants


@dataclass
class Catch:
    """What caught a plant. `healthy` False: a script fails without it, so its failure proves nothing."""

    hole: int
    rule: str
    healthy: bool = True
    scripts: list[str] = field(default_factory=list)
    check: str = ""
    seeds: int = 0

    @property
    def is_caught(self) -> bool:
        """By a script or by a random seed."""
        return self.healthy and bool(self.scripts or self.check)


def script_of(path: str) -> Any:
    """The test of `module::test`."""
    module, _, name = path.partition("::")
    return getattr(importlib.import_module(f"tests.conformance.{module}"), name)


def fails(path: str) -> bool:
    """Whether a script fails now."""
    try:
        run_script(script_of(path))
    except BaseException as error:  # pytest's own failures are no `Exception`
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return True
    return False


def try_scripts(plant: Plant) -> Catch:
    """The scripted half."""
    catch = Catch(plant.hole, plant.rule)
    for path in plant.scripts:
        if fails(path):
            catch.healthy = False
            continue
        with plant.planted():
            if fails(path):
                catch.scripts.append(path.partition("::")[2])
    return catch


def try_seeds(plant: Plant, catch: Catch, seeds: Iterable[int]) -> None:
    """The random half: up to the first seed that has a violation with the plant, and none without it."""
    scenario = importlib.import_module("tests.simulation.scenario")
    for seed in seeds:
        with plant.planted():
            verdict = scenario.run_seed(seed)
        catch.seeds += 1
        if verdict.violations and not scenario.run_seed(seed).violations:
            catch.check = verdict.violations[0].partition(":")[0]
            return


def try_all(hole: int, seeds: range) -> Catch:
    """Everything about one plant, in a process of its own."""
    logging.getLogger().addHandler(logging.NullHandler())  # what goes wrong here is the point
    plant = next(plant for plant in all_plants() if plant.hole == hole)
    catch = try_scripts(plant)
    try_seeds(plant, catch, seeds)
    return catch


def report(catches: list[Catch]) -> None:
    """The table."""
    print(f"{'hole':>4}  {'caught by script':64}  {'by random simulation':36}  rule removed")
    for catch in catches:
        script = catch.scripts[0] if catch.scripts else "-" if catch.healthy else "FAILS WITHOUT THE PLANT"
        name = script.removeprefix(f"test_hole_{catch.hole:02}_")
        more = f" (+{len(catch.scripts) - 1})" if len(catch.scripts) > 1 else ""
        mark = "" if catch.is_caught else "   <-- NOT CAUGHT"
        print(f"{catch.hole:>4}  {name[: 64 - len(more)] + more:64}  {_found(catch):36}  {catch.rule}{mark}")


def _found(catch: Catch) -> str:
    if catch.check:
        return f"{catch.check}, seeds needed: {catch.seeds}"
    return f"not in {catch.seeds} seeds" if catch.seeds else "-"


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make planted", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="random seeds tried for each plant; 0 = scripts only")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--hole", type=int, action="append", help="only this number (may be repeated)")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    holes = [plant.hole for plant in all_plants() if not options.hole or plant.hole in options.hole]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    catches: list[Catch] = []
    for catch in _run(holes, seeds, options.jobs):
        catches.append(catch)
        print(f"hole {catch.hole}: {'caught' if catch.is_caught else 'NOT CAUGHT'}", file=sys.stderr, flush=True)
    report(catches)
    return 0 if catches and all(catch.is_caught for catch in catches) else 1


def _run(holes: list[int], seeds: range, jobs: int) -> Iterator[Catch]:
    if jobs <= 1:
        yield from (try_all(hole, seeds) for hole in holes)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(try_all, holes, [seeds] * len(holes))


if __name__ == "__main__":
    sys.exit(main())
