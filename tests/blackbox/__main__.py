"""`make torture MINUTES=20` = `python -m tests.blackbox --minutes 20`: see docs/internals/torture.md.

Exit status: 0 passed, 1 an anomaly or a run that broke, 2 the machine lacks something.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from oncelog.errors import OncelogError
from tests.blackbox import host
from tests.blackbox.cluster import BlackBox
from tests.blackbox.foreign_ground import ForeignGround, parsed_fault
from tests.blackbox.hunt import hunt, score
from tests.blackbox.own_ground import OwnGround, usable
from tests.blackbox.plan import KINDS
from tests.blackbox.plants import HUNTED
from tests.blackbox.report import Report
from tests.blackbox.torture import Torture

_ROUND_S = 75.0
_HUNT_ROUND_S = 40.0
"""A hunt ends with the round that found the plant: short ones end early."""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.blackbox", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="of load, in rounds of 75 s or less")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--clients", type=int, default=6, help="client processes; their roles are given in turn")
    parser.add_argument("--faults", default="all", help="kinds of faults between commas, or all, or none")
    parser.add_argument(
        "--one-by-one", action="store_true", help="a round for each kind of fault, with that kind alone"
    )
    parser.add_argument(
        "--plant",
        default="",
        help="a rule that is taken out of every service (tests/blackbox/plants.py); several with --hunt",
    )
    parser.add_argument(
        "--hunt", action="store_true", help="plant each bug of HUNTED in turn, and tell which are found"
    )
    parser.add_argument("--tries", type=int, default=1, help="of --hunt: other seeds for a plant that was not found")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--servers", default="", help="a cluster that is there already: HOST:PORT, ...")
    parser.add_argument("--fault", action="append", default=[], metavar="'BEGIN ::: END'", help="with --servers")
    parser.add_argument("--fault-s", type=float, default=8.0, help="how long each of these lasts")
    parser.add_argument("--save", type=Path, help="also write the report as JSON into this file")
    parser.add_argument(
        "--keep", action="store_true", help="leave logs and disks in their folder; --clean removes them"
    )
    parser.add_argument(
        "--reduced", action="store_true", help="without namespaces and mounts: kills, freezes, clocks, rot"
    )
    parser.add_argument("--clean", action="store_true", help="only remove what an earlier run left behind")
    return parser.parse_args(words)


def chosen_faults(text: str) -> list[str]:
    """Kinds by name. Raises `HarnessError`."""
    names = [] if text == "none" else list(KINDS) if text == "all" else text.split(",")
    if unknown := [name for name in names if name not in KINDS]:
        raise host.HarnessError(f"there is no fault {unknown[0]}; there are {', '.join(KINDS)}")
    return names


def tell(text: str) -> None:
    """Says what happens; the report alone goes to standard output."""
    print(text, file=sys.stderr, flush=True)


def torture(args: argparse.Namespace, plant: str, faults: str, seed: int, *, until_found: bool = False) -> Report:
    """A whole run on a cluster of its own. `until_found`: it may end with the first round that shows an anomaly."""
    box = BlackBox(brokers=args.brokers, clients=args.clients, is_real=not args.reduced, plant=plant)
    allowed = chosen_faults(faults)
    rounds = max(1, round(args.minutes * 60 / (_HUNT_ROUND_S if until_found else _ROUND_S)))
    if args.one_by_one:
        rounds = max(1, len(usable(box, allowed)))
    version = ".".join(map(str, box.etcd.version))
    setting = {"seed": seed, "minutes": args.minutes, "brokers": args.brokers, "clients": args.clients}
    setting |= {"plant": plant or "none", "faults": " ".join(usable(box, allowed)) or "none", "etcd": version}
    setting["busy"] = f"{os.getloadavg()[0]:.0f} processes wanted one of {os.cpu_count()} cores at the beginning"
    if not box.etcd.is_safe:
        setting["note"] = "this etcd can lose committed entries in a crash: what is found may be its fault"
    report = Report(setting)
    try:
        box.start()
        quiet = rounds > 3 and not until_found
        ground = OwnGround(box, seed, allowed, quiet_rounds=quiet, one_by_one=args.one_by_one)
        return Torture(ground, report, tell, until_found).run(rounds, args.minutes * 60 / rounds)
    except host.NotHealthy as error:
        report.broken = f"it did not start: {error}"
        return report
    finally:
        box.stop()


def torture_elsewhere(args: argparse.Namespace) -> Report:
    """A run on a cluster that is there already."""
    commands = [parsed_fault(text) for text in args.fault]
    rounds = max(1, round(args.minutes * 60 / _ROUND_S))
    ground = ForeignGround(args.servers, args.seed, commands, args.fault_s, args.clients)
    setting = {
        "seed": args.seed,
        "minutes": args.minutes,
        "servers": args.servers,
        "faults": " | ".join(args.fault) or "none",
    }
    try:
        return Torture(ground, Report(setting), tell).run(rounds, args.minutes * 60 / rounds)
    finally:
        ground.heal_all()
        ground.remove_files()


def hunted(args: argparse.Namespace) -> int:
    """The exit status of `--hunt`: 0 when fifteen of eighteen are found, or as many in proportion."""

    def one(plant: str, faults: str, seed: int) -> Report:
        host.clean()
        return torture(args, plant, faults, seed, until_found=True)

    names = args.plant.split(",") if args.plant else list(HUNTED)
    plants = {name: HUNTED.get(name, args.faults) for name in names}
    found = hunt(plants, one, args.seed, args.tries, tell)
    print(score(found))
    return 0 if sum(bool(catch.shown) for catch in found) * 18 >= 15 * len(found) else 1


def run(args: argparse.Namespace) -> int:
    """The exit status."""
    if args.servers:
        return told(args, torture_elsewhere(args))
    with host.locked():
        for line in host.clean():
            tell(line)
        if args.clean:
            return 0
        if not args.reduced and (lacking := host.missing()):
            tell("\n".join([*lacking, "run what is left with --reduced"]))
            return 2
        try:
            if args.hunt:
                return hunted(args)
            report = torture(args, args.plant, args.faults, args.seed)
        finally:
            if not args.keep:
                host.clean()
    return told(args, report)


def told(args: argparse.Namespace, report: Report) -> int:
    """Prints the report; the exit status."""
    if args.save:
        args.save.write_text(report.json() + "\n")
    print(report.json() if args.format == "json" else report.page())
    return 0 if report.is_pass else 1


def interrupt(number: int, _frame: object) -> None:
    """The run ends here, is cleaned up, and reports what it has; a hunt has told what it found so far."""
    raise host.Interrupted(f"interrupted by {signal.Signals(number).name}")


def main() -> int:
    """See the module."""
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    try:
        return run(parsed(sys.argv[1:]))
    except (host.HarnessError, host.Interrupted, OncelogError) as error:
        tell(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
