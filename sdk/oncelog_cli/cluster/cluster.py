"""`oncelog cluster ...`: whether all is well, and who is there."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any, Final

from oncelog.errors import OncelogError
from oncelog_cli.terminal.output import Printer, table
from oncelog_cli.terminal.parsing import Commands, add_watch
from oncelog_cli.terminal.session import watch, with_client

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import ClusterDescription
    from oncelog.client.client import Client

_BROKER_COLUMNS: Final = ("broker", "address", "rack", "controller", "leads", "replicas")
_COORDINATOR_COLUMNS: Final = ("coordinator", "transaction_shards", "group_shards")
_SHOWN_MAX: Final = 10


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("cluster", "the state of the cluster")
    health = noun.verb(
        "health",
        _health,
        "what is wrong with the cluster, if anything",
        ("oncelog cluster health", "oncelog cluster health --watch --exit-when-healthy --timeout-ms 120000"),
        "Exit code 0: every partition has a leader and all its replicas in sync, every coordinator shard has an owner\n"
        "that serves it, and there are a controller and a service for producer ids. 1: some of that is missing,\n"
        "or nobody answers.",
    )
    add_watch(health)
    health.add_argument(
        "--exit-when-healthy", action="store_true", help="wait for health, at most --timeout-ms, then exit 0"
    )
    info = noun.verb("info", _info, "brokers, coordinators and the controller", ("oncelog cluster info",))
    add_watch(info)


async def _look(client: Client) -> dict[str, Any]:
    try:
        health = await client.admin.cluster_health()
    except OncelogError as error:
        return {"healthy": False, "problems": [str(error)]}
    return {"healthy": health.healthy, **dataclasses.asdict(health)}


def _health(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        import asyncio
        import time

        shown: dict[str, Any] | None = None
        give_up_at = time.monotonic() + args.timeout_ms / 1000
        while True:
            health = await _look(client)
            if health != shown:
                _show(health, printer)
                shown = health
            if health["healthy"] if args.exit_when_healthy else not args.watch:
                return 0 if health["healthy"] else 1
            if args.exit_when_healthy and time.monotonic() >= give_up_at:
                return 1
            await asyncio.sleep(min(args.interval_s, 0.5) if args.exit_when_healthy else args.interval_s)

    return with_client(args, run, connect=False, lasting=args.watch and not args.exit_when_healthy)


def _show(health: dict[str, Any], printer: Printer) -> None:
    if not printer.is_text:
        printer.data(health)
        return
    printer.text(_sentence(health))
    for what in ("leaderless", "under_min_isr", "under_replicated"):
        found = health.get(what, ())
        names = [f"{topic}/{partition}" for topic, partition in found[:_SHOWN_MAX]]
        if names:
            more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
            printer.text(f"  {what.replace('_', '-')}: {', '.join(names)}{more}")
    for shard, error in health.get("troubled_shards", ())[:_SHOWN_MAX]:
        printer.text(f"  shard {shard} is not served: {error}")


def _sentence(health: dict[str, Any]) -> str:
    if not health["healthy"]:
        return "unhealthy: " + "; ".join(health["problems"])
    return (
        f"healthy: cluster {health['cluster_id']}, {len(health['brokers'])} brokers, controller {health['controller']}"
    )


def _info(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        await watch(args, client.admin.describe_cluster, lambda found: _show_info(found, printer))
        return 0

    return with_client(args, run)


def _show_info(cluster: ClusterDescription, printer: Printer) -> None:
    found = dataclasses.asdict(cluster)
    if not printer.is_text:
        printer.data(found)
        return
    printer.text(f"CLUSTER  {found['cluster_id']}\n")
    printer.text(table(found["brokers"], _BROKER_COLUMNS))
    counts = f"{found['transaction_shards']} transaction shards, {found['group_shards']} group shards"
    printer.text(f"\n{table(found['coordinators'], _COORDINATOR_COLUMNS)}\n({counts})")
    printer.text(f"\nproducer id services: {', '.join(found['allocators']) or 'none'}")
    printer.text(f"topics: {found['topics']}, partitions: {found['partitions']}")
