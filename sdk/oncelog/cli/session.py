"""One client for the time of one command."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from oncelog.client.client import Client

T = TypeVar("T")


def with_client(args: argparse.Namespace, work: Callable[[Client], Awaitable[T]], *, connect: bool = True) -> T:
    """Runs `work(client)` and closes the client. Every call inside gives up after `--timeout-ms`.

    `connect` False: the cluster may be down; `work` finds out by itself.
    """

    async def session() -> T:
        client = Client(args.bootstrap_servers, client_id="oncelog-cli", default_api_timeout_ms=args.timeout_ms)
        try:
            if connect:
                await client.start()
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(session())
