"""The client of this process: one per cluster, made when first asked for, kept for the next task.

Spark's workers are forked and serve task after task, so a channel made in one task is a good cache for the next. It is
never the place of a truth: any process may die, and the next call is made by another one.
Rule: keyed by process id, because a forked child must not touch the client that it inherited, nor even let it go.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark_oncelog.options import ConnectionOptions

if TYPE_CHECKING:
    from oncelog.sync import Client

_MAX_ATTEMPT_MS = 30_000
_clients: dict[tuple[int, ConnectionOptions], Client] = {}


def client_for(connection: ConnectionOptions) -> Client:
    """The client of this process for this cluster. Raises `ConfigError` for an illegal address."""
    from oncelog.sync import Client

    key = (os.getpid(), connection)
    client = _clients.get(key)
    if client is None:
        client = Client(
            connection.bootstrap_servers,
            client_id=connection.client_id,
            request_timeout_ms=min(_MAX_ATTEMPT_MS, connection.request_timeout_ms),
            default_api_timeout_ms=connection.request_timeout_ms,
        )
        _clients[key] = client
    return client
