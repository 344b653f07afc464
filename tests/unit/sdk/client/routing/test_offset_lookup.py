"""Offsets of many partitions at once: what fails for good is told, whatever is tried again beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.routing.offset_lookup import LATEST, FoundOffset
from oncelog.types import PartitionId, TopicPartition
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster

Answer = FoundOffset | errors.OncelogError
P0, P1 = PartitionId(TOPIC_ID, 0), PartitionId(TOPIC_ID, 1)
FOUND = FoundOffset(7, -1, 0)


async def looked_up(cluster: FakeCluster, answers: Mapping[PartitionId, list[Answer]], timeout_ms: int = 3_000) -> Any:
    """`try_find` of both partitions; each round takes a partition's next answer, the last one again and again."""
    async with cluster.client() as client:
        consumer = client.consumer()
        await consumer.assign([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])

        async def ask(_address: str, keys: list[PartitionId], *_: Any) -> dict[PartitionId, Answer]:
            return {key: answers[key].pop(0) if len(answers[key]) > 1 else answers[key][0] for key in keys}

        consumer._positions._lookup._ask = ask  # type: ignore[method-assign]
        return await consumer._positions._lookup.try_find(dict.fromkeys((P0, P1), LATEST), "read_committed", timeout_ms)


def test_a_partition_that_failed_for_good_is_told_after_another_was_tried_again() -> None:
    async def work(cluster: FakeCluster) -> None:
        lost = errors.StorageError("its log is being recovered")
        final = errors.InvalidRequestError("no")
        found, failed = await looked_up(cluster, {P0: [final], P1: [errors.NotLeaderError(), FOUND]})
        assert (found, failed) == ({P1: FOUND}, {P0: final})
        found, failed = await looked_up(cluster, {P0: [final], P1: [errors.NotLeaderError(), lost, FOUND]})
        assert set(found) | set(failed) == {P0, P1}

    FakeCluster().run(work)


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_leader_that_has_not_heard_of_the_topic_yet_is_asked_again(rounds: int) -> None:
    async def work(cluster: FakeCluster) -> None:
        unknown: list[Answer] = [errors.UnknownTopicError("no such partition")] * rounds
        assert await looked_up(cluster, {P0: [*unknown, FOUND], P1: [FOUND]}) == ({P0: FOUND, P1: FOUND}, {})

    FakeCluster().run(work)


def test_a_topic_that_stays_unknown_is_not_looked_for_until_the_deadline() -> None:
    async def work(cluster: FakeCluster) -> None:
        gone: list[Answer] = [errors.UnknownTopicError("no such partition")]
        found, failed = await looked_up(cluster, {P0: gone, P1: [FOUND]}, timeout_ms=3_600_000)
        assert set(failed) == {P0}
        assert set(found) == {P1}

    FakeCluster().run(work)
