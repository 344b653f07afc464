"""Calls to the coordinator of a channel: to the right shard, and no answer of a deposed owner counts."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_partition_leader.partition.channels.coordinator_calls import is_refusal, pause_ms
from oncelog_partition_leader.partition.channels.wire_state import ChannelPlace
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.ports import Change
from tests.unit.partition_leader.channel_world import CHANNEL_ID, TOPIC_ID, ChannelWorld, play

PLACE = ChannelPlace(CHANNEL_ID, TOPIC_ID, 0, 1)


def test_an_answer_of_an_older_owner_is_refused() -> None:
    async def scenario(world: ChannelWorld) -> None:
        calls = world.around.coordinators
        world.coordinator.epoch = 8
        await calls.open(PLACE.opening())
        world.coordinator.epoch = 7
        with pytest.raises(errors.CoordinatorFencedError):
            await calls.open(PLACE.opening())

    play(scenario)


def test_a_shard_without_an_owner_is_an_error_that_passes() -> None:
    async def scenario(world: ChannelWorld) -> None:
        world.view.change(Change(f"{keys.SHARDS}{keys.KIND_GROUP}/0/owner", None, 6))
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await world.around.coordinators.open(PLACE.opening())

    play(scenario)


def test_only_a_definite_no_is_a_refusal() -> None:
    assert is_refusal(errors.InvalidTxnStateError())
    assert is_refusal(errors.InvalidRequestError())
    for unknown in (
        errors.NetworkError(),
        errors.RequestTimedOutError(),
        errors.InvalidResponseError(),
        errors.CoordinatorFencedError(),
        errors.InternalServerError(),
        errors.CoordinatorNotAvailableError(),
    ):
        assert not is_refusal(unknown), unknown


def test_pauses_grow_from_20_ms_to_a_second() -> None:
    pauses = [pause_ms(tries) for tries in range(20)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (20, 20, 1_000)
