"""Topics are made, changed and deleted by one commit each, after all checks, and copies of a call change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.names import waiting_topic
from oncelog.types import PartitionId
from oncelog_partition_leader.cluster.topics import Topics
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.log.topic_config import TopicConfig, effective
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import (
    INTERNAL_TOPICS,
    RESTORED_KEY,
    Cluster,
    DeletedTopic,
    Topic,
    deleted_topic_key,
    partition_key,
    topic_key,
)
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import Place

DAY_MS = 24 * 3_600_000


class Making:
    """The topics of a cluster. `charged`: partitions that were made or removed for a caller."""

    def __init__(self, place: Place, **config: Any) -> None:
        self.place = place
        self.charged: list[int] = []
        self.changes = 0
        self.topics = Topics(
            BrokerConfig(node_id=0, **config),
            place.view,
            Random(3),
            place.clock,
            place.commit,
            self._changed,
            self.charged.append,
        )

    def _changed(self) -> None:
        self.changes += 1

    async def create(
        self, name: str = "t", partitions: int = 2, replicas: int = 2, nonce: str = "", **more: Any
    ) -> tuple[Topic, bool]:
        options = {"if_not_exists": False, **more}
        return await self.topics.create(name, partitions, replicas, {}, nonce=nonce, **options)

    async def alter(self, partitions: int = 0, **more: Any) -> tuple[Topic, bool]:
        options = {"validate_only": False, **more}
        return await self.topics.alter("t", {}, (), partitions, **options)

    def partitions(self) -> list[int]:
        return sorted(partition.partition for partition in self.place.view.partitions)

    async def tombstone(self, topic_id: str, deleted_ms: int, name: str = "t") -> None:
        await self.place.put(deleted_topic_key(topic_id), DeletedTopic(name, deleted_ms).encode())


def run(scenario: Callable[[Making], Awaitable[None]], brokers: int = 3, **config: Any) -> None:
    async def whole(place: Place) -> None:
        await scenario(Making(place, **config))

    cluster_place.run(whole, brokers=brokers)


# ---------------------------------------------------------------- creating


def test_a_small_topic_is_there_with_all_its_partitions_at_once() -> None:
    async def scenario(making: Making) -> None:
        topic, created = await making.create()
        assert created
        assert making.partitions() == [0, 1]
        state = await making.place.state(PartitionId(topic.topic_id, 0))
        assert len(state.replicas) == 2
        assert (state.leader, state.leader_epoch) == (state.isr[0], 0)
        assert (making.charged, making.changes) == ([2], 1)
        assert len(making.place.metadata.commits) == 1

    run(scenario)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": "a b"}, errors.InvalidTopicError),
        ({"name": "__mine"}, errors.InvalidTopicError),
        ({"nonce": "x" * 65}, errors.InvalidRequestError),
        ({"partitions": 0}, errors.InvalidPartitionsError),
        ({"partitions": 51}, errors.InvalidPartitionsError),
        ({"replicas": 4}, errors.InvalidReplicationFactorError),
        ({"replicas": -1}, errors.InvalidReplicationFactorError),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_nothing_is_written(
    change: dict[str, Any], error: type[errors.OncelogError]
) -> None:
    async def scenario(making: Making) -> None:
        with pytest.raises(error):
            await making.create(**change)
        assert making.place.metadata.commits == []
        assert making.charged == []

    run(scenario, partitions_max=50)


def test_the_default_number_of_replicas_is_never_silently_fewer() -> None:
    async def scenario(making: Making) -> None:
        with pytest.raises(errors.InvalidReplicationFactorError, match="default"):
            await making.create(replicas=0)

    run(scenario, brokers=2)


def test_a_broker_without_room_refuses_the_topic() -> None:
    async def scenario(making: Making) -> None:
        await making.place.register(1, partitions_max=1)
        with pytest.raises(errors.PolicyViolationError, match="broker 1 takes 1"):
            await making.create(replicas=3)

    run(scenario)


def test_a_name_that_is_taken_is_refused_or_found() -> None:
    async def scenario(making: Making) -> None:
        first, _ = await making.create()
        with pytest.raises(errors.TopicExistsError):
            await making.create()
        assert await making.create(if_not_exists=True) == (first, False)

    run(scenario)


def test_a_copy_of_a_call_makes_nothing_whenever_it_comes() -> None:
    async def scenario(making: Making) -> None:
        first, _ = await making.create(nonce="a")
        assert await making.create(nonce="a") == (first, True), "it is the answer of the first one"
        await making.topics.delete("t", first.topic_id)
        with pytest.raises(errors.UnknownTopicError, match="over"):
            await making.create(nonce="a")
        again, _ = await making.create(nonce="b")
        assert again.topic_id != first.topic_id

    run(scenario)


def test_a_copy_of_a_call_that_was_refused_makes_nothing_when_the_name_is_free_again() -> None:
    async def scenario(making: Making) -> None:
        first, _ = await making.create(nonce="a")
        with pytest.raises(errors.TopicExistsError):
            await making.create(nonce="b")
        await making.topics.delete("t", first.topic_id)
        with pytest.raises(errors.UnknownTopicError):
            await making.create(nonce="b")

    run(scenario)


def test_a_cluster_that_changes_meanwhile_asks_to_try_again() -> None:
    async def scenario(making: Making) -> None:
        async def restart() -> None:
            await making.place.register(1)

        making.place.metadata.before_commit = restart
        with pytest.raises(errors.RequestTimedOutError):
            await making.create(replicas=3)
        assert making.partitions() == []

    run(scenario)


def test_who_is_out_of_use_or_drains_gets_no_replicas_while_others_are_there() -> None:
    async def scenario(making: Making) -> None:
        await making.place.put(cluster_keys.decommission_key(1), b"{}")
        await making.create(partitions=3)
        assert all(1 not in entry.value.replicas for entry in making.place.view.partitions.values())
        await making.create("u", replicas=3)

    run(scenario)


# ---------------------------------------------------------------- altering


def test_new_partitions_come_with_the_commit_that_names_them() -> None:
    async def scenario(making: Making) -> None:
        await making.create()
        topic, changed = await making.alter(5)
        assert (topic.partitions, changed, making.partitions()) == (5, True, [0, 1, 2, 3, 4])
        assert making.charged == [2, 3]
        assert await making.alter(5) == (topic, False), "safe to repeat"

    run(scenario)


def test_a_look_at_what_would_be_writes_nothing() -> None:
    async def scenario(making: Making) -> None:
        await making.create()
        topic, changed = await making.alter(5, validate_only=True)
        assert (topic.partitions, changed, making.partitions()) == (5, True, [0, 1])
        assert making.charged == [2]

    run(scenario)


@pytest.mark.parametrize("partitions", [1, 51, -1])
def test_partitions_never_become_fewer_nor_too_many(partitions: int) -> None:
    async def scenario(making: Making) -> None:
        await making.create()
        with pytest.raises(errors.InvalidPartitionsError):
            await making.alter(partitions)

    run(scenario, partitions_max=50)


def test_too_few_brokers_make_no_more_partitions() -> None:
    async def scenario(making: Making) -> None:
        await making.create(replicas=3)
        await making.place.leave(2)
        with pytest.raises(errors.InvalidReplicationFactorError):
            await making.alter(5)

    run(scenario)


@pytest.mark.parametrize("call", ["alter", "delete"])
def test_the_clusters_own_topics_and_other_topics_of_the_name_are_not_touched(call: str) -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()

        async def do(name: str, topic_id: str = "") -> None:
            if call == "alter":
                await making.topics.alter(name, {}, (), 9, validate_only=False, topic_id=topic_id)
            else:
                await making.topics.delete(name, topic_id)

        with pytest.raises(errors.InvalidTopicError):
            await do(INTERNAL_TOPICS[0])
        with pytest.raises(errors.UnknownTopicError):
            await do("unknown")
        with pytest.raises(errors.UnknownTopicError):
            await do("t", "f" * 32)
        assert making.place.view.topics["t"].value == topic

    run(scenario)


# ---------------------------------------------------------------- deleting


def test_a_deletion_writes_the_tombstone_and_its_copy_is_answered_alike() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        for _ in range(2):
            assert await making.topics.delete("t", topic.topic_id) == topic.topic_id
        assert topic.topic_id in making.place.view.deleted_topics
        assert making.charged == [2, 2], "the copy removes nothing"

    run(scenario)


def test_a_name_that_meant_another_topic_lately_has_to_be_said_by_id() -> None:
    async def scenario(making: Making) -> None:
        first, _ = await making.create()
        await making.topics.delete("t", first.topic_id)
        second, _ = await making.create()
        with pytest.raises(errors.InvalidRequestError, match="topic_id"):
            await making.topics.delete("t")
        assert await making.topics.delete("t", second.topic_id) == second.topic_id

    run(scenario)


# ---------------------------------------------------------------- keeping complete


def test_internal_topics_come_when_there_are_brokers_enough() -> None:
    async def scenario(making: Making) -> None:
        await making.topics.reconcile()
        assert not making.place.view.topics, "nobody has founded the cluster yet"
        await making.place.put(cluster_keys.CLUSTER_KEY, Cluster("c", 2, 3).encode())
        await making.topics.reconcile()
        assert not making.place.view.topics
        await making.place.register(2)
        await making.topics.reconcile()
        found = {name: entry.value.partitions for name, entry in making.place.view.topics.items()}
        assert found == {cluster_keys.TRANSACTION_TOPIC: 2, cluster_keys.OFFSETS_TOPIC: 3}
        config = making.place.view.topics[cluster_keys.OFFSETS_TOPIC].value.config
        assert (config["flush_mode"], config["min_insync_replicas"]) == ("fsync", "2")
        assert (config["cleanup_policy"], config["retention_ms"], config["retention_bytes"]) == ("delete", "-1", "-1")
        effective(config, TopicConfig())

    run(scenario, brokers=2)


def test_internal_topics_of_an_older_version_get_the_options_of_this_one() -> None:
    """Old: compacted by brokers, who do not know what a coordinator needs. Other options, and newer ones, stay."""

    async def scenario(making: Making) -> None:
        await making.place.put(cluster_keys.CLUSTER_KEY, Cluster("c", 2, 3).encode())
        old = {"cleanup_policy": "compact", "segment_bytes": str(100 << 20), "min_insync_replicas": "2", "later": "x"}
        made = {name: Topic(name, str(at) * 32, 2, 3, old) for at, name in enumerate(INTERNAL_TOPICS, 1)}
        for name, topic in made.items():
            await making.place.put(topic_key(name), topic.encode())
        await making.topics.reconcile()
        await making.place.seen()
        for name, topic in made.items():
            found = making.place.view.topics[name].value
            assert (found.topic_id, found.partitions) == (topic.topic_id, 2)
            kept = (found.config["min_insync_replicas"], found.config["later"])
            assert kept == ("2", "x")
            assert found.config["retention_ms"] == "-1", "or the policy would delete what is needed"
            assert (found.config["cleanup_policy"], found.config["segment_bytes"]) == ("delete", str(8 << 20))
            newer = {**found.config, "segment_bytes": "1000"}
            await making.place.put(topic_key(name), replace(found, config=newer).encode())
        await making.topics.reconcile()
        await making.place.seen()
        assert {making.place.view.topics[name].value.config["segment_bytes"] for name in made} == {"1000"}

    run(scenario)


def test_what_a_controller_left_half_done_is_finished() -> None:
    async def scenario(making: Making) -> None:
        await making.place.topic(partitions=120)
        await making.topics.reconcile()
        assert making.partitions() == list(range(120))

    run(scenario)


def test_partitions_go_with_the_tombstone_of_their_topic_and_never_by_absence() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        await making.place.delete(topic_key("t"))
        await making.topics.reconcile()
        assert making.partitions() == [0, 1]
        await making.tombstone(topic.topic_id, making.place.clock.now_ms())
        await making.topics.reconcile()
        assert making.partitions() == []

    run(scenario)


def test_partitions_that_another_removes_meanwhile_are_no_trouble() -> None:
    async def scenario(making: Making) -> None:
        place = making.place
        topic, _ = await making.create(partitions=120)
        await making.topics.reconcile()
        await place.delete(topic_key("t"))
        await making.tombstone(topic.topic_id, place.clock.now_ms())

        async def remove() -> None:
            await place.delete(*(partition_key(topic.topic_id, number) for number in range(110, 120)))

        place.metadata.before_commit = remove
        await making.topics.reconcile()
        await making.topics.reconcile()
        assert making.partitions() == []

    run(scenario)


def test_a_waiting_topic_goes_with_its_topic_and_never_because_a_view_lags_behind() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        waiting, _ = await making.create("__delayed.t")
        await making.topics.reconcile()
        known = making.place.view.topics.pop("t")  # this view has not seen it
        await making.topics.reconcile()
        assert waiting.topic_id not in making.place.view.deleted_topics
        making.place.view.topics["t"] = known
        await making.tombstone(topic.topic_id, making.place.clock.now_ms())
        await making.place.delete(topic_key("t"))
        await making.topics.reconcile()
        await asyncio.sleep(1)
        assert "__delayed.t" not in making.place.view.topics
        assert waiting.topic_id in making.place.view.deleted_topics

    run(scenario)


def test_a_tombstone_stays_for_its_time_and_that_of_a_refused_call_for_ten_minutes() -> None:
    async def scenario(making: Making) -> None:
        now_ms = making.place.clock.now_ms()
        ages = {"1" * 32: ("t", 2 * DAY_MS), "2" * 32: ("t", DAY_MS // 2), "3" * 32: ("", 700_000), "4" * 32: ("", 1)}
        for topic_id, (name, age_ms) in ages.items():
            await making.tombstone(topic_id, now_ms - age_ms, name)
        await making.topics.reconcile()
        await making.place.seen()
        assert sorted(making.place.view.deleted_topics) == ["2" * 32, "4" * 32]

    run(scenario, deleted_topics_retention_ms=DAY_MS)


def test_after_a_restore_of_etcd_a_missing_partition_is_a_guess() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        await making.place.put(RESTORED_KEY, b"1")
        making.place.view.restart(await making.place.etcd.list("/oncelog/"))
        await making.place.delete(partition_key(topic.topic_id, 1))
        await making.topics.reconcile()
        state = await making.place.state(PartitionId(topic.topic_id, 1))
        assert (state.leader, state.leader_epoch) == (None, -1), "its log may be there"

    run(scenario)


def test_after_a_restore_of_etcd_a_waiting_topic_that_is_made_again_is_a_guess() -> None:
    """Its id follows from its topic's, so it has the logs that it had, of which one may be shorter or lost. Seed 5012."""

    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        first, _ = await making.create(waiting_topic(topic.name))
        state = await making.place.state(PartitionId(first.topic_id, 0))
        assert state.leader is not None, "no log was there before"
        await making.place.put(RESTORED_KEY, b"1")
        for key in (topic_key(first.name), *(partition_key(first.topic_id, n) for n in range(first.partitions))):
            await making.place.delete(key)
        making.place.view.restart(await making.place.etcd.list("/oncelog/"))
        again, created = await making.create(waiting_topic(topic.name))
        assert (again.topic_id, created) == (first.topic_id, True)
        state = await making.place.state(PartitionId(again.topic_id, 0))
        assert (state.leader, state.leader_epoch) == (None, -1)

    run(scenario)


def test_a_topic_is_complete_when_every_partition_has_a_leader() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        partition = PartitionId(topic.topic_id, 1)
        await making.place.lead(partition, leader=None, isr=(0, 1))
        waiting = asyncio.ensure_future(making.topics.complete(topic))
        await asyncio.sleep(1)
        assert not waiting.done()
        await making.place.lead(partition, isr=(0, 1))
        await waiting

    run(scenario)
