"""One client for the time of one command, and looking again with `--watch`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from oncelog.client.client import Client

T = TypeVar("T")


def with_client(args: argparse.Namespace, work: Callable[[Client], Awaitable[T]], *, connect: bool = True) -> T:
    """Runs `work(client)` and closes the client. Every call inside gives up after `--timeout-ms`.

    `connect` False: the cluster may be down; `work` finds out by itself.
    """
    import asyncio

    from oncelog.client.client import Client

    async def session() -> T:
        client = Client(
            args.bootstrap_servers,
            client_id="oncelog-cli",
            default_api_timeout_ms=args.timeout_ms,
            **tls_options(args),
        )
        try:
            if connect:
                await client.start()
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(session())


def tls_options(args: argparse.Namespace) -> dict[str, Any]:
    """TLS options of the client. A file alone means TLS."""
    files = {name: getattr(args, name) for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile")}
    protocol = args.security_protocol or ("SSL" if any(files.values()) else "PLAINTEXT")
    return {"security_protocol": protocol, **files, **identity_options(args)}


def identity_options(args: argparse.Namespace) -> dict[str, Any]:
    """Who the client is. What the environment holds as a secret itself is taken from there alone: flags can be read by all."""
    names = ("token_file", "username", "password_file")
    given = {name: value for name in names if (value := getattr(args, name, ""))}
    if "username" in given and "password_file" not in given and (password := os.environ.get("ONCELOG_PASSWORD")):
        given["password"] = password
    if not given and (token := os.environ.get("ONCELOG_TOKEN")):
        given["token"] = token
    return given


async def watch(args: argparse.Namespace, look: Callable[[], Awaitable[T]], show: Callable[[T], Any]) -> T:
    """Looks and shows once; with `--watch` again whenever what is seen changes, for ever. Returns what was seen."""
    import asyncio

    shown = await look()
    show(shown)
    while args.watch:
        await asyncio.sleep(args.interval_s)
        seen = await look()
        if seen != shown:
            shown = seen
            show(shown)
    return shown
