"""`client.admin` without `await`: the asynchronous answers, from the thread of the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from oncelog import errors, sync
from oncelog.client.defaults import SystemClock
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster


@pytest.fixture
def client() -> Iterator[sync.Client]:
    with sync.Client(BROKERS, transport=FakeCluster(), clock=SystemClock(), random=Random(1)) as made:
        yield made


def test_it_answers_what_the_asynchronous_one_answers(client: sync.Client) -> None:
    topic = client.admin.describe_topic(TOPIC)
    assert topic.name == TOPIC
    assert client.admin.describe_topics(name for name in [TOPIC]) == {TOPIC: topic}


def test_it_raises_what_the_asynchronous_one_raises(client: sync.Client) -> None:
    with pytest.raises(errors.UnknownTopicError, match="oncelog topic create"):
        client.admin.describe_topic("nowhere")


def test_a_misspelt_option_is_refused_before_anything_is_asked(client: sync.Client) -> None:
    with pytest.raises(TypeError, match="partition_count"):
        client.admin.create_topic("t", partition_count=3)  # type: ignore[call-arg]
