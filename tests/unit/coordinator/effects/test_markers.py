"""Phase two: every partition and group gets its marker, whatever fails meanwhile (W13, hole 14; cases C73, C92, D108)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.hashing import shard_for
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_coordinator.core.offsets.offset_commands import AskOutcome, GroupMarker
from oncelog_coordinator.core.transactions.commands import BecameVisible, MarkersCommitted, MarkersDone, SendMarkers
from oncelog_coordinator.core.transactions.records import Target
from oncelog_coordinator.effects.group_effects import GroupEffects
from oncelog_coordinator.effects.known_topics import KnownTopics
from oncelog_coordinator.effects.markers import MarkerSender
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import (
    BROKER,
    COORDINATOR,
    OTHER_BROKER,
    PARTITIONS,
    USER_TOPIC_ID,
    Cluster,
    FakeTransport,
)


class Life:
    """What a sender needs of a life."""

    def __init__(self) -> None:
        self.epoch = 5
        self.told: list[Any] = []

    def tell(self, command: Any) -> None:
        self.told.append(command)

    def partitions(self) -> list[int]:
        return sorted(p.partition for c in self.told if isinstance(c, MarkersDone) for p in c.partitions)


class Place:
    """A sender, brokers that take markers, and what they took."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.transport = FakeTransport()
        self.life = Life()
        self.taken: list[tuple[str, Any]] = []
        self.synced: list[tuple[str, Any]] = []
        self.fail: dict[str, list[errors.OncelogError]] = {}
        self.answer: dict[int, errors.OncelogError] = {}
        for address in (BROKER, OTHER_BROKER):
            self.transport.serve(address, methods.WRITE_TXN_MARKERS, self._broker(address))
        self.sender = MarkerSender(
            self.life,  # type: ignore[arg-type]
            2,
            self.transport,
            self.cluster.view,
            KnownTopics(self.cluster, self.cluster.view),  # type: ignore[arg-type]
            1_000,
        )

    def _broker(self, address: str) -> Callable[[Any, Buffer], Awaitable[tuple[Any, Buffer]]]:
        async def write(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            if self.fail.get(address):
                raise self.fail[address].pop(0)
            reply = pa.WriteTxnMarkersReply()
            for marker in request.markers:
                answer = reply.markers.add(topic_id=marker.topic_id, partition=marker.partition)
                error = self.answer.pop(marker.partition, None)
                if error is not None:
                    answer.error.CopyFrom(to_detail(error))
                elif request.on_disk:
                    self.synced.append((address, marker))
                else:
                    self.taken.append((address, marker))
            return reply, b""

        return write


Bug = Callable[[Place], None]


def _confused_leader(place: Place) -> None:
    """Its first answer lacks a marker, which no leader of ours sends."""

    async def write(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        place.transport.serve(BROKER, methods.WRITE_TXN_MARKERS, place._broker(BROKER))
        return pa.WriteTxnMarkersReply(), b""

    place.transport.serve(BROKER, methods.WRITE_TXN_MARKERS, write)


def _broken_call(place: Place) -> None:
    """A bug of ours on the way of the first call."""
    call = place.transport.call

    async def once(*_args: Any) -> Any:
        place.transport.call = call  # type: ignore[method-assign]
        raise KeyError("a bug")

    place.transport.call = once  # type: ignore[method-assign, assignment]


def send(
    *partitions: int, n: int = 1, groups: tuple[str, ...] = (), winners: tuple[int, ...] | None = None
) -> SendMarkers:
    targets = tuple(Target(USER_TOPIC_ID, p, 7) for p in partitions)
    return SendMarkers("t", 9, n, 3, True, winners, targets, groups)


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(5) as one:
        yield one


def run(world: SimWorld, scenario: Callable[[Place], Awaitable[None]]) -> Place:
    async def whole() -> Place:
        place = Place()
        await scenario(place)
        await place.sender.close()
        return place

    return world.run(whole())


def test_108_one_call_per_leader_with_everything_in_it(world: SimWorld) -> None:
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


def test_a_marker_is_done_only_when_it_is_on_disk(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.sender.run(send(0))
        await asyncio.sleep(0.005)
        assert place.life.told == [MarkersCommitted("t", 1, (PartitionId(USER_TOPIC_ID, 0),))]
        place.fail[BROKER] = [errors.RequestTimedOutError("a slow disk")]
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert len(place.taken) == len(place.synced) == 1
    assert place.life.told[1:] == [MarkersDone("t", 1, (PartitionId(USER_TOPIC_ID, 0),))]


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


def test_92_a_partition_that_is_not_seen_keeps_its_marker(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        key = cluster_keys.partition_key(USER_TOPIC_ID, 1)
        place.cluster.view.change(_deleted(key, place.cluster.revision + 1))
        place.sender.run(send(1))
        await asyncio.sleep(3)
        assert place.life.told == []
        place.cluster.revision += 1
        place.cluster.lead("user", USER_TOPIC_ID, 1, 0)
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert place.life.partitions() == [1]
    assert len(place.taken) == 1


def _deleted(key: str, revision: int) -> Any:
    from oncelog_runtime.ports import Change

    return Change(key, None, revision)


@pytest.mark.parametrize("proof", ["topic deleted", "no such partition"])
def test_13_only_proof_of_deletion_ends_a_marker(world: SimWorld, proof: str) -> None:
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


def test_groups_get_their_marker_from_the_owner_of_their_shard(world: SimWorld) -> None:
    taken: list[Any] = []

    async def scenario(place: Place) -> None:
        async def write(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            taken.append(request)
            if len(taken) == 1:
                raise errors.NotCoordinatorError()
            return co.WriteGroupMarkersReply(), b""

        place.transport.serve(COORDINATOR, methods.WRITE_GROUP_MARKERS, write)
        place.sender.run(send(groups=("g",)))
        await asyncio.sleep(3)
        assert taken == [], "nobody owns the shard"
        place.cluster.own(cluster_keys.KIND_GROUP, shard_for("g", PARTITIONS))
        await asyncio.sleep(3)

    place = run(world, scenario)
    assert place.life.told == [MarkersDone("t", 1, groups=("g",))]
    assert (taken[-1].group_id, taken[-1].txn_no, taken[-1].coordinator_epoch) == ("g", 1, 5)


def test_visible_wakes_those_who_wait(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        waiting = [asyncio.ensure_future(place.sender.wait_visible("t", 1)) for _ in range(2)]
        later = asyncio.ensure_future(place.sender.wait_visible("t", 2))
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        place.sender.run(BecameVisible("t", 1))
        await waiting[1]
        assert not later.done()
        await place.sender.close()
        await later

    run(world, scenario)


# ---------------------------------------------------------------- a group shard that asks


@pytest.mark.parametrize(
    ("outcome", "epoch", "told"),
    [
        (types_pb2.TRANSACTION_OUTCOME_COMMITTED, 6, [GroupMarker("g", 9, 1, True, 1, 6)]),
        (types_pb2.TRANSACTION_OUTCOME_ABORTED, 6, [GroupMarker("g", 9, 1, False, 1, 6)]),
        (types_pb2.TRANSACTION_OUTCOME_ONGOING, 6, []),
        (types_pb2.TRANSACTION_OUTCOME_COMMITTED, 5, []),
    ],
)
def test_14_a_group_shard_asks_and_believes_no_older_coordinator(
    world: SimWorld, outcome: Any, epoch: int, told: list[Any]
) -> None:
    life = Life()

    async def scenario(place: Place) -> None:
        async def resolve(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            assert (request.topic_id, request.known_coordinator_epoch) == ("", 6)
            return co.ResolveTransactionReply(outcome=outcome, coordinator_epoch=epoch), b""

        place.transport.serve(COORDINATOR, methods.RESOLVE_TRANSACTION, resolve)
        place.cluster.own(cluster_keys.KIND_TXN, 1, epoch=4)
        effects = GroupEffects(life, 0, place.transport, place.cluster.view, 1_000)  # type: ignore[arg-type]
        for _ in range(2):
            effects.run(AskOutcome("g", 9, 1, 1, 6))
        await asyncio.sleep(3)
        await effects.close()

    run(world, scenario)
    assert life.told == told


@pytest.mark.parametrize("bug", [_confused_leader, _broken_call])
def test_a_bug_in_one_try_does_not_leave_a_transaction_open(world: SimWorld, bug: Bug) -> None:
    async def scenario(place: Place) -> None:
        bug(place)
        place.sender.run(send(0, 1))
        await asyncio.sleep(5)

    assert run(world, scenario).life.partitions() == [0, 1]


def test_a_bug_in_a_proof_or_a_group_marker_is_tried_again(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.cluster.own(cluster_keys.KIND_GROUP, shard_for("g", PARTITIONS))
        taken: list[str] = []

        async def take(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            taken.append(request.group_id)
            return co.WriteGroupMarkersReply(), b""

        place.transport.serve(COORDINATOR, methods.WRITE_GROUP_MARKERS, take)
        _broken_call(place)
        place.sender.run(send(groups=("g",)))
        await asyncio.sleep(5)
        assert taken == ["g"]
        listing = place.cluster.list

        async def broken_once(prefix: str) -> Any:
            place.cluster.list = listing  # type: ignore[method-assign]
            raise KeyError("a bug")

        place.cluster.list = broken_once  # type: ignore[method-assign]
        place.sender.run(send(PARTITIONS + 3, n=2))
        await asyncio.sleep(5)

    assert run(world, scenario).life.partitions() == [PARTITIONS + 3]
