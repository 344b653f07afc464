"""A log may leave its place only on etcd's word, read anew: absence, a view that lags and an old value are none."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_partition_leader.log.data_dir.replica_deletion import is_deleted, is_moved_away, sweep
from oncelog_runtime.metadata.cluster_keys import RESTORED_KEY, DeletedTopic, deleted_topic_key, partition_key
from tests.unit.partition_leader.cluster_place import P0, TOPIC_ID, Place, run


async def moved(place: Place) -> bool:
    return await is_moved_away(place.metadata, place.view, P0, 0)


@pytest.mark.parametrize(("replicas", "away"), [((0, 1, 2), False), ((1, 2), True)])
def test_a_replica_is_moved_away_when_the_partition_does_not_name_its_broker(
    replicas: tuple[int, ...], away: bool
) -> None:
    async def scenario(place: Place) -> None:
        await place.lead(replicas=replicas, isr=(1, 2), leader=1)
        assert await moved(place) is away

    run(scenario)


def test_a_guess_of_the_controller_is_no_proof_that_a_replica_was_moved_away() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(replicas=(1, 2), isr=(1, 2), leader=None, epoch=-1)
        asking = asyncio.ensure_future(moved(place))
        await asyncio.sleep(2)
        assert not asking.done()
        await place.lead(replicas=(1, 2), isr=(1, 2), leader=1, epoch=1_004)
        assert await asking

    run(scenario)


def test_a_partition_that_is_not_there_was_not_moved() -> None:
    async def scenario(place: Place) -> None:
        assert not await moved(place)

    run(scenario)


def test_a_view_that_lags_removes_nothing() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(replicas=(1, 2), isr=(1,), leader=1)
        lagging = place.view.partitions[P0]
        await place.lead(replicas=(0, 1, 2), isr=(1,), leader=1)
        place.view.partitions[P0] = lagging
        assert not await moved(place)

    run(scenario)


def test_a_value_from_before_a_restore_is_no_proof_until_it_is_written_anew() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(replicas=(1, 2), isr=(1,), leader=1)
        await place.put(RESTORED_KEY, b"1")
        asking = asyncio.ensure_future(moved(place))
        await asyncio.sleep(2)
        assert not asking.done()
        await place.lead(replicas=(1, 2), isr=(1,), leader=1, epoch=1)
        assert await asking

    run(scenario)


def test_without_an_answer_it_is_asked_again() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(replicas=(1, 2), isr=(1,), leader=1)
        place.metadata.fail = [MetadataUnavailableError()] * 3
        assert await moved(place)
        place.metadata.fail = [MetadataUnavailableError()] * 3
        assert not await is_deleted(place.metadata, TOPIC_ID)

    run(scenario)


def test_only_its_tombstone_says_that_a_topic_was_deleted() -> None:
    async def scenario(place: Place) -> None:
        assert not await is_deleted(place.metadata, TOPIC_ID)
        await place.put(deleted_topic_key(TOPIC_ID), DeletedTopic("t", 1).encode())
        assert await is_deleted(place.metadata, TOPIC_ID)
        assert partition_key(*P0) not in place.view.revisions()

    run(scenario)


def test_what_an_older_version_left_half_deleted_is_removed() -> None:
    async def scenario(place: Place) -> None:
        disk = place.node.disk
        for name in ("a.removed", "b", "c.removed-not"):
            disk.make_dirs(f"logs/{name}")
        sweep(disk, "logs")
        assert sorted(disk.list("logs")) == ["b", "c.removed-not"]

    run(scenario)
