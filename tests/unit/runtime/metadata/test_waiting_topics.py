"""A topic has one waiting topic, by name and by id."""

from __future__ import annotations

from oncelog_runtime.metadata.waiting_topics import (
    is_waiting,
    topic_of,
    transactional_id,
    waiting_topic_id,
)


def test_names_lead_both_ways() -> None:
    assert topic_of("__delayed.orders") == "orders"
    assert topic_of("orders") == "orders"
    assert is_waiting("__delayed.orders")
    assert not is_waiting("orders")


def test_a_topic_that_is_made_again_has_another_one() -> None:
    one, other = waiting_topic_id("a" * 32), waiting_topic_id("b" * 32)
    assert one == waiting_topic_id("a" * 32) != other
    assert len(one) == 32
    assert transactional_id(one, 3) != transactional_id(one, 4)
