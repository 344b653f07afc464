"""Suspects are probed by one task each until they answer, are gone, or this broker has lost the role."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.suspicion import Suspicion
from oncelog_partition_leader.core.cluster.reachability import Verdict
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import Place


class Suspecting:
    """The controller's suspects. `verdict`: what a probe finds; `fault`: a probe raises instead."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.leads = True
        self.verdict = Verdict.ANSWERS
        self.fault: Exception | None = None
        self.asked: list[BrokerRef] = []
        self.changes = 0
        self.suspicion = Suspicion(self._prober(), place.view, place.tasks, lambda: self.leads, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def _prober(self) -> Any:
        outer = self

        class Prober:
            """Judges as it is told."""

            async def verdict(self, ref: BrokerRef) -> Verdict:
                outer.asked.append(ref)
                if outer.fault is not None:
                    raise outer.fault
                return outer.verdict

        return Prober()


def run(scenario: Callable[[Suspecting], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await scenario(Suspecting(place))

    cluster_place.run(whole)


def test_a_suspect_that_answers_is_asked_once() -> None:
    async def scenario(s: Suspecting) -> None:
        s.suspicion.report(s.place.ref(1))
        s.suspicion.report(s.place.ref(1))
        await asyncio.sleep(2)
        assert (s.asked, s.changes) == ([s.place.ref(1)], 0)

    run(scenario)


def test_a_dead_one_is_asked_less_often_and_is_alive_with_its_answer() -> None:
    async def scenario(s: Suspecting) -> None:
        s.verdict = Verdict.UNDECIDED
        s.suspicion.report(s.place.ref(1))
        await asyncio.sleep(1.05)
        undecided = len(s.asked)
        assert undecided > 8
        s.verdict = Verdict.DEAD
        await asyncio.sleep(3)
        assert (list(s.suspicion.dead), s.changes) == ([s.place.ref(1)], 1)
        assert len(s.asked) - undecided < 5
        s.verdict = Verdict.ANSWERS
        await asyncio.sleep(1.1)
        assert (list(s.suspicion.dead), s.changes) == ([], 2)

    run(scenario)


def test_an_answer_to_another_call_is_an_answer() -> None:
    async def scenario(s: Suspecting) -> None:
        s.verdict = Verdict.DEAD
        s.suspicion.report(s.place.ref(1))
        await asyncio.sleep(0.1)
        s.suspicion.heard(s.place.ref(1))
        assert (list(s.suspicion.dead), s.changes) == ([], 2)
        s.suspicion.heard(s.place.ref(2))
        assert s.changes == 3, "an election may wait for a broker that was never heard"

    run(scenario)


def test_only_the_controller_probes_and_only_those_that_are_registered() -> None:
    async def scenario(s: Suspecting) -> None:
        s.suspicion.report(BrokerRef(1, 1))
        s.leads = False
        s.suspicion.report(s.place.ref(1))
        await asyncio.sleep(1)
        assert s.asked == []

    run(scenario)


def test_with_the_role_the_suspicion_ends() -> None:
    async def scenario(s: Suspecting) -> None:
        s.verdict = Verdict.DEAD
        s.suspicion.report(s.place.ref(1))
        await asyncio.sleep(0.1)
        s.leads = False
        await asyncio.sleep(1.1)
        assert list(s.suspicion.dead) == []
        s.leads = True
        s.suspicion.report(s.place.ref(1))
        await asyncio.sleep(0.1)
        assert len(s.asked) == 2, "it may be probed again"

    run(scenario)


def test_the_broker_whose_role_was_taken_is_dead_and_probed() -> None:
    async def scenario(s: Suspecting) -> None:
        s.verdict = Verdict.UNDECIDED
        s.suspicion.new_term(s.place.ref(1))
        assert list(s.suspicion.dead) == [s.place.ref(1)]
        await asyncio.sleep(0.1)
        assert s.asked == [s.place.ref(1)]
        s.suspicion.new_term(None)
        assert list(s.suspicion.dead) == []

    run(scenario)


def test_a_probe_that_a_bug_ends_can_begin_again() -> None:
    async def scenario(s: Suspecting) -> None:
        s.fault = ValueError("a bug")
        s.suspicion.report(s.place.ref(1))
        await asyncio.sleep(0.1)
        s.fault = None
        s.suspicion.report(s.place.ref(1))
        await asyncio.sleep(0.1)
        assert len(s.asked) == 2
        s.place.faults.clear()

    run(scenario)
