"""Composition root of the producer id service: the only place that chooses adapters."""

from __future__ import annotations

import sys

from oncelog_pid_allocator.config import PidAllocatorConfig
from oncelog_pid_allocator.service import PidAllocator


def main() -> int:
    """Runs the service until SIGTERM."""
    from oncelog_runtime.process.process import run_service

    return run_service("pid_allocator", PidAllocatorConfig, PidAllocator)


if __name__ == "__main__":
    sys.exit(main())
