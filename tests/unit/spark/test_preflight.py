"""What is checked on the driver before Spark computes anything, with errors that say what to do."""

from __future__ import annotations

import pytest

from oncelog.errors import (
    ConfigError,
    UnknownTopicError,
)
from pyspark_oncelog import preflight
from tests.unit.spark.fakes import FakeClient
from tests.unit.spark.writing import options


def test_a_known_topic_is_asked_for_once(client: FakeClient) -> None:
    preflight.require_topic(options())
    client.topics.clear()
    preflight.require_topic(options())


def test_a_python_that_lacks_a_package_is_named() -> None:
    with pytest.raises(ConfigError, match=r"lacks no_such_package, no\.such.*PYSPARK_PYTHON"):
        preflight.require_python(("pyarrow", "no_such_package", "no.such"))


def test_a_topic_that_does_not_exist_is_named_with_the_command_or_created(client: FakeClient) -> None:
    with pytest.raises(
        UnknownTopicError, match="oncelog topic create new --partitions 6 --bootstrap-servers a:1`, or set"
    ):
        preflight.require_topic(options(topic="new"))
    preflight.require_topic(options(topic="new", createTopicPartitions="3"))
    assert client.created == [("new", 3)]


def test_where_the_rows_name_their_topics_nothing_is_asked(client: FakeClient) -> None:
    client.topics.clear()
    preflight.require_topic(options(topic=""))
    assert preflight._known_topics == set()


def test_a_topic_that_was_forgotten_is_asked_for_again(client: FakeClient) -> None:
    preflight.require_topic(options())
    preflight.forget_topic(options(), "t")
    client.topics.clear()
    with pytest.raises(UnknownTopicError):
        preflight.require_topic(options())


def test_what_is_known_of_one_cluster_is_not_known_of_another(client: FakeClient) -> None:
    preflight.require_topic(options())
    client.topics.clear()
    with pytest.raises(UnknownTopicError):
        preflight.require_topic(options(bootstrapServers="b:1"))


def test_this_python_has_what_reading_and_writing_need() -> None:
    preflight.require_python()


def test_topics_that_a_pattern_finds_no_more_are_named_with_the_way_out() -> None:
    error = preflight.no_longer_found(["a", "b"])
    assert "no longer finds a, b" in error.message
    assert "failOnDataLoss=false" in error.message
