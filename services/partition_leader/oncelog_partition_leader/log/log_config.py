"""The options of one partition log. Kafka's names with underscores; the unit comes last.

Rule: every value is checked on construction (`ConfigError`), so a log that opens has a legal configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from oncelog.errors import ConfigError
from oncelog_partition_leader.core.log.segment import SegmentLimits

FLUSH_REPLICATED: Final = "replicated"
FLUSH_FSYNC: Final = "fsync"
UNLIMITED: Final = -1

_HOUR_MS: Final = 3600 * 1000
_CLEANUP_POLICIES: Final = ("delete", "compact", "compact,delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The options of a log. -1 as a retention means without limit.

    `flush_mode`: fsync = only synced records count for acknowledgement (the caller syncs); replicated = memory counts.
    `checkpoint_bytes`: after so many bytes the next sync also stores a producer snapshot and the indexes, so that a
    recovery has at most about this much to scan. `tail_cache_bytes`: newest batches kept in memory for readers.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * _HOUR_MS
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * _HOUR_MS
    retention_bytes: int = UNLIMITED
    max_message_bytes: int = 8 << 20
    producer_id_expiration_ms: int = 24 * _HOUR_MS
    flush_mode: str = FLUSH_REPLICATED
    cleanup_policy: str = "delete"
    delete_retention_ms: int = 24 * _HOUR_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = UNLIMITED
    tail_cache_bytes: int = 16 << 20
    checkpoint_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        _check("segment_bytes", self.segment_bytes, 256, (1 << 31) - 1)
        _check("segment_ms", self.segment_ms, 1, 1 << 62)
        _check("segment_index_bytes", self.segment_index_bytes, 16, 1 << 30)
        _check("index_interval_bytes", self.index_interval_bytes, 0, 1 << 30)
        _check("retention_ms", self.retention_ms, UNLIMITED, 1 << 62)
        _check("retention_bytes", self.retention_bytes, UNLIMITED, 1 << 62)
        _check("max_message_bytes", self.max_message_bytes, 256, (1 << 31) - 1)
        _check("producer_id_expiration_ms", self.producer_id_expiration_ms, 1, 1 << 62)
        _check("delete_retention_ms", self.delete_retention_ms, 0, 1 << 61)
        _check("min_compaction_lag_ms", self.min_compaction_lag_ms, 0, 1 << 62)
        _check("max_compaction_lag_ms", self.max_compaction_lag_ms, UNLIMITED, 1 << 62)
        if not 0 <= self.min_cleanable_dirty_ratio <= 1:
            raise ConfigError(
                "min_cleanable_dirty_ratio is 0 to 1", min_cleanable_dirty_ratio=self.min_cleanable_dirty_ratio
            )
        if 0 <= self.max_compaction_lag_ms < max(self.min_compaction_lag_ms, 1):
            raise ConfigError(
                "max_compaction_lag_ms is -1 (without limit), or 1 and up and not below min_compaction_lag_ms",
                max_compaction_lag_ms=self.max_compaction_lag_ms,
            )
        _check("tail_cache_bytes", self.tail_cache_bytes, 0, 1 << 40)
        _check("checkpoint_bytes", self.checkpoint_bytes, 1, 1 << 40)
        if self.flush_mode not in (FLUSH_REPLICATED, FLUSH_FSYNC):
            raise ConfigError("flush_mode is replicated or fsync", flush_mode=self.flush_mode)
        if self.cleanup_policy not in _CLEANUP_POLICIES:
            raise ConfigError("cleanup_policy is delete, compact, or both", cleanup_policy=self.cleanup_policy)

    @property
    def is_compacted(self) -> bool:
        """True when only the newest record of each key is to stay."""
        return "compact" in self.cleanup_policy

    @property
    def segment_limits(self) -> SegmentLimits:
        """The limits at which a segment of this log is rolled."""
        return SegmentLimits(
            segment_bytes=self.segment_bytes, segment_ms=self.segment_ms, index_bytes=self.segment_index_bytes
        )


def _check(name: str, value: int, smallest: int, largest: int) -> None:
    if not smallest <= value <= largest:
        context: dict[str, Any] = {name: value}
        raise ConfigError(f"{name} is {smallest} to {largest}", **context)
