"""The clients of this process: one per cluster and its options, made when first asked for, kept for the next task.

Spark's workers are forked and serve task after task, so a channel made in one task is a good cache for the next. It is
never the place of a truth: any process may die, and the next call is made by another one.
Rule 1: keyed by process id, because a forked child must not touch the client that it inherited, nor even let it go.
Rule 2: the last two that were asked for are kept (a worker reads, and writes); the others are closed.
Rule 3: one that meets another cluster at its addresses is let go: it would refuse that one as long as the process lives.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from oncelog.errors import ConfigError, OncelogError, WrongClusterError
from pyspark_oncelog.options.read_write_options import ConnectionOptions

if TYPE_CHECKING:
    from oncelog.sync import Client

_MAX_ATTEMPT_MS = 30_000
_KEPT: Final = 2
_clients: dict[tuple[int, ConnectionOptions], Client] = {}
_log = logging.getLogger(__name__)


def client_for(connection: ConnectionOptions) -> Client:
    """The client of this process for this cluster.

    Raises `ConfigError` for an illegal address, or a certificate file that is not on this machine.
    """
    key = (os.getpid(), connection)
    client = _clients.pop(key, None) or _make(connection)
    _clients[key] = client  # the last one
    _close(_own()[:-_KEPT])
    return client


@contextlib.contextmanager
def forgetting_wrong_cluster() -> Iterator[None]:
    """Closes the clients of this process when one of them has met another cluster; the next question makes a new one."""
    try:
        yield
    except WrongClusterError:
        _close(_own())
        raise


def _own() -> list[tuple[int, ConnectionOptions]]:
    """Those of this process, in the order in which they were asked for."""
    return [key for key in _clients if key[0] == os.getpid()]


def _close(keys: list[tuple[int, ConnectionOptions]]) -> None:
    for key in keys:
        try:
            _clients.pop(key).close()
        except OncelogError as error:
            _log.warning("a client that is no longer used was not closed in order: %s", error)


def _make(connection: ConnectionOptions) -> Client:
    from oncelog.sync import Client

    _require_files(connection)
    traces: dict[str, Any] = {}
    if connection.otlp_endpoint:  # the driver has sampled
        traces = {"otlp_endpoint": connection.otlp_endpoint, "trace_sampler": "parentbased_always_on"}
    return Client(
        connection.bootstrap_servers,
        client_id=connection.client_id,
        request_timeout_ms=min(_MAX_ATTEMPT_MS, connection.request_timeout_ms),
        default_api_timeout_ms=connection.request_timeout_ms,
        bootstrap_timeout_ms=min(_MAX_ATTEMPT_MS, connection.request_timeout_ms),  # Spark tries tasks again at once
        security_protocol=connection.security_protocol,
        ssl_cafile=connection.ssl_cafile,
        ssl_certfile=connection.ssl_certfile,
        ssl_keyfile=connection.ssl_keyfile,
        token=connection.token,
        token_file=connection.token_file,
        username=connection.username,
        password=connection.password,
        password_file=connection.password_file,
        **traces,
    )


def _require_files(connection: ConnectionOptions) -> None:
    files = {
        "sslCafile": connection.ssl_cafile,
        "sslCertfile": connection.ssl_certfile,
        "sslKeyfile": connection.ssl_keyfile,
        "tokenFile": connection.token_file,
        "passwordFile": connection.password_file,
    }
    for option, path in files.items():
        if path and not os.access(path, os.R_OK):
            raise ConfigError(
                f"option {option}: {path} cannot be read on {platform.node()}; the file must stand under this path on the "
                "driver and on every worker (a mounted secret, the image, or --files with its bare name)"
            )
