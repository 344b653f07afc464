"""Composition root of the coordinator: the only place that chooses adapters."""

from __future__ import annotations

import sys

from oncelog_coordinator.config import CoordinatorConfig
from oncelog_coordinator.coordinator import CoordinatorNode


def main() -> int:
    """Runs the service until SIGTERM."""
    from oncelog_runtime.process.process import run_service

    return run_service("coordinator", CoordinatorConfig, CoordinatorNode)


if __name__ == "__main__":
    sys.exit(main())
