"""The configuration of one broker. Kafka's names with underscores, unit last.

Rule: checked on construction, each value and the relations between them; nothing below reads the environment.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Values of one broker. `address` and `client_address` empty = what the server listens at."""

    broker_id: int
    rack: str = ""
    address: str = ""
    client_address: str = ""
    transaction_shards: int = 50
    group_shards: int = 50
    default_replication_factor: int = 3
    internal_topic_replication_factor: int = 3
    min_insync_replicas: int = 1
    max_message_bytes: int = 16 << 20
    log_dir: str = "logs"
    # liveness
    session_timeout_ms: int = 3_000
    peer_hold_ms: int = 500
    peer_silence_max_ms: int = 1_500
    probe_timeout_ms: int = 300
    # replication
    replica_lag_time_max_ms: int = 10_000
    replicate_max_bytes: int = 1 << 20
    replicate_in_flight_max: int = 4
    replicate_timeout_ms: int = 5_000
    replicate_backoff_ms: int = 50
    watermark_push_delay_ms: int = 5
    tail_cache_bytes: int = 4 << 20
    # requests
    request_timeout_max_ms: int = 120_000
    inbox_bytes_max: int = 64 << 20
    inbox_batches_max: int = 10_000
    fetch_max_bytes: int = 64 << 20
    fetch_max_wait_ms: int = 60_000
    partitions_max: int = 10_000
    # transactions
    transaction_resolve_after_ms: int = 60_000
    transaction_resolve_interval_ms: int = 10_000
    coordinator_timeout_ms: int = 5_000
    # housekeeping
    tick_ms: int = 100
    isr_check_interval_ms: int = 500
    retention_interval_ms: int = 60_000
    leader_rebalance_interval_ms: int = 300_000

    def __post_init__(self) -> None:
        positive = [name for name in self.__dataclass_fields__ if name.endswith(("_ms", "_max", "_bytes", "_shards"))]
        for name in positive:
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0", name=name, value=getattr(self, name))
        if self.broker_id < 0:
            raise ConfigError("broker_id must be 0 or above", name="broker_id", value=self.broker_id)
        if self.min_insync_replicas < 1 or self.default_replication_factor < 1:
            raise ConfigError("min_insync_replicas and default_replication_factor are at least 1")
        if self.peer_hold_ms >= self.peer_silence_max_ms:
            raise ConfigError("peer_silence_max_ms must be above peer_hold_ms", name="peer_silence_max_ms")
