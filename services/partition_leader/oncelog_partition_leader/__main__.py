"""Composition root of the broker: the only place that chooses adapters."""

from __future__ import annotations

import sys

from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.config import BrokerConfig


def main() -> int:
    """Runs the broker until SIGTERM."""
    from oncelog_runtime.process.process import run_service

    return run_service("partition_leader", BrokerConfig, Broker, keeps_files=True)


if __name__ == "__main__":
    sys.exit(main())
