"""Markers go to the leaders of their partitions, until each is answered or proven to have nowhere to go (W13)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import Buffer
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_coordinator.core.transactions.commands import SendMarkers
from oncelog_coordinator.core.transactions.records import Target
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import (
    BROKER,
    OTHER_BROKER,
    PARTITIONS,
    USER_TOPIC_ID,
)
from tests.unit.coordinator.marker_place import Bug, Place, broken_call, confused_leader, deleted, run, send


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(5) as one:
        yield one


@pytest.mark.case("D108")
def test_one_call_per_leader_with_everything_in_it(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.cluster.lead("user", USER_TOPIC_ID, 2, 1)
        place.sender.run(send(0, 1, 2, winners=(4, 6)))
        await asyncio.sleep(3)

    place = run(world, scenario)
    calls = [(address, request.on_disk) for address, _, request in place.transport.calls]
    assert sorted(calls) == [
        (address, on_disk) for address in sorted((BROKER, OTHER_BROKER)) for on_disk in (False, True)
    ]
    assert place.life.partitions() == [0, 1, 2]
    for _, marker in place.taken:
        assert (marker.txn_producer_id, marker.txn_no, marker.session_epoch) == (9, 1, 3)
        assert (marker.outcome, marker.expected_records) == (types_pb2.TRANSACTION_OUTCOME_COMMITTED, 7)
        assert (marker.has_winners, list(marker.winners)) == (True, [4, 6])
    assert all(request.txn_shard == 2 and request.coordinator_epoch == 5 for _, _, request in place.transport.calls)


def test_every_failure_is_tried_again_and_only_where_it_failed(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.fail[BROKER] = [errors.NetworkError(), errors.RequestTimedOutError()]
        place.answer = {1: errors.NotLeaderError()}
        place.sender.run(send(0, 1))
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert place.life.partitions() == [0, 1]
    assert sorted(marker.partition for _, marker in place.taken) == [0, 1]


def test_a_leaderless_partition_delays_nobody_else(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.cluster.lead("user", USER_TOPIC_ID, 0, None)
        place.sender.run(send(0, 1))
        await asyncio.sleep(3)
        assert place.life.partitions() == [1]
        place.cluster.lead("user", USER_TOPIC_ID, 0, 1)
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert place.life.partitions() == [0, 1]
    assert place.taken[-1][0] == OTHER_BROKER


def test_a_slow_leader_delays_nobody_else(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        async def never(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            await asyncio.sleep(100)
            raise errors.RequestTimedOutError()

        place.transport.serve(BROKER, methods.WRITE_TXN_MARKERS, never)
        place.cluster.lead("user", USER_TOPIC_ID, 2, 1)
        place.sender.run(send(0, 2))
        place.sender.run(send(2, n=2))
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert place.life.partitions() == [2, 2]


def test_what_a_slow_leader_kept_waiting_goes_as_soon_as_it_has_answered(world: SimWorld) -> None:
    """Also when few enough came since that they would wait for others."""
    asked: list[int] = []

    async def scenario(place: Place) -> None:
        async def slowly(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            if request.on_disk:
                asked.append(len(request.markers))
                await asyncio.sleep(1)
            return pa.WriteTxnMarkersReply(markers=[pa.TxnMarkerReply() for _ in request.markers]), b""

        place.transport.serve(BROKER, methods.WRITE_TXN_MARKERS, slowly)
        for n in range(1, 2 * 48 + 20):
            place.sender.run(send(0, n=n))
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)

    run(world, scenario)
    assert asked == [48, 67]


def test_a_new_life_takes_thousands_of_markers_in_one_call(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        for n in range(1, 901):
            place.sender.run(send(0, n=n))
        await asyncio.sleep(0.1)

    place = run(world, scenario)
    assert [len(request.markers) for _, _, request in place.transport.calls if not request.on_disk] == [900]


def test_a_partition_that_is_not_seen_keeps_its_marker(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        key = cluster_keys.partition_key(USER_TOPIC_ID, 1)
        place.cluster.view.change(deleted(key, place.cluster.revision + 1))
        place.sender.run(send(1))
        await asyncio.sleep(3)
        assert place.life.told == []
        place.cluster.revision += 1
        place.cluster.lead("user", USER_TOPIC_ID, 1, 0)
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert place.life.partitions() == [1]
    assert len(place.taken) == 1


@pytest.mark.parametrize("proof", ["topic deleted", "no such partition"])
def test_only_proof_of_deletion_ends_a_marker(world: SimWorld, proof: str) -> None:
    async def scenario(place: Place) -> None:
        place.answer = {0: errors.UnknownTopicError()}
        if proof == "topic deleted":
            del place.cluster.items[cluster_keys.topic_key("user")]
            place.sender.run(send(0))
        else:
            place.sender.run(send(PARTITIONS + 4))
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert place.life.partitions() == ([0] if proof == "topic deleted" else [PARTITIONS + 4])
    assert place.taken == []


@pytest.mark.parametrize("deleted", [True, False])
def test_a_topic_that_a_restored_etcd_does_not_know_still_gets_its_marker(world: SimWorld, deleted: bool) -> None:
    """Its log is kept. Unless the topic was deleted: then nobody has it."""

    async def scenario(place: Place) -> None:
        place.answer = {0: errors.UnknownTopicError()}
        place.cluster.items[cluster_keys.RESTORED_KEY] = b"1"
        topic = cluster_keys.Topic.decode(place.cluster.items.pop(cluster_keys.topic_key("user")))
        if deleted:
            place.cluster.items[cluster_keys.deleted_topic_key(topic.topic_id)] = cluster_keys.DeletedTopic(
                "user", 1
            ).encode()
        place.sender.run(send(0))
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert place.life.partitions() == [0]
    assert len(place.taken) == (0 if deleted else 1)


def test_thousands_of_unknown_topics_cost_one_look(world: SimWorld) -> None:
    """A transaction of an older version may hold them: nobody asked for proof when it enrolled them."""
    looks: list[str] = []

    async def scenario(place: Place) -> None:
        healthy = place.cluster.list

        async def counted(prefix: str) -> Any:
            looks.append(prefix)
            return await healthy(prefix)

        place.cluster.list = counted  # type: ignore[method-assign]
        targets = tuple(Target(f"{number:032x}", 0, 7) for number in range(9_000))
        place.sender.run(SendMarkers("t", 9, 1, 3, True, None, targets, ()))
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert looks == [cluster_keys.TOPICS, cluster_keys.DELETED_TOPICS]
    assert len(place.life.partitions()) == 9_000


def test_an_unknown_topic_at_a_leader_is_no_proof(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.answer = {0: errors.UnknownTopicError()}
        place.sender.run(send(0))
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert len(place.taken) == 1


@pytest.mark.parametrize("bug", [confused_leader, broken_call])
def test_a_bug_in_one_try_does_not_leave_a_transaction_open(world: SimWorld, bug: Bug) -> None:
    async def scenario(place: Place) -> None:
        bug(place)
        place.sender.run(send(0, 1))
        await asyncio.sleep(5)

    assert run(world, scenario).life.partitions() == [0, 1]
