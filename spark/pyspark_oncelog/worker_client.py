"""The client of this process: one per cluster, made when first asked for, kept for the next task.

Spark's workers are forked and serve task after task, so a channel made in one task is a good cache for the next. It is
never the place of a truth: any process may die, and the next call is made by another one.
Rule: keyed by process id, because a forked child must not touch the client that it inherited, nor even let it go.
"""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from oncelog.errors import ConfigError
from pyspark_oncelog.options import ConnectionOptions

if TYPE_CHECKING:
    from oncelog.sync import Client

_MAX_ATTEMPT_MS = 30_000
_clients: dict[tuple[int, ConnectionOptions], Client] = {}


def client_for(connection: ConnectionOptions) -> Client:
    """The client of this process for this cluster.

    Raises `ConfigError` for an illegal address, or a certificate file that is not on this machine.
    """
    from oncelog.sync import Client

    key = (os.getpid(), connection)
    client = _clients.get(key)
    if client is None:
        _require_files(connection)
        traces: dict[str, Any] = {}
        if connection.otlp_endpoint:  # the driver has sampled
            traces = {"otlp_endpoint": connection.otlp_endpoint, "trace_sampler": "parentbased_always_on"}
        client = Client(
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
        _clients[key] = client
    return client


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
