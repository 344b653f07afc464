"""A topic has one waiting topic, by name and by id; names that are too long have none."""

from __future__ import annotations

import pytest

from oncelog.errors import InvalidTopicError
from oncelog_runtime.metadata.waiting_topics import (
    is_waiting,
    topic_of,
    transactional_id,
    waiting_topic,
    waiting_topic_id,
)


def test_names_lead_both_ways() -> None:
    assert waiting_topic("orders") == "__delayed.orders"
    assert topic_of("__delayed.orders") == "orders"
    assert topic_of("orders") == "orders"
    assert is_waiting("__delayed.orders")
    assert not is_waiting("orders")


@pytest.mark.parametrize("topic", ["x" * 240, "__delayed.orders"])
def test_some_topics_have_none(topic: str) -> None:
    with pytest.raises(InvalidTopicError):
        waiting_topic(topic)


def test_a_topic_that_is_made_again_has_another_one() -> None:
    one, other = waiting_topic_id("a" * 32), waiting_topic_id("b" * 32)
    assert one == waiting_topic_id("a" * 32) != other
    assert len(one) == 32
    assert transactional_id(one, 3) != transactional_id(one, 4)
