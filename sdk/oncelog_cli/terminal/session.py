"""One client for the time of one command, and looking again with `--watch`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from oncelog.config import ClientConfig
from oncelog.errors import ConfigError

if TYPE_CHECKING:
    from oncelog.client.client import Client
    from oncelog.option_types import ClientOptions

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
            **client_options(args),
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


def client_options(args: argparse.Namespace) -> ClientOptions:
    """Returns the client's options that the common flags ask for. Raises `ConfigError`."""
    return {**timeouts(args.timeout_ms), **tls_options(args)}


def timeouts(timeout_ms: int) -> ClientOptions:
    """Options of the client by which nothing that it does takes longer. Raises `ConfigError`."""
    if timeout_ms < 1:
        raise ConfigError("--timeout-ms is 1 and up", given=timeout_ms)
    defaults = ClientConfig()
    return {
        "default_api_timeout_ms": timeout_ms,
        "request_timeout_ms": min(timeout_ms, defaults.request_timeout_ms),
        "close_timeout_ms": min(timeout_ms, defaults.close_timeout_ms),
        "bootstrap_timeout_ms": min(timeout_ms, defaults.bootstrap_timeout_ms),
        "metadata_attempt_timeout_ms": min(timeout_ms, defaults.metadata_attempt_timeout_ms),
    }


def tls_options(args: argparse.Namespace) -> ClientOptions:
    """TLS options of the client. A file alone means TLS."""
    is_tls = args.ssl_cafile or args.ssl_certfile or args.ssl_keyfile
    return {
        "security_protocol": args.security_protocol or ("SSL" if is_tls else "PLAINTEXT"),
        "ssl_cafile": args.ssl_cafile,
        "ssl_certfile": args.ssl_certfile,
        "ssl_keyfile": args.ssl_keyfile,
        **identity_options(args),
    }


def identity_options(args: argparse.Namespace) -> ClientOptions:
    """Returns the options that say who the client is. A secret itself is taken from the environment alone, since every
    user of the machine can read flags.
    """
    given: ClientOptions = {}
    if token_file := getattr(args, "token_file", ""):
        given["token_file"] = token_file
    if username := getattr(args, "username", ""):
        given["username"] = username
    if password_file := getattr(args, "password_file", ""):
        given["password_file"] = password_file
    if "username" in given and "password_file" not in given and (password := os.environ.get("ONCELOG_PASSWORD")):
        given["password"] = password
    if not given and (token := os.environ.get("ONCELOG_TOKEN")):
        given["token"] = token
    return given


async def watch(args: argparse.Namespace, look: Callable[[], Awaitable[T]], show: Callable[[T], object]) -> T:
    """Looks and shows once; with `--watch` again whenever the result changes, until Ctrl-C. Returns the last result."""
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
