"""A log that opens has a legal configuration: every value is checked when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import ConfigError
from oncelog_partition_leader.core.log.segment import SegmentLimits
from oncelog_partition_leader.log.log_config import LogConfig


@pytest.mark.parametrize(
    "bad",
    [
        {"segment_bytes": 255},
        {"segment_bytes": 1 << 31},
        {"segment_ms": 0},
        {"segment_index_bytes": 15},
        {"index_interval_bytes": -1},
        {"retention_ms": -2},
        {"retention_bytes": -2},
        {"max_message_bytes": 255},
        {"producer_id_expiration_ms": 0},
        {"tail_cache_bytes": -1},
        {"checkpoint_bytes": 0},
        {"flush_mode": "sometimes"},
        {"cleanup_policy": "keep"},
    ],
)
def test_a_value_out_of_its_range_is_refused_by_its_name(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        LogConfig(**bad)


@pytest.mark.parametrize(
    "edge",
    [
        {"segment_bytes": 256},
        {"segment_bytes": (1 << 31) - 1},
        {"retention_ms": -1, "retention_bytes": -1},
        {"retention_ms": 0},
        {"index_interval_bytes": 0, "tail_cache_bytes": 0},
        {"flush_mode": "fsync", "cleanup_policy": "compact,delete"},
    ],
)
def test_the_edges_are_legal(edge: dict[str, Any]) -> None:
    config = LogConfig(**edge)
    assert {name: getattr(config, name) for name in edge} == edge


def test_a_segments_limits_are_the_logs() -> None:
    config = LogConfig(segment_bytes=300, segment_ms=7, segment_index_bytes=32)
    assert config.segment_limits == SegmentLimits(segment_bytes=300, segment_ms=7, index_bytes=32)
