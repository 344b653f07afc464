"""Topics are kept complete: missing partitions come, those of deleted topics go, and what waits is found after a restore."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from oncelog.core.names import waiting_topic
from oncelog.types import PartitionId
from oncelog_partition_leader.log.topic_config import TopicConfig, effective
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import (
    INTERNAL_TOPICS,
    LOGS_TOLD_KEY,
    Cluster,
    Topic,
    partition_key,
    topic_key,
)
from tests.unit.partition_leader.cluster.topics.making import Making, run

DAY_MS = 24 * 3_600_000


def test_internal_topics_come_when_there_are_brokers_enough() -> None:
    async def scenario(making: Making) -> None:
        await making.upkeep.reconcile()
        assert not making.place.view.topics, "nobody has founded the cluster yet"
        await making.place.put(cluster_keys.CLUSTER_KEY, Cluster("c", 2, 3).encode())
        await making.upkeep.reconcile()
        assert not making.place.view.topics
        await making.place.register(2)
        await making.upkeep.reconcile()
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
        await making.upkeep.reconcile()
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
        await making.upkeep.reconcile()
        await making.place.seen()
        assert {making.place.view.topics[name].value.config["segment_bytes"] for name in made} == {"1000"}

    run(scenario)


def test_what_a_controller_left_half_done_is_finished() -> None:
    async def scenario(making: Making) -> None:
        await making.place.topic(partitions=120)
        await making.upkeep.reconcile()
        assert making.partitions() == list(range(120))

    run(scenario)


def test_partitions_go_with_the_tombstone_of_their_topic_and_never_by_absence() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        await making.place.delete(topic_key("t"))
        await making.upkeep.reconcile()
        assert making.partitions() == [0, 1]
        await making.tombstone(topic.topic_id, making.place.clock.now_ms())
        await making.upkeep.reconcile()
        assert making.partitions() == []

    run(scenario)


def test_partitions_that_another_removes_meanwhile_are_no_trouble() -> None:
    async def scenario(making: Making) -> None:
        place = making.place
        topic, _ = await making.create(partitions=120)
        await making.upkeep.reconcile()
        await place.delete(topic_key("t"))
        await making.tombstone(topic.topic_id, place.clock.now_ms())

        async def remove() -> None:
            await place.delete(*(partition_key(topic.topic_id, number) for number in range(110, 120)))

        place.metadata.before_commit = remove
        await making.upkeep.reconcile()
        await making.upkeep.reconcile()
        assert making.partitions() == []

    run(scenario)


def test_a_waiting_topic_goes_with_its_topic_and_never_because_a_view_lags_behind() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        waiting, _ = await making.create("__delayed.t")
        await making.upkeep.reconcile()
        known = making.place.view.topics.pop("t")  # this view has not seen it
        await making.upkeep.reconcile()
        assert waiting.topic_id not in making.place.view.deleted_topics
        making.place.view.topics["t"] = known
        await making.tombstone(topic.topic_id, making.place.clock.now_ms())
        await making.place.delete(topic_key("t"))
        await making.upkeep.reconcile()
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
        await making.upkeep.reconcile()
        await making.place.seen()
        assert sorted(making.place.view.deleted_topics) == ["2" * 32, "4" * 32]

    run(scenario, deleted_topics_retention_ms=DAY_MS)


# ---------------------------------------------------------------- after a restore of etcd


async def forgotten_waiting_topic(making: Making) -> Topic:
    """A topic with a waiting topic, of which the restored etcd knows nothing. Returns that one."""
    topic, _ = await making.create()
    waiting, _ = await making.create(waiting_topic(topic.name))
    keys = [partition_key(waiting.topic_id, number) for number in range(waiting.partitions)]
    await making.restore(topic_key(waiting.name), *keys)
    return waiting


async def settle(making: Making) -> None:
    """Looks, lets the brokers answer, and looks again, as the controller does when one has."""
    for _ in range(4):
        await making.upkeep.reconcile()
        await asyncio.sleep(1)
        await making.place.seen()


def test_a_waiting_topic_is_made_again_when_a_broker_keeps_its_log() -> None:
    async def scenario(making: Making) -> None:
        waiting = await forgotten_waiting_topic(making)
        making.kept = {0: [PartitionId(waiting.topic_id, 1)], 1: [], 2: []}
        await settle(making)
        assert making.place.view.topics[waiting.name].value == waiting
        state = await making.place.state(PartitionId(waiting.topic_id, 1))
        assert (state.leader, state.leader_epoch, state.replicas[0]) == (None, -1, 0)
        assert making.place.view.logs_are_told

    run(scenario)


def test_a_topic_nothing_of_which_waits_gets_no_waiting_topic() -> None:
    async def scenario(making: Making) -> None:
        waiting = await forgotten_waiting_topic(making)
        making.kept = {0: [], 1: [PartitionId("9" * 32, 0)], 2: []}
        await settle(making)
        assert waiting.name not in making.place.view.topics
        assert making.place.view.logs_are_told

    run(scenario)


def test_what_was_deleted_is_not_made_again() -> None:
    async def scenario(making: Making) -> None:
        waiting = await forgotten_waiting_topic(making)
        await making.tombstone(waiting.topic_id, making.place.clock.now_ms(), waiting.name)
        making.kept = {0: [PartitionId(waiting.topic_id, 0)], 1: [], 2: []}
        await settle(making)
        assert waiting.name not in making.place.view.topics

    run(scenario)


def test_that_the_logs_are_told_is_written_once_and_for_this_restore_only() -> None:
    async def scenario(making: Making) -> None:
        place = making.place
        await making.create()
        await making.upkeep.reconcile()
        assert await place.etcd.get(LOGS_TOLD_KEY) is None, "there was no restore"
        await making.restore()
        making.kept = {0: [], 1: []}
        await settle(making)
        assert not place.view.logs_are_told, "one broker has not answered"
        making.kept[2] = []
        await settle(making)
        told = await place.etcd.get(LOGS_TOLD_KEY)
        await settle(making)
        assert told is not None
        assert await place.etcd.get(LOGS_TOLD_KEY) == told
        await making.restore()
        assert not place.view.logs_are_told

    run(scenario)


def test_a_partition_that_is_not_made_yet_keeps_the_question_open() -> None:
    """A broker that keeps its log has answered, and too few brokers are there to make it."""

    async def scenario(making: Making) -> None:
        topic, _ = await making.create(replicas=3)
        waiting, _ = await making.create(waiting_topic(topic.name))
        await making.restore(
            topic_key(waiting.name), *(partition_key(waiting.topic_id, n) for n in range(2)), brokers=2
        )
        await making.place.leave(2)
        await making.place.put(cluster_keys.decommission_key(2), b"{}")
        making.kept = {0: [PartitionId(waiting.topic_id, 0)], 1: []}
        await settle(making)
        assert waiting.name in making.place.view.topics
        assert not making.place.view.logs_are_told
        making.kept[2] = [PartitionId(waiting.topic_id, 1)]
        await making.place.register(2)
        await settle(making)
        assert making.place.view.logs_are_told

    run(scenario)


def test_in_the_first_seconds_it_is_not_written_that_the_logs_are_told() -> None:
    """Brokers that the backup does not name may register yet, and keep what waits."""

    async def scenario(making: Making) -> None:
        await making.create()
        await making.restore()
        making.kept = {0: [], 1: [], 2: []}
        for _ in range(2):
            await making.upkeep.reconcile()
            await asyncio.sleep(1)
        assert making.survey.result().is_early
        assert not making.survey.result().missing
        assert not making.place.view.logs_are_told
        await settle(making)
        assert making.place.view.logs_are_told

    run(scenario)


def test_a_topic_that_was_made_after_the_restore_waits_for_no_broker() -> None:
    async def scenario(making: Making) -> None:
        await making.restore(brokers=2)
        making.kept = {0: [], 1: []}
        large, _ = await making.create(partitions=51)
        await settle(making)
        assert making.partitions() == list(range(51))
        state = await making.place.state(PartitionId(large.topic_id, 50))
        assert state.leader is not None
        small, _ = await making.create("small")
        waiting, _ = await making.create(waiting_topic(small.name))
        state = await making.place.state(PartitionId(waiting.topic_id, 0))
        assert (making.place.view.logs_are_told, state.leader is not None) == (False, True)
        await making.restore(brokers=2)
        await making.place.delete(partition_key(large.topic_id, 50))
        await settle(making)
        assert PartitionId(large.topic_id, 50) not in making.place.view.partitions, "it is older than this restore"

    run(scenario)


def test_a_partition_that_is_added_again_waits_for_its_keeper_also_under_the_next_controller() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create(replicas=1)
        await making.restore()
        lost = PartitionId(topic.topic_id, 2)
        making.kept, making.seen = {0: [], 1: [], 2: [lost]}, {0, 1, 2}
        await settle(making)
        assert making.place.view.logs_are_told
        await making.place.leave(2)
        following = Making(making.place)
        following.kept, following.seen = {0: [], 1: []}, {0, 1, 2}
        await settle(following)
        await following.alter(partitions=3)
        await settle(following)
        assert lost not in making.place.view.partitions
        await making.place.register(2)
        following.kept[2] = [lost]
        await settle(following)
        assert (await making.place.state(lost)).replicas == (2,)

    run(scenario)
