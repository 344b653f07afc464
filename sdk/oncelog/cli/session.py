"""One client for the time of one command."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from oncelog.client.client import Client

T = TypeVar("T")


def with_client(args: argparse.Namespace, work: Callable[[Client], Awaitable[T]]) -> T:
    """Runs `work(client)` and closes the client. Every call inside gives up after `--timeout-ms`."""

    async def session() -> T:
        async with Client(
            args.bootstrap_servers, client_id="oncelog-cli", default_api_timeout_ms=args.timeout_ms
        ) as client:
            return await work(client)

    return asyncio.run(session())
