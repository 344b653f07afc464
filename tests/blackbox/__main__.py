"""`make torture MINUTES=20` = `python -m tests.blackbox --minutes 20`: see docs/internals/torture.md.

Exit status: 0 passed, 1 an anomaly or a run that broke, 2 the machine lacks something.
"""

from __future__ import annotations

import argparse
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


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.blackbox", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="of load, in rounds of 75 s or less")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--clients", type=int, default=4, help="client processes; their roles are given in turn")
    parser.add_argument("--faults", default="all", help="kinds of faults between commas, or all, or none")
    parser.add_argument(
        "--plant", default="", help="a rule that is taken out of every service (tests/blackbox/plants.py)"
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


def torture(args: argparse.Namespace, plant: str, faults: str, seed: int) -> Report:
    """A whole run on a cluster of its own."""
    box = BlackBox(brokers=args.brokers, clients=args.clients, is_real=not args.reduced, plant=plant)
    allowed = chosen_faults(faults)
    rounds = max(1, round(args.minutes * 60 / _ROUND_S))
    version = ".".join(map(str, box.etcd.version))
    setting = {"seed": seed, "minutes": args.minutes, "brokers": args.brokers, "clients": args.clients}
    setting |= {"plant": plant or "none", "faults": " ".join(usable(box, allowed)) or "none", "etcd": version}
    if not box.etcd.is_safe:
        setting["note"] = "this etcd can lose committed entries in a crash: what is found may be its fault"
    report = Report(setting)
    try:
        box.start()
        ground = OwnGround(box, seed, allowed, quiet_rounds=rounds > 3)
        return Torture(ground, report, tell).run(rounds, args.minutes * 60 / rounds)
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
    """The exit status of `--hunt`: 0 when ten of twelve are found, or as many in proportion."""

    def one(plant: str, faults: str, seed: int) -> Report:
        host.clean()
        return torture(args, plant, faults, seed)

    plants = {args.plant: HUNTED.get(args.plant, args.faults)} if args.plant else HUNTED
    found = hunt(plants, one, args.seed, args.tries, tell)
    print(score(found))
    return 0 if sum(bool(catch.shown) for catch in found) * 12 >= 10 * len(found) else 1


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


def main() -> int:
    """See the module."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(parsed(sys.argv[1:]))
    except (host.HarnessError, OncelogError) as error:
        tell(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
