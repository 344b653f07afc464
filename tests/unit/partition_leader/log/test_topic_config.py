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
def test_compaction_is_refused_for_users_topics(name: str, policy: str) -> None:
    """Regression: compaction was accepted, and did nothing but switch retention off."""
    for ask in (lambda: canonical({name: policy}), lambda: altered({}, {name: policy}, ())):
        with pytest.raises(ConfigError, match="not available yet"):
            ask()
    assert canonical({name: "delete"}) == {"cleanup_policy": "delete"}


def test_a_topic_that_says_compact_from_an_older_version_keeps_it_until_it_is_unset() -> None:
    old = {"cleanup_policy": "compact"}
    assert effective(old, TopicConfig()).log.cleanup_policy == "compact", "an upgrade deletes nothing"
    assert altered(old, {"retention_ms": "5"}, ()) == {"cleanup_policy": "compact", "retention_ms": "5"}
    assert altered(old, {}, ["cleanup_policy"]) == {}
    assert altered(old, {"cleanup_policy": "delete"}, ()) == {"cleanup_policy": "delete"}
