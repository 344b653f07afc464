"""`oncelog node ...`: draining nodes before they are stopped, and looking at them.

Exit codes: 0 = safe to stop (drained, skipped, nothing to do), or the question was answered; 1 = an error, named on
standard error; 2 = wrong flags; 3 = not in time (the drain, or the moves, go on), with a line that says what was left.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from oncelog_cli.terminal.argument_types import id_of
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands, Noun, Parser
from oncelog_cli.terminal.progress import Progress, seconds
from oncelog_cli.terminal.session import with_client

if TYPE_CHECKING:
    from oncelog.client.admin.operations_admin import BrokerLoad
    from oncelog.client.client import Client

NOT_IN_TIME: Final = 3
_COLUMNS: Final = ("kind", "node", "state", "leaderships", "needed", "shards", "in_sync", "controller", "reason")
_LOADS: Final = ("broker", "registered", "decommissioned", "replicas", "leaderships", "moving")
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
    drain.add_argument("--timeout", type=seconds, default=60.0, metavar="SPAN", help="how long to wait (default 60s)")
    undrain = noun.verb(
        "undrain", _run_undrain, "end a drain: the node takes work again", ("oncelog node undrain --node 2",), _WHICH
    )
    _add_node(undrain, required=True)
    status = noun.verb(
        "status",
        _run_status,
        "what each node does that would be missing without it",
        ("oncelog node status", "oncelog node status --node 2"),
    )
    _add_node(status, required=False)
    _add_loads(noun)


def _add_loads(noun: Noun) -> None:
    out = noun.verb(
        "decommission",
        _run_decommission,
        "take brokers out of use: all their replicas move away, and then they may be stopped for good",
        ("oncelog node decommission 3", "oncelog node decommission 3 4 --timeout 0"),
        "Returns when the brokers hold nothing. Exit code 3: not in time; the moves go on, so run it again.",
    )
    out.add_argument("broker", type=id_of, nargs="+", help="ids of brokers")
    wait = "how long to wait (default 600s; 0 = not at all)"
    out.add_argument("--timeout", type=seconds, default=600.0, metavar="SPAN", help=wait)
    out.add_argument(
        "--missing-ok", action="store_true", help="do not fail for brokers that are not registered (any more)"
    )
    back = noun.verb("recommission", _run_recommission, "brokers take part again", ("oncelog node recommission 3",))
    back.add_argument("broker", type=id_of, nargs="+", help="ids of brokers")
    noun.verb("loads", _run_loads, "replicas and leaderships of each broker", ("oncelog node loads",))


def _add_node(parser: Parser, *, required: bool) -> None:
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("--node", type=id_of, metavar="ID", help="a broker, by its id")
    which.add_argument("--coordinator", metavar="HOST:PORT", help="a coordinator, by its address")
    which.add_argument("--self", dest="myself", action="store_true", help="the service of this environment")


def _run_drain(args: argparse.Namespace, printer: Printer) -> int:
    from oncelog_cli.cluster import node_drain

    with contextlib.closing(Progress(printer.is_text)) as progress:
        row = node_drain.run(args, lambda node: node_drain.drain(node, args.timeout, progress.say))
    return _tell(row, printer)


def _tell(row: dict[str, object], printer: Printer) -> int:
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
    from oncelog_cli.cluster import node_drain

    row = node_drain.run(args, node_drain.undrain)
    printer.value(row, f"{row['kind']} {row['node']}: {row['state']}")
    return 0


def _run_status(args: argparse.Namespace, printer: Printer) -> int:
    from oncelog_cli.cluster import node_drain

    if args.node is None and args.coordinator is None and not args.myself:
        printer.rows(node_drain.run_on_all(args), _COLUMNS)
    else:
        printer.rows([node_drain.run(args, node_drain.status)], _COLUMNS)
    return 0


def _rows(loads: Sequence[BrokerLoad]) -> list[dict[str, object]]:
    import dataclasses

    return [{"broker": load.broker_id, **dataclasses.asdict(load)} for load in loads]


def _run_loads(args: argparse.Namespace, printer: Printer) -> int:
    printer.rows(_rows(with_client(args, lambda client: client.admin.broker_loads())), _LOADS)
    return 0


def _run_recommission(args: argparse.Namespace, printer: Printer) -> int:
    printer.rows(_rows(with_client(args, lambda client: client.admin.recommission(args.broker))), _LOADS)
    return 0


def _run_decommission(args: argparse.Namespace, printer: Printer) -> int:
    import asyncio
    import time

    progress = Progress(printer.is_text)

    async def work(client: Client) -> list[BrokerLoad]:
        deadline = time.monotonic() + args.timeout
        brokers = args.broker
        if args.missing_ok:
            known = {load.broker_id for load in await client.admin.broker_loads()}
            brokers = [broker for broker in brokers if broker in known]
        loads = list(await client.admin.decommission(brokers)) if brokers else []
        while not _empty(loads, args.broker) and time.monotonic() < deadline:
            progress.say(
                f"{sum(load.replicas for load in loads if load.broker_id in args.broker)} replicas left to move"
            )
            await asyncio.sleep(min(1.0, max(0.0, deadline - time.monotonic())))
            loads = await client.admin.broker_loads()
        return list(loads)

    with contextlib.closing(progress):
        loads = with_client(args, work, lasting=True)
    printer.rows(_rows([load for load in loads if load.broker_id in args.broker]), _LOADS)
    return 0 if _empty(loads, args.broker) else NOT_IN_TIME


def _empty(loads: Sequence[BrokerLoad], brokers: list[int]) -> bool:
    return not any((load.replicas or load.moving) and load.broker_id in brokers for load in loads)
