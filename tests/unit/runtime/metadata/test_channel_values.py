"""A channel stands whole in its value in etcd, its options are legal, and its key says whose it is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from oncelog.errors import InvalidRequestError, InvalidTopicError
from oncelog_runtime.metadata.channel_values import (
    DAY_MS,
    START_LATEST,
    Channel,
    ChannelOptions,
    channel_key,
    channel_of,
)

TOPIC = "a" * 32
CHANNEL = Channel(TOPIC, "work", "c" * 32, ChannelOptions(ack_wait_ms=500), True, START_LATEST, 7)


def test_a_channel_survives_its_value() -> None:
    assert Channel.decode(CHANNEL.encode()) == CHANNEL
    assert channel_of(CHANNEL.key) == (TOPIC, "work")
    assert CHANNEL.key == channel_key(TOPIC, "work")


@pytest.mark.parametrize("name", ["topic", "topic/a/b"])
def test_a_key_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="unpack"):
        channel_of(name)


def test_what_a_newer_version_wrote_stays_and_what_an_older_one_did_not_write_has_its_default() -> None:
    value = json.loads(CHANNEL.encode())
    value["later"] = 3
    del value["options"]["max_unsettled"]
    value["options"]["later"] = 4
    found = Channel.decode(json.dumps(value).encode())
    assert json.loads(replace(found, paused=False).encode())["later"] == 3
    assert found.options == ChannelOptions(ack_wait_ms=500)


@pytest.mark.parametrize(
    ("option", "lowest", "highest"),
    [
        ("ack_wait_ms", 100, DAY_MS // 2),
        ("max_deliveries", 0, 1_000_000),
        ("retry_backoff_ms", 0, DAY_MS),
        ("retry_backoff_max_ms", 0, DAY_MS),
        ("max_unsettled", 1, 1_000_000),
    ],
)
def test_an_option_has_a_range(option: str, lowest: int, highest: int) -> None:
    def with_option(value: int) -> ChannelOptions:
        changed: dict[str, Any] = {"retry_backoff_max_ms": DAY_MS, option: value}
        return replace(ChannelOptions(), **changed)

    for legal in (lowest, highest):
        with_option(legal).check()
    for illegal in (lowest - 1, highest + 1):
        with pytest.raises(InvalidRequestError, match=option):
            with_option(illegal).check()


def test_the_longest_pause_is_no_shorter_than_the_first() -> None:
    ChannelOptions(retry_backoff_ms=700, retry_backoff_max_ms=700).check()
    for short in (
        ChannelOptions(retry_backoff_ms=10_000, retry_backoff_max_ms=5),
        ChannelOptions(retry_backoff_ms=DAY_MS),
    ):
        with pytest.raises(InvalidRequestError, match="retry_backoff_max_ms is at least retry_backoff_ms"):
            short.check()
        stored = replace(CHANNEL, options=short)
        assert Channel.decode(stored.encode()) == stored, "what an older version has stored is read"


def test_dead_letters_go_to_a_name_of_a_topic() -> None:
    ChannelOptions(dead_letter_topic="dead").check()
    with pytest.raises(InvalidTopicError):
        ChannelOptions(dead_letter_topic="no/topic").check()


def test_the_pause_doubles_with_each_delivery_up_to_its_bound() -> None:
    options = ChannelOptions(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    assert [options.retry_pause_ms(n) for n in (0, 1, 2, 3, 4, 5, 10_000)] == [100, 100, 200, 400, 800, 1_000, 1_000]
    assert ChannelOptions().retry_pause_ms(7) == 0
