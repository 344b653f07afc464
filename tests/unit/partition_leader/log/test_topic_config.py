"""Options of topics: names, ranges, defaults."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigError
from oncelog_partition_leader.log.topic_config import TopicConfig, altered, canonical, effective


def test_dotted_names_mean_the_same_and_options_are_kept_sorted() -> None:
    assert list(canonical({"retention.ms": "5", "flush_mode": "fsync"}).items()) == [
        ("flush_mode", "fsync"),
        ("retention_ms", "5"),
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"retension_ms": "5"},
        {"retention_ms": "soon"},
        {"retention_ms": "-2"},
        {"flush_mode": "sometimes"},
        {"min_insync_replicas": "0"},
        {"retention_ms": "5", "retention.ms": "6"},
    ],
)
def test_what_is_unknown_or_illegal_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        canonical(options)


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="retention_ms"):
        canonical({"retension_ms": "5"})


def test_explicit_options_stand_above_defaults() -> None:
    config = effective({"flush_mode": "fsync", "min_insync_replicas": "2"}, TopicConfig())
    assert config.fsync
    assert config.min_insync_replicas == 2
    assert config.log.retention_ms == TopicConfig().log.retention_ms


def test_what_a_newer_peer_wrote_is_ignored() -> None:
    assert effective({"from_the_future": "1"}, TopicConfig()) == TopicConfig()


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize("name", ["cleanup_policy", "cleanup.policy"])
def test_a_topic_may_be_compacted(name: str, policy: str) -> None:
    assert canonical({name: policy}) == altered({}, {name: policy}, ()) == {"cleanup_policy": policy}
    assert effective({"cleanup_policy": policy}, TopicConfig()).log.is_compacted


@pytest.mark.parametrize("value", ["half", "-0.1", "1.5", "nan"])
def test_the_dirty_ratio_is_a_number_from_0_to_1(value: str) -> None:
    assert effective({"min_cleanable_dirty_ratio": "0.25"}, TopicConfig()).log.min_cleanable_dirty_ratio == 0.25
    with pytest.raises(ConfigError, match="min_cleanable_dirty_ratio is"):
        canonical({"min_cleanable_dirty_ratio": value})


def test_a_record_is_not_due_before_it_may_be_compacted() -> None:
    canonical({"min_compaction_lag_ms": "5", "max_compaction_lag_ms": "5"})
    canonical({"min_compaction_lag_ms": "5", "max_compaction_lag_ms": "-1"})
    with pytest.raises(ConfigError, match="max_compaction_lag_ms is"):
        canonical({"min_compaction_lag_ms": "5", "max_compaction_lag_ms": "4"})


def test_a_topic_that_says_compact_from_an_older_version_keeps_it_until_it_is_unset() -> None:
    old = {"cleanup_policy": "compact"}
    assert effective(old, TopicConfig()).log.cleanup_policy == "compact", "an upgrade deletes nothing"
    assert altered(old, {"retention_ms": "5"}, ()) == {"cleanup_policy": "compact", "retention_ms": "5"}
    assert altered(old, {}, ["cleanup_policy"]) == {}
    assert altered(old, {"cleanup_policy": "delete"}, ()) == {"cleanup_policy": "delete"}
