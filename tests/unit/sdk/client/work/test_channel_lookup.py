"""A worker finds its channel, or makes it; what differs from its options is a warning."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster
from tests.unit.sdk.client.work.fake_channels import CHANNEL, FakeChannels


def start(cluster: FakeCluster, **options: Any) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.worker(TOPIC, channel=CHANNEL, **options):
            pass

    cluster.run(work)


@pytest.mark.parametrize(
    ("given", "start_ms"), [("earliest", -2), ("latest", -1), (1_700_000_000_000, 1_700_000_000_000)]
)
def test_a_channel_that_is_not_there_is_made_with_the_given_options(
    cluster: FakeCluster, channels: FakeChannels, given: Any, start_ms: int
) -> None:
    start(cluster, start=given, ack_wait_ms=5_000, dead_letter_topic="dead", order_by_key=True)
    (request,) = cluster.requests("CreateChannel")
    assert request.start_timestamp_ms == start_ms
    assert (request.topic, request.channel, request.if_not_exists) == (TOPIC, CHANNEL, True)
    assert len(request.nonce) == 32
    given_options = {field.name: value for field, value in request.options.ListFields()}
    assert given_options == {"ack_wait_ms": 5_000, "dead_letter_topic": "dead", "order_by_key": True}


def test_a_channel_that_is_there_is_taken_as_it_is(
    cluster: FakeCluster, channels: FakeChannels, caplog: pytest.LogCaptureFixture
) -> None:
    channels.make(ack_wait_ms=7_000)
    with caplog.at_level(logging.WARNING):
        start(cluster, ack_wait_ms=5_000, max_deliveries=0)
    assert cluster.count("CreateChannel") == 0
    (record,) = caplog.records
    assert "ack_wait_ms=7000, not 5000" in record.getMessage()


def test_without_create_a_missing_channel_is_an_error(cluster: FakeCluster, channels: FakeChannels) -> None:
    with pytest.raises(errors.UnknownChannelError, match=r"orders.*billing"):
        start(cluster, create=False)
    assert cluster.count("CreateChannel") == 0


def test_a_broker_that_lags_is_not_believed(cluster: FakeCluster, channels: FakeChannels) -> None:
    channels.make()
    channels.unaware = {BROKERS[0]}

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.worker(TOPIC, channel=CHANNEL, create=False):
            channels.unaware = set()

    cluster.run(work)


@pytest.mark.parametrize(
    "option",
    [
        {"ack_wait_ms": 99},
        {"ack_wait_ms": "30"},
        {"max_deliveries": -1},
        {"order_by_key": 1},
        {"dead_letter_topic": 5},
        {"dead_letter_topic": "dead-\ud800"},
        {"start": "sometime"},
        {"start": 0},
        {"start": True},
        {"expired": "maybe"},
    ],
)
def test_options_that_no_channel_has_are_refused_before_anybody_is_asked(
    cluster: FakeCluster, channels: FakeChannels, option: dict[str, Any]
) -> None:
    with pytest.raises(errors.ConfigError):
        start(cluster, **option)
    assert cluster.count("CreateChannel") == 0
