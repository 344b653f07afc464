"""Every broker is asked once after a restore, until it answers, and only an incarnation that has noticed it counts."""

from __future__ import annotations

import asyncio

from oncelog.types import PartitionId
from oncelog_runtime.metadata.cluster_keys import decommission_key
from tests.unit.partition_leader.cluster.topics.making import Making, run
from tests.unit.partition_leader.cluster_place import P0, P1

OTHER = PartitionId("9" * 32, 4)


async def look(making: Making, seconds: float = 1) -> None:
    making.survey.look()
    await asyncio.sleep(seconds)


def asked(making: Making) -> list[str]:
    return [address for address, _, _ in making.place.transport.calls]


def test_without_a_restore_nothing_is_asked_and_no_answer_is_missing() -> None:
    async def scenario(making: Making) -> None:
        await look(making)
        assert asked(making) == []
        assert (making.survey.result().answers, making.survey.result().missing) == ({}, frozenset())

    run(scenario)


def test_each_broker_is_asked_once_and_again_until_it_answers() -> None:
    async def scenario(making: Making) -> None:
        await making.restore()
        making.kept = {0: [OTHER], 1: []}
        await look(making)
        assert making.survey.result().answers == {0: {OTHER}, 1: frozenset()}
        assert making.survey.result().missing == {2}
        assert making.changes == 2
        making.kept[2] = [OTHER]
        await look(making, 5)
        assert making.survey.result().keepers(OTHER) == (0, 2)
        assert (making.survey.result().missing, making.changes) == (frozenset(), 4), "the last one: no more are to come"
        await look(making)
        assert asked(making).count("broker-0:9092") == 1
        assert asked(making).count("broker-2:9092") > 1

    run(scenario)


def test_a_new_incarnation_is_asked_again_and_its_answer_replaces_the_old_one() -> None:
    async def scenario(making: Making) -> None:
        await making.restore()
        making.kept = {0: [OTHER], 1: [], 2: []}
        await look(making)
        making.kept[0] = []
        await making.place.register(0)
        await look(making)
        assert making.survey.result().keepers(OTHER) == ()

    run(scenario)


def test_an_incarnation_from_before_the_restore_is_not_asked() -> None:
    async def scenario(making: Making) -> None:
        await making.restore(brokers=2)
        making.kept = {0: [], 1: [], 2: []}
        await look(making)
        assert "broker-2:9092" not in asked(making)
        assert making.survey.result().missing == {2}

    run(scenario)


def test_another_restore_makes_all_answers_void() -> None:
    async def scenario(making: Making) -> None:
        await making.restore()
        making.kept = {0: [OTHER], 1: [], 2: []}
        await look(making)
        await making.restore()
        assert making.survey.result().answers == {}
        assert making.survey.result().missing == {0, 1, 2}

    run(scenario)


def test_an_older_broker_that_does_not_know_the_question_has_not_answered() -> None:
    async def scenario(making: Making) -> None:
        await making.restore()
        making.kept, making.older = {0: [], 1: [], 2: []}, {1}
        await look(making)
        assert making.survey.result().missing == {1}

    run(scenario)


def test_a_broker_that_etcd_names_is_waited_for_though_it_is_away_but_not_when_it_is_decommissioned() -> None:
    async def scenario(making: Making) -> None:
        await making.place.topic(partitions=2)
        await making.place.lead(P0, replicas=(0, 1, 2))
        await making.place.lead(P1, replicas=(0, 1, 2))
        await making.place.leave(2)
        await making.restore(brokers=2)
        making.kept = {0: [], 1: []}
        await look(making)
        assert making.survey.result().missing == {2}
        await making.place.put(decommission_key(2), b"{}")
        assert making.survey.result().missing == frozenset()

    run(scenario)


def test_what_may_register_yet_is_early_for_some_seconds_and_the_end_of_that_is_told() -> None:
    async def scenario(making: Making) -> None:
        await making.restore()
        making.kept = {0: [], 1: [], 2: []}
        await look(making)
        assert making.survey.result().is_early
        told = making.changes
        await asyncio.sleep(3)
        assert not making.survey.result().is_early
        assert making.changes == told + 1

    run(scenario)


def test_a_broker_that_others_have_seen_is_waited_for_though_etcd_has_never_heard_of_it() -> None:
    """It was added after the backup, and is down now."""

    async def scenario(making: Making) -> None:
        await making.restore()
        making.kept, making.seen = {0: [], 1: [], 2: []}, {0, 1, 2, 5}
        await look(making, 5)
        assert making.survey.result().missing == {5}
        assert making.survey.answers().missing == frozenset(), "it takes no look at every partition"
        await making.place.put(decommission_key(5), b"{}")
        assert making.survey.result().missing == frozenset()

    run(scenario)


def test_the_end_of_the_first_seconds_is_told_though_a_broker_does_not_answer() -> None:
    async def scenario(making: Making) -> None:
        await making.restore()
        making.kept = {0: [], 1: []}
        await look(making)
        told = making.changes
        await asyncio.sleep(5)
        assert making.survey.result().missing == {2}
        assert making.changes == told + 1

    run(scenario)


def test_the_end_of_the_first_seconds_after_another_restore_is_told_though_questions_go_on() -> None:
    async def scenario(making: Making) -> None:
        await making.restore()
        making.kept = {0: [], 1: []}
        await look(making, 5)
        await making.restore()
        making.kept[2] = []
        await look(making, 2.5)
        told = making.changes
        assert making.survey.result().missing == frozenset()
        await asyncio.sleep(1)
        assert making.changes == told + 1

    run(scenario)


def test_a_broker_that_is_slow_to_answer_holds_up_no_question_to_another() -> None:
    async def scenario(making: Making) -> None:
        await making.restore(brokers=2)
        making.kept, making.slow_s = {0: [], 1: [], 2: []}, {0: 20}
        await look(making)
        await making.place.register(2)
        await look(making)
        assert set(making.survey.result().answers) == {1, 2}
        assert asked(making).count("broker-0:9092") == 1, "it is asked once at a time"

    run(scenario)
