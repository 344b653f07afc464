"""Every broker watches every other one: a report proves nothing, and is repeated until somebody looks after the suspect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import NetworkError, OncelogError, RequestTimedOutError, StaleBrokerEpochError
from oncelog.types import BrokerRef, Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.cluster.failure_detector import Peers
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.reachability import Verdict
from oncelog_runtime.metadata.cluster_keys import CONTROLLER_KEY, encode_ref
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import Place


class Watching:
    """Broker 0 watches brokers 1 and 2. `silent`: who does not answer; `reports`: what the controller 2 has heard."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.silent: dict[int, OncelogError] = {}
        self.held_ms: list[int] = []
        self.reports: list[BrokerRef] = []
        self.deaf = 0
        self.verdicts: list[Verdict] = []
        self.told: list[tuple[str, BrokerRef]] = []
        self.gone: set[BrokerRef] = set()
        config = BrokerConfig(node_id=0)
        self.contacts = Contacts(config, place.view, place.clock)
        self.contacts._saw(["/oncelog/brokers/1"])
        self.contacts.is_gone = self.gone.__contains__  # type: ignore[method-assign]
        prober: Any = SimpleNamespace(verdict=self._verdict)
        self.peers = Peers(config, place.transport, place.view, self, self.contacts, prober, place.tasks, place.me)
        for broker_id in (1, 2):
            address = f"broker-{broker_id}:9092"
            place.transport.serve(address, methods.PING, self._ping(broker_id))
            place.transport.serve(address, methods.REPORT_BROKER, self._report)
        self.peers._saw([])

    def _ping(self, broker_id: int) -> Any:
        async def ping(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            if broker_id in self.silent:
                raise self.silent[broker_id]
            self.held_ms.append(request.hold_ms)
            await asyncio.sleep(request.hold_ms / 1000)
            ref = self.place.ref(broker_id)
            return pb.PingReply(broker=types_pb2.BrokerRef(broker_id=broker_id, incarnation=ref.incarnation)), b""

        return ping

    async def _report(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        if self.deaf:
            self.deaf -= 1
            raise RequestTimedOutError()
        self.reports.append(BrokerRef(request.suspect.broker_id, request.suspect.incarnation))
        return pb.ReportBrokerReply(), b""

    async def _verdict(self, _ref: BrokerRef) -> Verdict:
        return self.verdicts.pop(0) if self.verdicts else Verdict.UNDECIDED

    # the controller's role, of this broker

    def suspect(self, ref: BrokerRef) -> None:
        self.told.append(("suspect", ref))

    def take_over(self, dead: BrokerRef, *, proven: bool) -> None:
        self.told.append((f"take over, proven={proven}", dead))

    async def controller_is(self, broker_id: int) -> None:
        await self.place.put(CONTROLLER_KEY, encode_ref(self.place.ref(broker_id)))


def run(scenario: Callable[[Watching], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await scenario(Watching(place))

    cluster_place.run(whole)


def test_everybody_who_is_registered_is_watched_by_a_call_that_is_held() -> None:
    async def scenario(watching: Watching) -> None:
        await asyncio.sleep(2)
        assert all(watching.peers.heard(watching.place.ref(broker_id)) for broker_id in (1, 2))
        assert watching.held_ms[:2] == [0, 0], "who is new is to be heard soon"
        assert set(watching.held_ms[2:]) == {750}

    run(scenario)


@pytest.mark.parametrize("silence", [NetworkError("broken"), RequestTimedOutError()])
def test_who_does_not_answer_is_reported_to_the_controller_once(silence: OncelogError) -> None:
    async def scenario(watching: Watching) -> None:
        await watching.controller_is(2)
        watching.silent[1] = silence
        await asyncio.sleep(1)
        assert watching.reports
        assert set(watching.reports) == {watching.place.ref(1)}

    run(scenario)


def test_any_other_refusal_is_an_answer() -> None:
    async def scenario(watching: Watching) -> None:
        await watching.controller_is(2)
        watching.peers.unreachable(watching.place.ref(1), StaleBrokerEpochError())
        await asyncio.sleep(1)
        assert watching.reports == []

    run(scenario)


def test_a_report_that_nobody_heard_is_repeated() -> None:
    async def scenario(watching: Watching) -> None:
        await watching.controller_is(2)
        watching.deaf = 3
        watching.peers.unreachable(watching.place.ref(1), NetworkError())
        watching.silent[1] = NetworkError()
        await asyncio.sleep(2)
        assert watching.reports
        assert watching.place.faults == []

    run(scenario)


def test_without_a_controller_it_waits_for_one() -> None:
    async def scenario(watching: Watching) -> None:
        watching.silent[1] = NetworkError()
        await asyncio.sleep(2)
        assert watching.reports == []
        await watching.controller_is(2)
        await asyncio.sleep(0.5)
        assert watching.reports

    run(scenario)


def test_the_controller_itself_looks_after_its_suspects() -> None:
    async def scenario(watching: Watching) -> None:
        await watching.controller_is(0)
        watching.silent[1] = NetworkError()
        await asyncio.sleep(1)
        assert ("suspect", watching.place.ref(1)) in watching.told
        assert watching.reports == []

    run(scenario)


@pytest.mark.parametrize("proven", [True, False])
def test_a_controller_that_is_judged_dead_is_taken_over_from(proven: bool) -> None:
    async def scenario(watching: Watching) -> None:
        await watching.controller_is(2)
        watching.verdicts = [Verdict.UNDECIDED, Verdict.CUT_OFF, Verdict.DEAD]
        if proven:
            watching.gone.add(watching.place.ref(2))
        watching.silent[2] = NetworkError()
        await asyncio.sleep(1)
        assert watching.told == [(f"take over, proven={proven}", watching.place.ref(2))]

    run(scenario)


def test_who_answers_again_is_pursued_no_longer() -> None:
    async def scenario(watching: Watching) -> None:
        watching.silent[1] = NetworkError()
        await asyncio.sleep(1)
        watching.silent.clear()
        await asyncio.sleep(1)
        await watching.controller_is(2)
        await asyncio.sleep(1)
        assert watching.reports == []

    run(scenario)


def test_a_new_incarnation_is_watched_anew_and_the_old_one_no_longer() -> None:
    async def scenario(watching: Watching) -> None:
        await asyncio.sleep(1)
        old = watching.place.ref(1)
        await watching.place.register(1)
        watching.peers._saw([])
        await asyncio.sleep(1)
        assert watching.peers.heard(watching.place.ref(1))
        assert not watching.peers.heard(old)
        assert old not in watching.peers._watched

    run(scenario)
