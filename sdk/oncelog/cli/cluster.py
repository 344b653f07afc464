"""`oncelog cluster ...`"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
from typing import Any, Final

from oncelog.cli.output import Printer
from oncelog.cli.session import with_client
from oncelog.errors import OncelogError

_INTERVAL_S: Final = 0.5


def run(args: argparse.Namespace, printer: Printer) -> int:
    """Exit code 0: healthy. 1: not healthy, or nobody answers."""
    return with_client(args, lambda client: _health(client, args, printer), connect=False)


async def _look(client: Any) -> dict[str, Any]:
    try:
        health = await client.admin.cluster_health()
    except OncelogError as error:
        return {"healthy": False, "problems": [str(error)]}
    return {"healthy": health.healthy, **dataclasses.asdict(health)}


async def _health(client: Any, args: argparse.Namespace, printer: Printer) -> int:
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
