"""A broker's own key in etcd: an incarnation is known only when etcd has shown it, and nothing of before is believed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.registration import Registration, learned
from oncelog_runtime.core.listeners import Addresses
from oncelog_runtime.metadata.cluster_keys import Broker, broker_key
from oncelog_runtime.ports import RENEWAL_MS, KeyValue, Put
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import Place

KEY = broker_key(7)
TTL_MS = 3_000


class Node:
    """Broker 7, and what it was told."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.incarnations: list[BrokerRef] = []
        self.replaced = 0
        self.registration = Registration(
            place.metadata,
            place.view,
            Random(1),
            broker_id=7,
            ttl_ms=TTL_MS,
            on_incarnation=self.incarnations.append,
            on_replaced=self._replaced,
        )
        self.registration.announce(Addresses("b7:9092"), "rack", "directory", 500)
        self.task = asyncio.ensure_future(self.registration.run())

    def _replaced(self) -> None:
        self.replaced += 1

    async def key(self) -> KeyValue | None:
        found: KeyValue | None = await self.place.etcd.get(KEY)
        return found


def run(scenario: Callable[[Node], Awaitable[None]], before: Callable[[Place], None] = lambda _place: None) -> None:
    async def whole(place: Place) -> None:
        before(place)
        node = Node(place)
        await asyncio.sleep(1)
        await scenario(node)
        node.task.cancel()
        await asyncio.gather(node.task, return_exceptions=True)

    cluster_place.run(whole)


def test_the_mod_revision_of_its_key_is_its_incarnation() -> None:
    async def scenario(node: Node) -> None:
        found = await node.key()
        assert found is not None
        value = Broker.decode(found.value)
        assert (value.address, value.rack, value.directory_id, value.partitions_max) == (
            "b7:9092",
            "rack",
            "directory",
            500,
        )
        assert node.registration.ref == BrokerRef(7, found.mod_revision)
        assert node.incarnations == [node.registration.ref]
        assert found.lease_id == node.registration.lease_id

    run(scenario)


@pytest.mark.parametrize("end", ["withdrawn", "retired"])
def test_a_broker_that_stops_while_it_reads_its_key_is_not_registered(end: str) -> None:
    """Its lease is gone by then: a key without one would stand until the broker is back."""

    async def scenario(node: Node) -> None:
        reading, go_on = asyncio.Event(), asyncio.Event()
        get = node.place.metadata.get

        async def slow(key: str) -> KeyValue | None:
            found: KeyValue | None = await get(key)
            reading.set()
            await go_on.wait()
            return found

        node.place.metadata.get = slow
        node.registration.renew("a test")
        await reading.wait()
        if end == "withdrawn":
            await node.registration.withdraw()
        else:
            node.registration.retire()
        node.place.metadata.get = get
        go_on.set()
        await asyncio.sleep(2 * TTL_MS / 1000)
        assert await node.key() is None

    run(scenario)


def test_it_stays_registered_longer_than_its_lease() -> None:
    async def scenario(node: Node) -> None:
        await asyncio.sleep(5 * TTL_MS / 1000)
        assert await node.key() is not None
        assert len(node.incarnations) == 1

    run(scenario)


def test_a_lost_answer_is_read_back() -> None:
    def lose(place: Place) -> None:
        place.metadata.lose = [MetadataUnavailableError("lost", unknown="true")]

    async def scenario(node: Node) -> None:
        assert len(node.incarnations) == 1
        assert len(node.place.metadata.commits) == 1

    run(scenario, lose)


def test_without_etcd_it_is_tried_again_until_it_stands() -> None:
    def fail(place: Place) -> None:
        place.metadata.fail = [MetadataUnavailableError()] * 3

    async def scenario(node: Node) -> None:
        await asyncio.sleep(2)
        assert node.registration.registered

    run(scenario, fail)


def test_a_new_incarnation_on_request_is_above_the_old_one() -> None:
    async def scenario(node: Node) -> None:
        first = node.registration.ref
        node.registration.renew("a log failed")
        await asyncio.sleep(1)
        assert node.registration.ref.incarnation > first.incarnation
        assert len(node.incarnations) == 2

    run(scenario)


