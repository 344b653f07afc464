"""A topic that could not remember ids for their time is refused, and says what to change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.client.once.id_topic import IdTopic
from oncelog.client.once.refusals import OnceTopicError
from oncelog.errors import UnknownTopicError
from oncelog.types import TopicPartition

DAY_MS = 24 * 3_600_000


class Topics:
    """The topics of a cluster: their partitions and options."""

    def __init__(self, **config: str) -> None:
        self.partitions = {"orders": 3, "returns": 5, "ids": 5}
        self.config = {"retention_ms": "-1", "retention_bytes": "-1", "flush_mode": "fsync", **config}
        self.created: dict[str, Any] = {}
        self.looks = 0

    async def create_topic(
        self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None, if_not_exists: bool = False
    ) -> None:
        assert if_not_exists
        self.created[name] = (partitions, config)

    async def describe_topic(self, name: str) -> Any:
        self.looks += 1
        if name not in self.partitions:
            raise UnknownTopicError.named(name)
        return SimpleNamespace(partitions=[None] * self.partitions[name])

    async def topic_configs(self, name: str) -> Sequence[Any]:
        return [SimpleNamespace(name=option, value=value) for option, value in self.config.items()]


def id_topic(topics: Topics, name: str = "ids") -> IdTopic:
    def no_consumer(**_: object) -> Any:
        raise AssertionError("nothing is read here")

    return IdTopic(name, DAY_MS, topics, no_consumer)


def refusal(topics: Topics, partition: int = 0, name: str = "ids") -> OnceTopicError:
    with pytest.raises(OnceTopicError) as raised:
        asyncio.run(id_topic(topics, name).require(partition))
    return raised.value


def test_it_has_as_many_partitions_as_the_largest_topic_and_keeps_ids_longer_than_they_live() -> None:
    topics = Topics()
    asyncio.run(id_topic(topics).create(["orders", "returns"]))
    assert topics.created == {"ids": (5, {"retention_ms": str(DAY_MS + 3_600_000)})}


def test_it_has_to_be_there() -> None:
    assert "once.create_topic()" in str(refusal(Topics(), name="nowhere"))


def test_each_partition_needs_its_own() -> None:
    found = refusal(Topics(), partition=5)
    assert "add_partitions" in str(found)
    assert found.context["needed"] == "6"


@pytest.mark.parametrize(
    "config", [{"retention_ms": str(DAY_MS - 1)}, {"retention_bytes": "1000000000"}, {"retention_ms": "0"}]
)
def test_a_topic_that_forgets_too_early_is_refused(config: dict[str, str]) -> None:
    [name] = config
    assert name in str(refusal(Topics(**config)))


@pytest.mark.parametrize("retention_ms", ["-1", str(DAY_MS), str(2 * DAY_MS)])
def test_a_good_topic_is_looked_at_once(retention_ms: str) -> None:
    topics = Topics(retention_ms=retention_ms)

    async def main() -> None:
        ids = id_topic(topics)
        for partition in range(5):
            await ids.require(partition)

    asyncio.run(main())
    assert topics.looks == 1


def test_a_topic_that_grew_is_looked_at_again() -> None:
    topics = Topics()

    async def main() -> None:
        ids = id_topic(topics)
        await ids.require(4)
        topics.partitions["ids"] = 6
        await ids.require(5)

    asyncio.run(main())


def test_keys_of_one_id_in_two_places_differ() -> None:
    ids = id_topic(Topics())
    places = [
        ("g", TopicPartition("orders", 0)),
        ("h", TopicPartition("orders", 0)),
        ("g", TopicPartition("orders", 1)),
    ]
    assert len({ids.key(group_id, of, "id") for group_id, of in places}) == 3
