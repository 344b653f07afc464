"""Phase two: every partition and group gets its marker, whatever fails meanwhile (W13, hole 14; cases C73, C92, D108)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.hashing import shard_for
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog_coordinator.core.transactions.commands import BecameVisible, MarkersCommitted, MarkersDone
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import (
    BROKER,
    COORDINATOR,
    PARTITIONS,
    USER_TOPIC_ID,
)
from tests.unit.coordinator.marker_place import Place, broken_call, run, send


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(5) as one:
        yield one


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


def test_a_bug_in_a_proof_or_a_group_marker_is_tried_again(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.cluster.own(cluster_keys.KIND_GROUP, shard_for("g", PARTITIONS))
        taken: list[str] = []

        async def take(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            taken.append(request.group_id)
            return co.WriteGroupMarkersReply(), b""

        place.transport.serve(COORDINATOR, methods.WRITE_GROUP_MARKERS, take)
        broken_call(place)
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
