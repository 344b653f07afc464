"""Whether a suspect is dead: a refusal and another incarnation are proofs, silence needs others' opinions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog.errors import NetworkError, OncelogError, RequestTimedOutError
from oncelog.types import BrokerRef, Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.cluster.liveness_probe import Prober
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.reachability import Verdict
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import Place


class Probing:
    """Broker 0 asks about broker 1; broker 2 has an opinion. `says[1]`: the suspect's answers, one by one."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.contacts = Contacts(BrokerConfig(node_id=0), place.view, place.clock)
        self.contacts._saw(["/oncelog/brokers/1"])
        self.prober = Prober(place.transport, place.view, self.contacts, 300)
        self.answers: list[OncelogError | BrokerRef] = []
        self.opinion: bool | None = None
        self.asked = 0
        place.transport.serve("broker-1:9092", methods.PING, self._suspect)
        place.transport.serve("broker-2:9092", methods.PING, self._witness)

    @property
    def suspect(self) -> BrokerRef:
        return self.place.ref(1)

    async def _suspect(self, _request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        self.asked += 1
        said = self.answers.pop(0) if self.answers else RequestTimedOutError()
        if isinstance(said, OncelogError):
            raise said
        return pb.PingReply(broker=_ref(said)), b""

    async def _witness(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        assert request.suspect.broker_id == 1
        reply = pb.PingReply(broker=_ref(self.place.ref(2)))
        if self.opinion is not None:
            reply.hears_suspect = self.opinion
        return reply, b""

    async def verdict(self) -> Verdict:
        return await self.prober.verdict(self.suspect)


def _ref(ref: BrokerRef) -> types_pb2.BrokerRef:
    return types_pb2.BrokerRef(broker_id=ref.broker_id, incarnation=ref.incarnation)


def run(scenario: Callable[[Probing], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await scenario(Probing(place))

    cluster_place.run(whole)


def test_who_answers_lives_and_is_heard_from_then_on() -> None:
    async def scenario(probing: Probing) -> None:
        probing.answers = [probing.suspect]
        assert await probing.verdict() is Verdict.ANSWERS
        assert probing.contacts.heard(probing.suspect)

    run(scenario)


def test_a_refused_connection_is_a_proof() -> None:
    async def scenario(probing: Probing) -> None:
        del probing.place.transport.peers["broker-1:9092", methods.PING.name]
        assert await probing.verdict() is Verdict.DEAD
        assert probing.contacts.is_gone(probing.suspect)

    run(scenario)


def test_a_newer_incarnation_that_answers_is_a_proof() -> None:
    async def scenario(probing: Probing) -> None:
        probing.answers = [BrokerRef(1, probing.suspect.incarnation + 5)]
        assert await probing.verdict() is Verdict.DEAD
        assert probing.asked == 1

    run(scenario)


def test_who_is_registered_no_more_is_dead_without_a_question() -> None:
    async def scenario(probing: Probing) -> None:
        ref = probing.suspect
        await probing.place.leave(1)
        assert await probing.prober.verdict(ref) is Verdict.DEAD
        assert probing.asked == 0

    run(scenario)


def test_a_link_that_breaks_under_the_question_is_no_proof_and_is_asked_over_again() -> None:
    async def scenario(probing: Probing) -> None:
        probing.answers = [NetworkError("broken"), NetworkError("broken"), probing.suspect]
        assert await probing.verdict() is Verdict.ANSWERS
        probing.answers = [NetworkError("broken")] * 9
        probing.asked = 0
        assert await probing.verdict() is not Verdict.DEAD
        assert probing.asked == 5, "not for ever"

    run(scenario)


def test_two_silences_are_silence_and_one_is_not() -> None:
    async def scenario(probing: Probing) -> None:
        probing.answers = [RequestTimedOutError(), probing.suspect]
        assert await probing.verdict() is Verdict.ANSWERS

    run(scenario)


@pytest.mark.parametrize(
    ("opinion", "verdict"), [(False, Verdict.DEAD), (True, Verdict.CUT_OFF), (None, Verdict.UNDECIDED)]
)
def test_about_one_that_stays_silent_the_others_are_asked(opinion: bool | None, verdict: Verdict) -> None:
    async def scenario(probing: Probing) -> None:
        probing.contacts.answered(probing.place.ref(2))
        probing.opinion = opinion
        assert await probing.verdict() is verdict

    run(scenario)


def test_who_hears_no_majority_declares_nobody_dead_by_silence() -> None:
    async def scenario(probing: Probing) -> None:
        probing.opinion = False
        assert await probing.verdict() is Verdict.UNDECIDED

    run(scenario)


def test_who_was_heard_a_moment_ago_is_silent_for_two_short_questions_only() -> None:
    async def scenario(probing: Probing) -> None:
        probing.contacts.answered(probing.place.ref(2))
        probing.contacts.answered(probing.suspect)
        probing.opinion = False
        assert await probing.verdict() is Verdict.UNDECIDED
        await asyncio.sleep(1.2)
        probing.contacts.answered(probing.place.ref(2))
        await asyncio.sleep(0.2)
        assert await probing.verdict() is Verdict.DEAD

    run(scenario)


def test_who_is_heard_while_the_others_are_asked_is_not_dead() -> None:
    async def scenario(probing: Probing) -> None:
        probing.contacts.answered(probing.place.ref(2))

        async def slow(_request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            probing.contacts.answered(probing.suspect)
            return pb.PingReply(broker=_ref(probing.place.ref(2)), hears_suspect=False), b""

        probing.place.transport.serve("broker-2:9092", methods.PING, slow)
        assert await probing.verdict() is Verdict.UNDECIDED

    run(scenario)


def test_a_witness_that_was_restarted_has_no_opinion() -> None:
    async def scenario(probing: Probing) -> None:
        probing.contacts.answered(probing.place.ref(2))
        probing.opinion = False

        async def another(_request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            return pb.PingReply(broker=_ref(BrokerRef(2, 1)), hears_suspect=False), b""

        probing.place.transport.serve("broker-2:9092", methods.PING, another)
        assert await probing.verdict() is Verdict.UNDECIDED

    run(scenario)
