"""Imports gRPC such that a server wakes the fewest threads for a message.

Rule: a process that serves calls `import_grpc()` before anything else imports grpc. Where something imported it earlier, or
      GRPC_EXPERIMENTS is set, nothing changes.

From 1.80 on gRPC's Python reads sockets on threads of its own event engine. They wake the thread of the completion queue, which
wakes the event loop. A server can still read on the completion queue's thread, as before. Clients could, too, but a channel
without a call under way then notices a new connection every five seconds only, and gives it up before: a service that began
before its etcd would never reach it. See docs/decisions/0080-the-poller-of-grpc.md for what both are worth.
"""

from __future__ import annotations

import os
import sys
from typing import Final

EXPERIMENTS: Final = "GRPC_EXPERIMENTS"
"""The environment variable that gRPC reads once, when it is imported."""
FEWEST_SWITCHES: Final = "-event_engine_listener"
"""Its value."""
KNOWN_IN: Final = ((1, 80), (1, 85))
"""The first and the last minor version with this name. Before, this poller is the default. Later ones have to be looked at: a
gRPC that does not know a name prints an error, whatever GRPC_VERBOSITY says."""


def import_grpc() -> None:
    """Imports grpc; the environment is as before afterwards. Any number of times, from any thread."""
    if "grpc" in sys.modules or EXPERIMENTS in os.environ or not _is_known():
        return
    os.environ[EXPERIMENTS] = FEWEST_SWITCHES
    try:
        import grpc  # noqa: F401
    finally:
        os.environ.pop(EXPERIMENTS, None)  # another thread may have done so


def _is_known() -> bool:
    from importlib.metadata import PackageNotFoundError, version  # late: it takes some milliseconds

    try:
        major, minor = version("grpcio").split(".")[:2]
        return KNOWN_IN[0] <= (int(major), int(minor)) <= KNOWN_IN[1]
    except (PackageNotFoundError, ValueError):
        return False
