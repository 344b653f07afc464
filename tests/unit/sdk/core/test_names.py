"""No name acts as a path, a key prefix or a terminal's command: what is legal is one set, and the rest is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.core.names import (
    check_group_id,
    check_topic_name,
    check_transactional_id,
    is_partition_id,
    is_topic_name,
    waiting_topic,
)


@pytest.mark.parametrize("name", ["a", "orders", "Orders-2.x_y", "...", "a" * 249, "__internal", "-"])
def test_legal_topic_names_are_returned(name: str) -> None:
    assert check_topic_name(name) == name
    assert is_topic_name(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "../a", "a b", "a\n", "a\x00", "ä", "orders٣", "a" * 250, "a:b", "a*", None, 7, b"a"],
    ids=ascii,
)
def test_what_no_topic_is_called_is_refused(name: Any) -> None:
    assert not is_topic_name(name)
    with pytest.raises(errors.InvalidTopicError, match=r"1-249 characters of \[a-zA-Z0-9\._-\]"):
        check_topic_name(name)


def test_a_refusal_repeats_no_more_than_the_beginning_of_the_name() -> None:
    with pytest.raises(errors.InvalidTopicError) as caught:
        check_topic_name("\x1b[2J" * 1_000)
    assert len(caught.value.context["topic"]) <= 66
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("check", "error"),
    [(check_transactional_id, errors.InvalidRequestError), (check_group_id, errors.InvalidGroupIdError)],
)
def test_ids_are_bytes_of_printable_text(check: Any, error: type[errors.OncelogError]) -> None:
    for name in ("a", "my app/7", "ü" * 512, "x" * 1_024):
        assert check(name) == name
    for name in ("", "a\nb", "a\x1b[2J", "ü" * 513, "x" * 1_025):
        with pytest.raises(error, match="1-1024 bytes of printable text"):
            check(name)


@pytest.mark.parametrize(
    ("topic_id", "partition", "legal"),
    [
        ("0a" * 16, 0, True),
        ("0a" * 16, 199_999, True),
        ("0a" * 16, -1, False),
        ("0A" * 16, 0, False),
        ("0a" * 15, 0, False),
        ("0a" * 17, 0, False),
        ("0a" * 15 + "/.", 0, False),
        ("0a" * 16 + "\n", 0, False),
        ("", 0, False),
    ],
)
def test_a_partition_id_is_32_hex_digits_and_a_number(topic_id: str, partition: int, legal: bool) -> None:
    assert is_partition_id(topic_id, partition) is legal


def test_a_topic_has_a_waiting_topic_unless_its_name_is_too_long_or_it_is_the_clusters_own() -> None:
    assert waiting_topic("orders") == "__delayed.orders"
    for topic in ("x" * 245, "__delayed.orders", "__transaction_state", "__consumer_offsets"):
        with pytest.raises(errors.InvalidTopicError):
            waiting_topic(topic)
