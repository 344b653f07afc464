"""Callers wait until enough followers have answered a question that was asked after they came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oncelog.errors import NotLeaderError, OffsetNotAvailableError
from oncelog.types import BrokerRef
from oncelog_partition_leader.core.replication.replica_set import Ends, Registered, ReplicaSet
from oncelog_partition_leader.partition.leadership_confirmation import CONFIRM_MS, Confirming
from oncelog_runtime.sim.world import SimWorld

ME, B, C = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(3, 13)


class Place:
    """A leader of three with a minimum of two. `gone`: processes that have ended."""

    def __init__(self, *isr: BrokerRef, min_insync: int = 2) -> None:
        self.gone: set[int] = set()
        replicas = ReplicaSet(
            ME,
            Registered((1, 2, 3), isr, mod_revision=5),
            Ends(high_watermark=0, log=0, own=0),
            min_insync_replicas=min_insync,
            lag_max_ms=1_000,
            now_ms=0,
        )
        self.confirming = Confirming(replicas, lambda brokers: self.gone & set(brokers))

    def ask(self, now_ms: int = 0) -> asyncio.Future[None]:
        waiter = self.confirming.ask(now_ms)
        assert waiter is not None
        return waiter


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    with SimWorld(1) as world:
        world.run(whole())


def test_who_leads_alone_asks_nobody() -> None:
    async def scenario() -> None:
        replicas = ReplicaSet(
            ME,
            Registered((1,), (ME,), mod_revision=5),
            Ends(high_watermark=0, log=0, own=0),
            min_insync_replicas=1,
            lag_max_ms=1_000,
            now_ms=0,
        )
        assert Confirming(replicas, lambda _brokers: ()).ask(0) is None

    run(scenario)


def test_an_answer_to_an_older_question_confirms_nothing() -> None:
    async def scenario() -> None:
        place = Place(ME, B)
        first = place.ask()
        asked = place.confirming.asked
        second = place.ask()
        place.confirming.answered(B.broker_id, asked)
        assert (first.done(), second.done()) == (True, False)
        place.confirming.answered(B.broker_id, asked + 1)
        await second

    run(scenario)


def test_an_announcement_is_a_question_for_which_nobody_waits() -> None:
    async def scenario() -> None:
        place = Place(ME, B, C)
        place.confirming.announce()
        assert place.confirming.asked == 1
        assert not place.confirming.is_waiting

    run(scenario)


def test_all_that_may_be_elected_have_to_answer() -> None:
    async def scenario() -> None:
        place = Place(ME, B, C, min_insync=1)
        waiter = place.ask()
        place.confirming.answered(B.broker_id, 1)
        assert not waiter.done()
        place.confirming.answered(C.broker_id, 1)
        await waiter

    run(scenario)


def test_a_process_that_has_ended_is_not_waited_for_but_then_all_others_are() -> None:
    async def scenario() -> None:
        place = Place(ME, B, min_insync=1)
        waiter = place.ask()
        place.gone.add(B.broker_id)
        place.confirming.look()
        assert not waiter.done(), "it may have led, and 3 after it"
        place.confirming.answered(C.broker_id, 1)
        await waiter

    run(scenario)


def test_who_waits_too_long_is_told_to_try_again() -> None:
    async def scenario() -> None:
        place = Place(ME, B)
        waiter = place.ask(now_ms=100)
        place.confirming.expire(100 + CONFIRM_MS - 1)
        assert not waiter.done()
        place.confirming.expire(100 + CONFIRM_MS)
        with pytest.raises(OffsetNotAvailableError) as refusal:
            await waiter
        assert refusal.value.retriable

    run(scenario)


def test_a_late_look_finds_what_is_confirmed_before_it_refuses_anybody() -> None:
    async def scenario() -> None:
        place = Place(ME, B)
        waiter = place.ask()
        place.gone.update((B.broker_id, C.broker_id))
        place.confirming.expire(CONFIRM_MS)
        await waiter

    run(scenario)


def test_the_end_of_the_leadership_answers_everybody_who_has_not_gone() -> None:
    async def scenario() -> None:
        place = Place(ME, B)
        gone, waiting = place.ask(), place.ask()
        gone.cancel()
        place.confirming.end(NotLeaderError("over"))
        with pytest.raises(NotLeaderError):
            await waiting
        place.confirming.expire(1 << 40)
        place.confirming.answered(B.broker_id, 9)

    run(scenario)


def test_everybody_who_may_be_elected_has_to_hear_what_must_outlive_the_leader() -> None:
    """Whether it leads is certain before: with a minimum of two the third one alone could acknowledge nothing."""

    async def scenario() -> None:
        place = Place(ME, B, C)
        leads = place.ask()
        heard = place.confirming.ask(0, all_electable=True)
        assert heard is not None
        place.confirming.answered(B.broker_id, place.confirming.asked)
        assert (leads.done(), heard.done(), place.confirming.is_waiting) == (True, False, True)
        place.confirming.answered(C.broker_id, place.confirming.asked)
        await heard
        assert not place.confirming.is_waiting

    run(scenario)
