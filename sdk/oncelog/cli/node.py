"""`oncelog node ...`: draining nodes before they are stopped, and looking at them.

Exit codes: 0 = safe to stop (drained, skipped, nothing to do), or the question was answered; 1 = an error, named on
standard error; 2 = wrong flags; 3 = not drained in time (the drain goes on), with a line that says what was left.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from oncelog.cli.output import Printer
from oncelog.cli.parsing import Commands, Parser

NOT_IN_TIME: Final = 3
_COLUMNS: Final = ("kind", "node", "state", "leaderships", "needed", "shards", "in_sync", "controller", "reason")
_WHICH = """Which node: --node ID is a broker, --coordinator HOST:PORT a coordinator, --self the service whose environment
(ONCELOG_PARTITION_LEADER_*, ONCELOG_COORDINATOR_*, ONCELOG_PID_ALLOCATOR_*) this command finds itself in, as in a
container's preStop hook."""


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("node", "drain nodes before they are stopped, and look at them")
    drain = noun.verb(
        "drain",
        _run_drain,
        "hand over everything that only this node does, and return when it is safe to stop",
        ("oncelog node drain --node 2 --timeout 60", "oncelog node drain --self --timeout 60"),
        f"{_WHICH} Waits in line while another node of its kind drains. Exit code 3: not in time.",
    )
    _add_node(drain, required=True)
    drain.add_argument("--timeout", type=float, default=60.0, metavar="S", help="wait so many seconds (default 60)")
    undrain = noun.verb(
        "undrain", _run_undrain, "end a drain: the node takes work again", ("oncelog node undrain --node 2",), _WHICH
    )
    _add_node(undrain, required=True)
    status = noun.verb(
        "status",
        _run_status,
        "what each node would take with it",
        ("oncelog node status", "oncelog node status --node 2"),
    )
    _add_node(status, required=False)


def _add_node(parser: Parser, *, required: bool) -> None:
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("--node", type=int, metavar="ID", help="a broker, by its id")
    which.add_argument("--coordinator", metavar="HOST:PORT", help="a coordinator, by its address")
    which.add_argument("--self", dest="myself", action="store_true", help="the service of this environment")


def _run_drain(args: argparse.Namespace, printer: Printer) -> int:
    from oncelog.cli import draining

    row = draining.run(args, lambda node: draining.drain(node, args.timeout))
    return _tell(row, printer)


def _tell(row: dict[str, Any], printer: Printer) -> int:
    what = f"{row['kind']} {row['node']}"
    if row["state"] in ("drained", "nothing to do"):
        printer.value(row, f"{what}: {row['state']}, safe to stop")
        return 0
    if row["state"] == "skipped":
        printer.value(row, f"{what}: drain skipped, {row['reason']}")
        return 0
    printer.value(row, f"{what}: NOT DRAINED IN TIME, {row['state']}: {row['reason']}")
    return NOT_IN_TIME


def _run_undrain(args: argparse.Namespace, printer: Printer) -> int:
    from oncelog.cli import draining

    row = draining.run(args, draining.undrain)
    printer.value(row, f"{row['kind']} {row['node']}: {row['state']}")
    return 0


def _run_status(args: argparse.Namespace, printer: Printer) -> int:
    from oncelog.cli import draining

    if args.node is None and args.coordinator is None and not args.myself:
        printer.rows(draining.run_on_all(args), _COLUMNS)
    else:
        printer.rows([draining.run(args, draining.status)], _COLUMNS)
    return 0
