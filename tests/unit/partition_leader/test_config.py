"""Settings of a broker are checked when they are made, each value and the relations between them."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import ConfigError
from oncelog_partition_leader.config import BrokerConfig


@pytest.mark.parametrize(
    "bad",
    [
        {"session_timeout_ms": 1_999},
        {"min_insync_replicas": 0},
        {"fetch_wait_max": 0},
        {"default_replication_factor": 0},
        {"scrub_bytes_per_s": -1},
        {"partitions_max": 10_001},
        {"partitions_per_broker_max": 1_000_001},
        {"transaction_shards": 10_001},
        {"group_shards": 10_001},
        {"listen_port": -1},
    ],
)
def test_a_value_out_of_its_range_is_refused_by_its_name(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        BrokerConfig(**bad)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("peer_silence_max_ms", {"peer_hold_ms": 500, "peer_silence_max_ms": 500}),
        ("replica_silence_max_ms", {"peer_silence_max_ms": 1_300, "replica_silence_max_ms": 1_300}),
        ("fetch_reply_bytes", {"fetch_reply_bytes": 1 << 20, "max_message_bytes": 1 << 20}),
    ],
)
def test_values_that_contradict_each_other_are_refused(name: str, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=name):
        BrokerConfig(**values)


def test_scrubbing_can_be_switched_off_and_the_edges_are_legal() -> None:
    config = BrokerConfig(node_id=7, scrub_bytes_per_s=0, session_timeout_ms=2_000, partitions_max=10_000)
    assert (config.broker_id, config.log_dir) == (7, "logs")
