"""Topics are made, changed and deleted by one commit each, after all checks, and copies of a call change nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.names import waiting_topic
from oncelog.types import PartitionId
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, Topic, partition_key, topic_key
from oncelog_runtime.metadata.waiting_topics import waiting_topic_id
from tests.unit.partition_leader.cluster.topics.making import Making, run

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


def test_a_copy_of_a_call_gives_another_id_after_a_restore_unless_logs_are_kept_under_the_first() -> None:
    """Brokers with these logs may be away: they would be taken for logs of a topic that was moved."""

    async def scenario(making: Making) -> None:
        first, _ = await making.create(nonce="a")
        kept, _ = await making.create("kept", nonce="k")
        assert (first.made_after, kept.made_after) == (0, 0)
        lost = [
            topic_key("t"),
            topic_key("kept"),
            *map(partition_key, *zip(*making.place.view.partitions, strict=True)),
        ]
        await making.restore(*lost)
        making.kept = {0: [PartitionId(kept.topic_id, 0)], 1: []}
        making.survey.look()
        await asyncio.sleep(1)
        again, _ = await making.create(nonce="a")
        assert again.topic_id != first.topic_id
        assert again.made_after == making.place.view.restored_at()
        assert await making.create(nonce="a") == (again, True)
        await making.restore()
        assert await making.create(nonce="a") == (again, True), "it was made after the restore before"
        await making.topics.delete("t", again.topic_id)
        made_again, _ = await making.create("kept", nonce="k")
        assert made_again.topic_id != kept.topic_id, "nobody has told since the last restore"

    run(scenario)


def test_a_copy_of_a_call_gives_the_first_id_when_brokers_keep_its_logs() -> None:
    async def scenario(making: Making) -> None:
        first, _ = await making.create(nonce="a")
        await making.restore(topic_key("t"), *(partition_key(*one) for one in making.place.view.partitions))
        making.kept = {0: [PartitionId(first.topic_id, 0)], 1: [], 2: []}
        making.survey.look()
        await asyncio.sleep(1)
        again, _ = await making.create(nonce="a")
        assert (again.topic_id, again.made_after) == (first.topic_id, 0)

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


async def lost(making: Making, name: str, nonce: str) -> Topic:
    """A call loses against another one, whose topic is known when it does. Returns the topic of that one."""
    made: list[Topic] = []

    async def another() -> None:
        made.append((await making.create(name, nonce="another"))[0])

    making.place.metadata.before_commit = another
    with pytest.raises(errors.RequestTimedOutError) as failed:
        await making.create(name, if_not_exists=True, nonce=nonce)
    assert failed.value.retriable
    assert making.place.view.topic(name) == made[0]
    return made[0]


@pytest.mark.parametrize("name", ["t", waiting_topic("base")])
def test_a_call_that_loses_against_another_one_finds_its_topic_at_the_next_try(name: str) -> None:
    async def scenario(making: Making) -> None:
        await making.create("base")
        made = await lost(making, name, "mine")
        assert await making.create(name, if_not_exists=True, nonce="mine") == (made, False)

    run(scenario)


def test_a_call_that_lost_and_wants_a_topic_of_its_own_is_refused_at_the_next_try() -> None:
    async def scenario(making: Making) -> None:
        await lost(making, "t", "mine")
        with pytest.raises(errors.TopicExistsError):
            await making.create(nonce="mine")

    run(scenario)


def test_a_copy_of_a_call_that_comes_with_the_first_one_gets_the_same_answer_at_the_next_try() -> None:
    async def scenario(making: Making) -> None:
        made = await lost(making, "t", "another")
        assert await making.create(nonce="another") == (made, True)

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


def test_after_a_restore_a_deletion_covers_a_waiting_topic_that_etcd_does_not_know() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        await making.restore()
        await making.topics.delete("t", topic.topic_id)
        assert set(making.place.view.deleted_topics) == {topic.topic_id, waiting_topic_id(topic.topic_id)}

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


# ---------------------------------------------------------------- complete


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
