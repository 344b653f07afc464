"""A group shard asks what became of a transaction, and believes no older coordinator (hole 14)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.types import Buffer
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_coordinator.core.groups.group_commands import GroupNews
from oncelog_coordinator.core.offsets.offset_commands import AskOutcome, GroupMarker
from oncelog_coordinator.effects.group_effects import GroupEffects
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import (
    COORDINATOR,
)
from tests.unit.coordinator.marker_place import Life, Place, run


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(5) as one:
        yield one


@pytest.mark.parametrize(
    ("outcome", "epoch", "told"),
    [
        (types_pb2.TRANSACTION_OUTCOME_COMMITTED, 6, [GroupMarker("g", 9, 1, True, 1, 6)]),
        (types_pb2.TRANSACTION_OUTCOME_ABORTED, 6, [GroupMarker("g", 9, 1, False, 1, 6)]),
        (types_pb2.TRANSACTION_OUTCOME_ONGOING, 6, []),
        (types_pb2.TRANSACTION_OUTCOME_COMMITTED, 5, []),
    ],
)
@pytest.mark.case("hole 14")
def test_a_group_shard_asks_and_believes_no_older_coordinator(
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


def test_a_new_assignment_is_counted_and_partitions_that_become_free_are_not(world: SimWorld) -> None:
    counted: list[str] = []

    async def scenario(place: Place) -> None:
        effects = GroupEffects(
            Life(), 0, place.transport, place.cluster.view, 1_000,  # type: ignore[arg-type]
            rebalanced=lambda: counted.append("once"),
        )  # fmt: skip
        effects.run(GroupNews("g", ("a",)))
        assert counted == []
        effects.run(GroupNews("g"))
        await effects.close()

    run(world, scenario)
    assert counted == ["once"]
