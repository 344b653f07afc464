"""What this process does not see is looked for, once for all who ask at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import PartitionId
from oncelog_coordinator.effects.known_topics import KnownTopics
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import PARTITIONS, TXN_TOPIC_ID, USER_TOPIC_ID, Cluster

NEW = "b" * 32


class Etcd(Cluster):
    """Counts its listings, and may fail or be slow."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.fail: list[errors.OncelogError] = []
        self.delay_s = 0.01

    async def list(self, prefix: str) -> Any:
        self.looks += 1
        await asyncio.sleep(self.delay_s)
        if self.fail:
            raise self.fail.pop(0)
        return await super().list(prefix)


def run(scenario: Any) -> None:
    async def whole() -> None:
        etcd = Etcd()
        await scenario(etcd, KnownTopics(etcd, etcd.view))  # type: ignore[arg-type]

    with SimWorld(1) as world:
        world.run(whole())


def test_what_the_view_shows_needs_no_look() -> None:
    async def scenario(etcd: Etcd, topics: KnownTopics) -> None:
        await topics.require([PartitionId(USER_TOPIC_ID, partition) for partition in range(PARTITIONS)])
        assert etcd.looks == 0

    run(scenario)


def test_a_topic_that_only_etcd_knows_yet_is_found() -> None:
    async def scenario(etcd: Etcd, topics: KnownTopics) -> None:
        etcd.items[cluster_keys.topic_key("new")] = cluster_keys.Topic("new", NEW, 2, 1).encode()
        await topics.require([PartitionId(NEW, 1)])
        with pytest.raises(errors.UnknownTopicError):
            await topics.require([PartitionId(NEW, 2)])

    run(scenario)


def test_the_clusters_own_topics_and_what_does_not_exist_are_refused() -> None:
    async def scenario(_etcd: Etcd, topics: KnownTopics) -> None:
        with pytest.raises(errors.InvalidTopicError):
            await topics.require([PartitionId(TXN_TOPIC_ID, 0)])
        for unknown in (PartitionId(NEW, 0), PartitionId(USER_TOPIC_ID, PARTITIONS)):
            with pytest.raises(errors.UnknownTopicError):
                await topics.require([unknown])

    run(scenario)


def test_a_crowd_of_strangers_costs_two_looks_and_a_pause() -> None:
    async def scenario(etcd: Etcd, topics: KnownTopics) -> None:
        crowd = [asyncio.ensure_future(topics.look()) for _ in range(1_000)]
        await asyncio.gather(*crowd)
        looks = etcd.looks
        assert looks <= 2, "one, and one for those who came while it was under way"
        began_s = asyncio.get_running_loop().time()
        await topics.look()
        assert etcd.looks == looks + 1, "a look that began before the question proves nothing"
        assert asyncio.get_running_loop().time() - began_s >= 0.09

    run(scenario)


def test_a_look_that_fails_is_made_again_by_the_next_who_asks() -> None:
    async def scenario(etcd: Etcd, topics: KnownTopics) -> None:
        etcd.fail = [errors.MetadataUnavailableError()]
        both = await asyncio.gather(topics.look(), topics.look(), return_exceptions=True)
        assert isinstance(both[0], errors.MetadataUnavailableError)
        assert not isinstance(both[1], BaseException)

    run(scenario)


def test_a_look_without_an_answer_keeps_nobody_waiting_for_the_next_one() -> None:
    async def scenario(etcd: Etcd, topics: KnownTopics) -> None:
        etcd.delay_s, etcd.fail = 3.0, [errors.MetadataUnavailableError()]
        with pytest.raises(errors.MetadataUnavailableError):
            await topics.look()
        etcd.delay_s, before_s = 0.01, asyncio.get_running_loop().time()
        await topics.look()
        assert asyncio.get_running_loop().time() - before_s < 1

    run(scenario)
