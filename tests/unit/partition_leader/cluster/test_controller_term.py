"""A term begins with the key in etcd and ends with it; nothing is written without it, whatever answers are lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import MetadataUnavailableError, StaleControllerEpochError
from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.controller_term import ControllerTerm
from oncelog_runtime.metadata.cluster_keys import BROKER_DRAIN_KEY, CONTROLLER_KEY, Drain, decode_ref, encode_ref
from oncelog_runtime.ports import Put
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import Place

WRITE = Put("/oncelog/cluster", b"x")


class Serving:
    """Broker 0's role. `won`: the terms, with the broker from which each was taken; `wakes`: how often it was woken."""

    def __init__(self, place: Place, lease_id: int) -> None:
        self.place = place
        self.is_minority = False
        self.won: list[BrokerRef | None] = []
        self.wakes = 0
        self.registration = SimpleNamespace(registered=True, lease_id=lease_id, ref=place.me())
        contacts: Any = SimpleNamespace(is_minority=lambda: self.is_minority)
        cluster: Any = SimpleNamespace(view=place.view, registration=self.registration, contacts=contacts)
        self.term = ControllerTerm(place.ports, cluster, place.tasks, self._wake, self.won.append)
        place.view.listen(lambda keys: self.term.role_changed() if CONTROLLER_KEY in keys else None)

    def _wake(self) -> None:
        self.wakes += 1

    async def held_by(self, broker_id: int) -> None:
        await self.place.put(CONTROLLER_KEY, encode_ref(self.place.ref(broker_id)))

    async def holder(self) -> BrokerRef | None:
        found = await self.place.etcd.get(CONTROLLER_KEY)
        return None if found is None else decode_ref(found.value)


def run(scenario: Callable[[Serving], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        lease_id = await place.ports.metadata.grant_lease(60_000)
        await scenario(Serving(place, lease_id))

    cluster_place.run(whole)


def test_a_term_is_won_once_and_served_until_the_key_is_another_brokers() -> None:
    async def scenario(s: Serving) -> None:
        assert await s.term.campaign()
        assert (s.won, s.term.is_held, s.term.is_served) == ([None], True, True)
        assert await s.term.campaign(), "etcd names it already"
        assert s.won == [None]
        s.registration.ref = BrokerRef(0, 1)
        assert not s.term.is_served, "another incarnation won it"
        await s.held_by(1)
        assert not s.term.is_held
        with pytest.raises(StaleControllerEpochError):
            await s.term.commit([], [WRITE])
        s.term.lost()
        assert s.term.number == 0

    run(scenario)


@pytest.mark.parametrize("happened", [True, False])
def test_a_lost_answer_is_looked_up(happened: bool) -> None:
    async def scenario(s: Serving) -> None:
        (s.place.metadata.lose if happened else s.place.metadata.fail).append(MetadataUnavailableError("no answer"))
        assert await s.term.campaign() is happened
        assert s.term.is_held is happened
        assert s.wakes == (not happened), "no key has changed that would wake it"

    run(scenario)


def test_a_broker_that_is_not_ready_or_cut_off_looks_again() -> None:
    async def scenario(s: Serving) -> None:
        s.is_minority = True
        assert not await s.term.campaign()
        s.is_minority, s.registration.registered = False, False
        assert not await s.term.campaign()
        assert (s.wakes, await s.holder()) == (2, None)

    run(scenario)


def test_a_dead_holder_is_overthrown_and_a_living_one_is_not() -> None:
    async def scenario(s: Serving) -> None:
        await s.held_by(1)
        assert not await s.term.campaign()
        s.term.take_over(s.place.ref(2), proven=True)
        assert not await s.term.campaign(), "that one does not hold it"
        s.term.take_over(s.place.ref(1), proven=True)
        assert s.wakes == 1
        assert await s.term.campaign()
        assert s.won == [s.place.ref(1)]
        await s.held_by(2)
        s.term.take_over(s.place.ref(2), proven=False)
        assert not await s.term.campaign(), "the role was taken a moment ago"

    run(scenario)


def test_every_write_is_fenced_by_the_term() -> None:
    async def scenario(s: Serving) -> None:
        assert await s.term.campaign()
        assert await s.term.commit([], [WRITE])

        async def deposed() -> None:
            await s.place.etcd.commit(puts=[Put(CONTROLLER_KEY, encode_ref(s.place.ref(1)))])

        s.place.metadata.before_commit = deposed
        assert not await s.term.commit([], [WRITE])

    run(scenario)


def test_a_controller_that_reaches_too_few_gives_the_role_up() -> None:
    async def scenario(s: Serving) -> None:
        assert await s.term.campaign()
        s.term.look_at_role()
        await s.place.seen()
        assert s.term.is_held
        s.is_minority = True
        s.place.metadata.fail.append(MetadataUnavailableError("no answer"))
        s.term.look_at_role()
        await s.place.seen()
        assert s.term.is_held, "it is tried again at the next look"
        s.term.look_at_role()
        await s.place.seen()
        assert await s.holder() is None

    run(scenario)


def test_a_broker_that_drains_resigns_and_does_not_campaign() -> None:
    async def scenario(s: Serving) -> None:
        assert await s.term.campaign()
        await s.term.resign()
        assert await s.holder() == s.place.me()
        await s.place.put(BROKER_DRAIN_KEY, Drain("0", s.place.me().incarnation, 0).encode())
        await s.term.resign()
        await s.place.seen()
        assert await s.holder() is None
        assert not await s.term.campaign()

    run(scenario)


def test_a_claim_overwrites_only_the_holder_that_was_seen() -> None:
    async def scenario(s: Serving) -> None:
        async def another_wins() -> None:
            await s.place.etcd.commit(puts=[Put(CONTROLLER_KEY, encode_ref(s.place.ref(2)))])

        s.place.metadata.before_commit = another_wins
        assert not await s.term.campaign()
        assert await s.holder() == s.place.ref(2)

    run(scenario)


def test_a_proof_does_not_outlive_a_look_at_which_this_broker_may_not_claim() -> None:
    async def scenario(s: Serving) -> None:
        await s.held_by(1)
        s.term.take_over(s.place.ref(1), proven=True)
        s.is_minority = True
        assert not await s.term.campaign()
        s.is_minority = False
        assert not await s.term.campaign(), "the holder may be alive by now"
        assert await s.holder() == s.place.ref(1)

    run(scenario)


def test_a_term_whose_claim_was_never_answered_begins_when_the_view_shows_it() -> None:
    async def scenario(s: Serving) -> None:
        await s.held_by(1)
        s.term.take_over(s.place.ref(1), proven=True)
        get = s.place.metadata.get

        async def silent(_key: str) -> Any:
            raise MetadataUnavailableError("no answer")

        s.place.metadata.lose.append(MetadataUnavailableError("no answer"))
        s.place.metadata.get = silent
        with pytest.raises(MetadataUnavailableError):
            await s.term.campaign()
        s.place.metadata.get = get
        await s.place.seen()
        assert s.won == []
        assert await s.term.campaign()
        assert await s.term.campaign()
        assert s.won == [s.place.ref(1)]

    run(scenario)


def test_a_take_over_is_tried_once_for_each_proof() -> None:
    async def scenario(s: Serving) -> None:
        await s.held_by(1)
        s.term.take_over(s.place.ref(1), proven=True)
        s.place.metadata.fail.append(MetadataUnavailableError("no answer"))
        assert not await s.term.campaign()
        assert not await s.term.campaign(), "the holder may be alive by now"
        assert await s.holder() == s.place.ref(1)

    run(scenario)
