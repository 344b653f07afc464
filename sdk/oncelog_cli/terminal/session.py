"""One client for the time of one command, and looking again with `--watch`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from oncelog.config import ClientConfig
from oncelog.errors import ConfigError

if TYPE_CHECKING:
    from oncelog.client.client import Client

T = TypeVar("T")


def with_client(
    args: argparse.Namespace,
    work: Callable[[Client], Awaitable[T]],
    *,
    connect: bool = True,
    lasting: bool | None = None,
) -> T:
    """Runs `work(client)` and closes the client. All of it together gives up after `--timeout-ms`.

    `connect` False: the cluster may be down; `work` finds out by itself. `lasting`: the work may take as long as it likes (it
    follows, waits or measures; None: if it has `--watch`), and the time is that of every single call in it.
    """
    import asyncio

    from oncelog.client.client import Client

    async def session() -> T:
        client = Client(
            args.bootstrap_servers,
            client_id="oncelog-cli",
            **timeouts(args.timeout_ms),
            **tls_options(args),
        )
        try:
            if not (getattr(args, "watch", False) if lasting is None else lasting):
                client.give_up_after(args.timeout_ms)
            if connect:
                await client.start()
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(session())


def timeouts(timeout_ms: int) -> dict[str, Any]:
    """Options of the client by which nothing that it does takes longer. Raises `ConfigError`."""
    if timeout_ms < 1:
        raise ConfigError("--timeout-ms is 1 and up", given=timeout_ms)
    defaults = ClientConfig()
    shorter = ("request_timeout_ms", "close_timeout_ms", "bootstrap_timeout_ms", "metadata_attempt_timeout_ms")
    return {"default_api_timeout_ms": timeout_ms, **{n: min(timeout_ms, getattr(defaults, n)) for n in shorter}}


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
