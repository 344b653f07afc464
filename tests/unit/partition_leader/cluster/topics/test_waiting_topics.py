"""A waiting topic is like its topic, and follows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.errors import InvalidTopicError
from oncelog_partition_leader.cluster.topics.waiting_topics import Followed, followed, waiting_topic_of
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, Topic
from oncelog_runtime.metadata.cluster_view import Versioned

ORDERS = Topic("orders", "a" * 32, 4, 3, {"flush_mode": "fsync", "retention_ms": "1000", "cleanup_policy": "compact"})


def test_it_is_as_large_and_as_durable_as_its_topic_and_keeps_everything() -> None:
    made = waiting_topic_of(ORDERS)
    assert (made.name, made.partitions, made.replication_factor) == ("__delayed.orders", 4, 3)
    assert made.topic_id != ORDERS.topic_id
    assert waiting_topic_of(ORDERS) == made
    assert made.config["flush_mode"] == "fsync"
    assert (made.config["retention_ms"], made.config["cleanup_policy"]) == ("-1", "delete")


@pytest.mark.parametrize("option", ["max_message_bytes", "segment_bytes"])
def test_no_larger_record_may_wait_than_its_topic_takes(option: str) -> None:
    made = waiting_topic_of(replace(ORDERS, config={option: "1000"}))
    assert made.config[option] == "1000"


def test_a_name_that_would_be_too_long_is_refused() -> None:
    with pytest.raises(InvalidTopicError):
        waiting_topic_of(replace(ORDERS, name="x" * 249))


@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_nothing_waits_for_the_clusters_own_topics(name: str) -> None:
    with pytest.raises(InvalidTopicError):
        waiting_topic_of(replace(ORDERS, name=name))


def test_it_follows_its_topic() -> None:
    made = waiting_topic_of(ORDERS)
    there = {"orders": Versioned(ORDERS, 1)}
    assert followed(made, there) is Followed.WHOLE
    assert followed(ORDERS, {}) is Followed.WHOLE, "an ordinary topic follows none"
    assert followed(made, {}) is Followed.ORPHAN
    again = replace(ORDERS, topic_id="b" * 32)
    assert followed(made, {"orders": Versioned(again, 2)}) is Followed.ORPHAN
    grown = followed(made, {"orders": Versioned(replace(ORDERS, partitions=6), 2)})
    assert grown == replace(made, partitions=6)


def test_it_follows_the_options_of_its_topic_too() -> None:
    made = waiting_topic_of(ORDERS)
    altered = replace(ORDERS, config={"max_message_bytes": "1000", "min_insync_replicas": "3"})
    wanted = followed(made, {"orders": Versioned(altered, 2)})
    assert isinstance(wanted, Topic)
    assert wanted.config["max_message_bytes"] == "1000"
    assert wanted.config["min_insync_replicas"] == "3"
    assert "flush_mode" not in wanted.config
    assert wanted.config["retention_ms"] == "-1"
    assert followed(wanted, {"orders": Versioned(altered, 2)}) is Followed.WHOLE
