"""Imports gRPC with the poller that wakes the fewest threads for a message.

Rule: every oncelog process calls `import_grpc()` before anything else imports grpc. Where something did so earlier, or
      GRPC_EXPERIMENTS is set, nothing changes.

From 1.80 on gRPC's Python reads sockets on threads of its own event engine. They wake the thread of the completion queue, which
wakes the event loop: a message sent there and back costs 12 switches of threads, and 7 with the poller before it, which
reads on the completion queue's thread. See docs/decisions/0080-the-poller-of-grpc.md for what that is worth.
"""

from __future__ import annotations

import os
import sys
from typing import Final

EXPERIMENTS: Final = "GRPC_EXPERIMENTS"
"""The environment variable that gRPC reads once, when it is imported."""
FEWEST_SWITCHES: Final = "-event_engine_client,-event_engine_listener"
"""Its value. A gRPC without these names takes no notice of it."""


def import_grpc() -> None:
    """Imports grpc; the environment is as before afterwards, for child processes. Any number of times."""
    if "grpc" in sys.modules or EXPERIMENTS in os.environ:
        return
    os.environ[EXPERIMENTS] = FEWEST_SWITCHES
    try:
        import grpc  # noqa: F401
    finally:
        del os.environ[EXPERIMENTS]
