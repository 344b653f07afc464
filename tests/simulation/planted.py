"""`python -m tests.simulation.planted [--seeds N] [--hole N]`: takes each rule out and shows what catches it.

Each planted bug is given to the conformance scripts of its hole, which must pass without it and fail with it, and to the
random simulation, at most `--seeds` seeds of it. Exit status 1 when a plant is caught by nothing, or when something
already fails without any plant.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.script import run_script
from tests.simulation.planted_bugs import Plant, all_plants


@dataclass
class Catch:
    """What caught a plant. `healthy` False: a script fails without it, so its failure proves nothing."""

    plant: Plant
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


def fails(path: str) -> str:
    """How a script fails now; empty when it passes."""
    try:
        run_script(script_of(path))
    except BaseException as error:  # pytest's own failures are no `Exception`
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return type(error).__name__
    return ""


def try_scripts(plant: Plant) -> Catch:
    """The scripted half."""
    catch = Catch(plant)
    for path in plant.scripts:
        if fails(path):
            catch.healthy = False
            continue
        with plant.planted():
            if fails(path):
                catch.scripts.append(path.partition("::")[2])
    return catch


def try_seeds(catch: Catch, seeds: Iterable[int]) -> None:
    """The random half: the first seed whose verdict has a violation."""
    scenario = importlib.import_module("tests.simulation.scenario")
    for seed in seeds:
        with catch.plant.planted():
            verdict = scenario.run_seed(seed)
        catch.seeds += 1
        if verdict.violations:
            catch.check = verdict.violations[0].partition(":")[0]
            return


def report(catches: list[Catch]) -> None:
    """The table."""
    print(f"{'hole':>4}  {'caught by script':62}  {'by random simulation':30}  rule removed")
    for catch in catches:
        script = catch.scripts[0] if catch.scripts else "-" if catch.healthy else "FAILS WITHOUT THE PLANT"
        more = f" (+{len(catch.scripts) - 1})" if len(catch.scripts) > 1 else ""
        name = script.removeprefix(f"test_hole_{catch.plant.hole:02}_")
        found = f"{catch.check} after {catch.seeds}" if catch.check else f"not in {catch.seeds}" if catch.seeds else "-"
        mark = "" if catch.is_caught else "   <-- NOT CAUGHT"
        print(f"{catch.plant.hole:>4}  {name[: 62 - len(more)] + more:62}  {found:30}  {catch.plant.rule}{mark}")


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make planted", description=__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="random seeds tried for each plant; 0 = scripts only")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--hole", type=int, action="append", help="only this number (may be repeated)")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    catches: list[Catch] = []
    for plant in all_plants():
        if options.hole and plant.hole not in options.hole:
            continue
        catch = try_scripts(plant)
        if options.seeds:
            try_seeds(catch, range(options.first_seed, options.first_seed + options.seeds))
        catches.append(catch)
        print(f"hole {plant.hole}: {'caught' if catch.is_caught else 'NOT CAUGHT'}", file=sys.stderr, flush=True)
    report(catches)
    return 0 if catches and all(catch.is_caught for catch in catches) else 1


if __name__ == "__main__":
    sys.exit(main())