def test_when_etcd_says_that_the_lease_is_gone_there_is_a_new_one() -> None:
    async def scenario(node: Node) -> None:
        before = node.registration.ref
        await node.place.etcd.revoke_lease(node.registration.lease_id)
        await asyncio.sleep(TTL_MS / 1000 + 1)
        assert node.registration.ref.incarnation > before.incarnation
        assert await node.key() is not None

    run(scenario)


def test_while_etcd_is_silent_the_incarnation_stays() -> None:
    async def scenario(node: Node) -> None:
        before = node.registration.ref
        node.place.world.metadata.cut("broker-0")
        await asyncio.sleep(2)
        assert node.registration.ref == before
        node.place.world.metadata.heal()

    run(scenario)


def test_how_long_it_is_not_renewed_counts_from_when_the_last_renewal_was_asked_for() -> None:
    async def scenario(node: Node) -> None:
        await asyncio.sleep(20)
        assert node.registration.unrenewed_ms() <= TTL_MS / 3 + 100
        node.place.world.metadata.cut("broker-0")
        await asyncio.sleep(5)
        assert node.registration.unrenewed_ms() >= 5_000
        node.place.world.metadata.heal("broker-0")
        await asyncio.sleep(5)
        assert node.registration.unrenewed_ms() <= TTL_MS / 3 + 100

    run(scenario)


def test_one_renewal_without_an_answer_costs_nothing() -> None:
    """As of a member of etcd that hangs: the renewal after it reaches another one."""

    async def scenario(node: Node) -> None:
        renew, hung = node.place.metadata.keep_alive, 0

        async def keep_alive(lease_id: int) -> int:
            nonlocal hung
            if not hung:
                hung += 1
                await asyncio.sleep(RENEWAL_MS / 1000)
                raise MetadataUnavailableError("no answer in time")
            left_ms: int = await renew(lease_id)
            return left_ms

        node.place.metadata.keep_alive = keep_alive
        await asyncio.sleep(3 * TTL_MS / 1000)
        assert (hung, len(node.incarnations)) == (1, 1)

    run(scenario)


def test_who_comes_back_to_an_id_that_another_process_has_overwrites_nothing() -> None:
    async def scenario(node: Node) -> None:
        value = Broker("other:9092", "", "another nonce").encode()
        node.place.view._listeners.remove(next(told for told in node.place.view._listeners if _is_of(told, node)))
        await node.place.etcd.revoke_lease(node.registration.lease_id)
        await node.place.put(KEY, value)
        await asyncio.sleep(2 * TTL_MS / 1000)
        found = await node.key()
        assert found is not None
        assert (found.value, node.replaced > 0) == (value, True)

    run(scenario)


def _is_of(listener: Callable[[list[str]], None], node: Node) -> bool:
    return getattr(listener, "__self__", None) is node.registration


def test_after_a_restore_there_is_none_until_there_is_a_higher_one() -> None:
    async def scenario(node: Node) -> None:
        before = node.registration.ref
        node.registration.begin_anew()
        assert not node.registration.registered
        await asyncio.sleep(1)
        assert node.registration.ref.incarnation > before.incarnation

    run(scenario)


def test_who_finds_a_newer_registration_of_its_id_by_another_is_replaced() -> None:
    async def scenario(node: Node) -> None:
        assert node.replaced == 0
        await node.place.put(KEY, Broker("other:9092", "", "another nonce").encode())
        assert node.replaced == 1

    run(scenario)


def test_who_is_retired_never_registers_again() -> None:
    async def scenario(node: Node) -> None:
        found = await node.key()
        assert found is not None
        node.registration.retire()
        await node.place.put(KEY, found.value)
        await asyncio.sleep(10)
        assert not node.registration.registered
        assert node.task.done()

    run(scenario)


@pytest.mark.parametrize("answers", [True, False])
def test_a_clean_stop_removes_the_key_at_once_or_with_the_lease(answers: bool) -> None:
    async def scenario(node: Node) -> None:
        if not answers:
            node.place.world.metadata.cut("broker-0")
        await node.registration.withdraw()
        assert await node.key() is None
        node.place.world.metadata.heal()
        await asyncio.sleep(2 * TTL_MS / 1000)
        assert await node.key() is None, "a stop that takes long is not registered again"

    run(scenario)


def test_what_a_commit_has_written_is_known_at_its_revision() -> None:
    assert learned(9, [Put("a", b"1", 3), Put("b", b"2")]) == [KeyValue("a", b"1", 9, 3), KeyValue("b", b"2", 9)]
