"""Options that contradict the promise of `Client.once` are refused by name, before anything is read."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import ConfigError, InvalidGroupIdError
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster


def refusal(*topics: str, **options: Any) -> str:
    """What is said about these options."""
    cluster = FakeCluster()

    async def main(_: FakeCluster) -> str:
        async with cluster.client() as client:
            with pytest.raises(ConfigError) as raised:
                client.once(*topics, **{"group_id": "g", **options})
            assert cluster.count("GroupHeartbeat") == 0
            return str(raised.value)

    return cluster.run(main)


@pytest.mark.parametrize(
    ("where", "options"),
    [
        ("reading", {"group_id": "other"}),
        ("reading", {"delivery": "at_least_once"}),
        ("reading", {"enable_auto_commit": True}),
        ("reading", {"enable.auto.commit": True}),
        ("reading", {"isolation_level": "read_uncommitted"}),
        ("reading", {"skip_lost_transactions": True}),
        ("writing", {"transactional_id": "mine"}),
        ("writing", {"delivery": "exactly_once"}),
        ("writing", {"acks": 1}),
        ("writing", {"enable_idempotence": False}),
        ("writing", {"value_serializer": str.encode}),
        ("writing", {"key.serializer": str.encode}),
    ],
)
def test_an_option_that_breaks_the_promise_is_named(where: str, options: dict[str, Any]) -> None:
    [name] = options
    assert name.replace(".", "_") in refusal(TOPIC, **{where: options})


def test_a_topic_is_needed() -> None:
    assert "at least one topic" in refusal()


def test_ids_are_kept_for_some_time() -> None:
    assert "remember_ids_ms is at least 1" in refusal(TOPIC, id_header="id", remember_ids_ms=0)


def test_a_topic_of_ids_needs_ids() -> None:
    assert "id_header" in refusal(TOPIC, ids_topic="ids")


def test_a_group_has_a_name() -> None:
    cluster = FakeCluster()

    async def main(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(InvalidGroupIdError):
                client.once(TOPIC, group_id="")

    cluster.run(main)
