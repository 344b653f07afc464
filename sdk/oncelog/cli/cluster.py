"""`oncelog cluster ...`"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, Final

from oncelog.cli.output import Printer
from oncelog.cli.parsing import Commands
from oncelog.cli.session import with_client
from oncelog.errors import OncelogError

_INTERVAL_S: Final = 0.5


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("cluster", "the state of the cluster")
    health = noun.verb("health", _run_health, "what is not as it should be", ("oncelog cluster health --watch",))
    health.add_argument("--watch", action="store_true", help="print again whenever it changes")
    health.add_argument("--exit-when-healthy", action="store_true", help="wait for health, then exit 0")


def _run_health(args: argparse.Namespace, printer: Printer) -> int:
    """Exit code 0: healthy. 1: not healthy, or nobody answers."""
    return with_client(args, lambda client: _health(client, args, printer), connect=False)


async def _look(client: Any) -> dict[str, Any]:
    try:
        health = await client.admin.cluster_health()
    except OncelogError as error:
        return {"healthy": False, "problems": [str(error)]}
    return {"healthy": health.healthy, **dataclasses.asdict(health)}


async def _health(client: Any, args: argparse.Namespace, printer: Printer) -> int:
    import asyncio

    shown: dict[str, Any] | None = None
    while True:
        health = await _look(client)
        if health != shown:
            printer.value(health, _sentence(health))
            shown = health
        done = health["healthy"] if args.exit_when_healthy else not args.watch
        if done:
            return 0 if health["healthy"] else 1
        await asyncio.sleep(_INTERVAL_S)


def _sentence(health: dict[str, Any]) -> str:
    if not health["healthy"]:
        return "unhealthy: " + "; ".join(health["problems"])
    return (
        f"healthy: cluster {health['cluster_id']}, {len(health['brokers'])} brokers, controller {health['controller']}"
    )
