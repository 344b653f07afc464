"""Settings are checked when they are made."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import ConfigError
from oncelog_pid_allocator.config import PidAllocatorConfig


@pytest.mark.parametrize(
    "bad", [{"refill_backoff_ms": 0}, {"wait_for_block_ms": 0}, {"lease_ttl_ms": 1_999}, {"listen_port": -1}]
)
def test_a_setting_out_of_its_range_is_refused_by_its_name(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        PidAllocatorConfig(**bad)


def test_the_smallest_settings_are_taken() -> None:
    config = PidAllocatorConfig(refill_backoff_ms=1, wait_for_block_ms=1, lease_ttl_ms=2_000)
    assert (config.refill_backoff_ms, config.wait_for_block_ms, config.lease_ttl_ms) == (1, 1, 2_000)
