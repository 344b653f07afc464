"""Settings are checked when they are made."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import ConfigError
from oncelog_coordinator.config import CoordinatorConfig


@pytest.mark.parametrize(
    "bad",
    [
        {"lease_ttl_ms": 1_999},
        {"tick_ms": 0},
        {"producer_ids_prefetch": 0},
        {"producer_ids_prefetch": 1_001},
        {"append_timeout_ms": 5_000, "append_deadline_ms": 4_000},
        {"transaction_max_timeout_ms": 0},
        {"kept_outcomes": -1},
        {"listen_port": -1},
        {"shard_log_slack_records": 0},
    ],
)
def test_bad_settings(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CoordinatorConfig(**bad)


def test_limits_and_shards_follow_the_settings() -> None:
    config = CoordinatorConfig(kept_outcomes=7, append_timeout_ms=123, shard_log_slack_records=9, check_invariants=True)
    assert config.limits().kept_outcomes == 7
    assert (config.shard().append_timeout_ms, config.shard().check_invariants) == (123, True)
    assert config.shard().slack_records == 9
