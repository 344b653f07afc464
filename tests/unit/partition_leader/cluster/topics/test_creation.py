"""New partitions are empty and led at once; those that may have logs are made where these lie, and lead nothing yet."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.core.names import waiting_topic
from oncelog.types import PartitionId
from oncelog_runtime.metadata.cluster_keys import LOGS_TOLD_KEY, Topic, partition_key, topic_key
from tests.unit.partition_leader.cluster.topics.making import Making, run


async def told(making: Making, **kept: list[PartitionId]) -> None:
    """These brokers answer which logs they keep."""
    making.kept = {int(name.removeprefix("broker_")): partitions for name, partitions in kept.items()}
    making.survey.look()
    await asyncio.sleep(4)


async def forgotten(making: Making, replicas: int = 2) -> Topic:
    """A waiting topic of one partition that the restored etcd does not know."""
    topic, _ = await making.create(partitions=1, replicas=replicas)
    waiting, _ = await making.create(waiting_topic(topic.name))
    assert (await making.place.state(PartitionId(waiting.topic_id, 0))).leader is not None, "no log was there before"
    await making.restore(topic_key(waiting.name), partition_key(waiting.topic_id, 0))
    return waiting


def test_after_a_restore_of_etcd_a_missing_partition_is_a_guess() -> None:
    async def scenario(making: Making) -> None:
        topic, _ = await making.create()
        await making.restore()
        await making.place.delete(partition_key(topic.topic_id, 1))
        await told(making, broker_0=[], broker_1=[], broker_2=[])
        await making.upkeep.reconcile()
        state = await making.place.state(PartitionId(topic.topic_id, 1))
        assert (state.leader, state.leader_epoch) == (None, -1), "its log may be there"

    run(scenario)


def test_after_a_restore_of_etcd_a_waiting_topic_that_is_made_again_is_a_guess() -> None:
    """Its id follows from its topic's, so it has the logs that it had, of which one may be shorter or lost. Seed 5012."""

    async def scenario(making: Making) -> None:
        waiting = await forgotten(making)
        await told(making, broker_0=[], broker_1=[], broker_2=[])
        again, created = await making.create(waiting.name)
        assert (again.topic_id, created) == (waiting.topic_id, True)
        state = await making.place.state(PartitionId(again.topic_id, 0))
        assert (state.leader, state.leader_epoch) == (None, -1)

    run(scenario)


@pytest.mark.parametrize("keeper", [0, 1, 2])
def test_it_is_made_where_its_log_lies(keeper: int) -> None:
    async def scenario(making: Making) -> None:
        waiting = await forgotten(making)
        at = PartitionId(waiting.topic_id, 0)
        await told(making, **{f"broker_{n}": [at] if n == keeper else [] for n in range(3)})
        await making.create(waiting.name)
        state = await making.place.state(at)
        assert state.replicas[0] == keeper
        assert [ref.broker_id for ref in state.isr] == list(state.replicas)
        assert len(state.replicas) == 2

    run(scenario)


def test_while_a_broker_has_not_told_there_is_no_partition_unless_all_its_logs_are_known() -> None:
    async def scenario(making: Making) -> None:
        waiting = await forgotten(making)
        at = PartitionId(waiting.topic_id, 0)
        await told(making, broker_0=[at], broker_1=[])
        await making.create(waiting.name)
        assert at not in making.place.view.partitions, "broker 2 may keep the other log"
        await told(making, broker_0=[at], broker_1=[], broker_2=[at])
        await making.upkeep.reconcile()
        assert set((await making.place.state(at)).replicas) == {0, 2}

    run(scenario)


def test_a_waiting_topic_that_is_new_after_all_was_told_is_led_at_once() -> None:
    async def scenario(making: Making) -> None:
        waiting = await forgotten(making)
        restored_at = making.place.view.restored_at()
        await making.place.put(LOGS_TOLD_KEY, str(restored_at).encode())
        await making.create(waiting.name)
        assert (await making.place.state(PartitionId(waiting.topic_id, 0))).leader is not None

    run(scenario)


def test_a_log_that_a_broker_brings_back_later_is_not_taken_for_nothing() -> None:
    """All that etcd knew of had answered, and a broker of which it did not know comes back with a log."""

    async def scenario(making: Making) -> None:
        waiting = await forgotten(making)
        at, restored_at = PartitionId(waiting.topic_id, 0), making.place.view.restored_at()
        await making.place.put(LOGS_TOLD_KEY, str(restored_at).encode())
        await making.place.register(5)
        await told(making, broker_0=[], broker_1=[], broker_2=[], broker_5=[at])
        await making.create(waiting.name)
        state = await making.place.state(at)
        assert (state.leader, state.replicas[0]) == (None, 5)

    run(scenario)
