"""Imports gRPC such that a message wakes the fewest threads.

Rule: a process that serves calls `import_grpc()` before anything else imports grpc. Where something imported it earlier, or
      GRPC_EXPERIMENTS is set, nothing changes.

From 1.80 on gRPC's Python reads sockets on threads of its own event engine. They wake the thread of the completion queue, which
wakes the event loop. gRPC can still read on the completion queue's thread, as before. A client's channel on which no call waits
is then looked at by a back-up poller only, and a new connection is given up when that comes too late. Its interval is 5 s by
default, so a shorter one is chosen here. See docs/decisions/0080-the-poller-of-grpc.md for what this is worth.
"""

from __future__ import annotations

import os
import sys
from typing import Final

EXPERIMENTS: Final = "GRPC_EXPERIMENTS"
"""The environment variable that chooses the poller."""
BACKUP_POLL: Final = "GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS"
"""The environment variable with the interval at which channels without a waiting call are looked at."""
SETTINGS: Final = {EXPERIMENTS: "-event_engine_client,-event_engine_listener", BACKUP_POLL: "100"}
"""The environment in which gRPC is imported. It reads both variables then, and never again."""
KNOWN_IN: Final = ((1, 80), (1, 85))
"""The first and the last minor version with these names. Before, this poller is the default. Later ones have to be looked at: a
gRPC that does not know a name prints an error, whatever GRPC_VERBOSITY says."""


def import_grpc() -> None:
    """Imports grpc; the environment is as before afterwards. Any number of times, from any thread."""
    if "grpc" in sys.modules or EXPERIMENTS in os.environ or not _is_known():
        return
    ours = {name: value for name, value in SETTINGS.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        import grpc  # noqa: F401
    finally:
        for name in ours:
            os.environ.pop(name, None)  # another thread may have done so


def _is_known() -> bool:
    from importlib.metadata import PackageNotFoundError, version  # late: it takes some milliseconds

    try:
        major, minor = version("grpcio").split(".")[:2]
        return KNOWN_IN[0] <= (int(major), int(minor)) <= KNOWN_IN[1]
    except (PackageNotFoundError, ValueError):
        return False
