"""Settings of the producer id service."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_runtime.config import NodeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PidAllocatorConfig(NodeConfig):
    """`refill_backoff_ms`: wait after a failed block request. `wait_for_block_ms`: how long a caller waits for one."""

    refill_backoff_ms: int = 50
    wait_for_block_ms: int = 5_000
    lease_ttl_ms: int = 6_000
