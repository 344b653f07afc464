"""Settings of the producer id service."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_runtime.config.settings import NodeConfig, setting


@dataclass(frozen=True, kw_only=True)
class PidAllocatorConfig(NodeConfig):
    """The settings of the producer id service."""

    refill_backoff_ms: int = setting(50, "wait after a failed request for a block, 1 and up")
    wait_for_block_ms: int = setting(5_000, "how long a caller waits for a block, 1 and up")
    lease_ttl_ms: int = setting(6_000, "time to live of the registration, 2000 and up")

    def __post_init__(self) -> None:
        NodeConfig.__post_init__(self)
        self.check("refill_backoff_ms", self.refill_backoff_ms >= 1, "1 and up")
        self.check("wait_for_block_ms", self.wait_for_block_ms >= 1, "1 and up")
        self.check("lease_ttl_ms", self.lease_ttl_ms >= 2_000, "2000 and up")
