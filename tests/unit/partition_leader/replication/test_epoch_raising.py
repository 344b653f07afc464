"""Only the leader that etcd names raises the epoch, and only over the value that names it."""

from __future__ import annotations

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog.types import BrokerRef
from oncelog_partition_leader.replication.epoch_raising import raise_epoch
from oncelog_runtime.metadata.cluster_keys import RESTORED_KEY, Partition, partition_key
from oncelog_runtime.ports import Put
from tests.unit.partition_leader.cluster_place import P0, Place, run


async def try_it(place: Place, above: int = 9) -> None:
    await raise_epoch(place.metadata, place.view, place.me(), P0, place.view.partitions[P0], above)


def test_a_leader_takes_an_epoch_above_all_that_its_log_has_seen() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(epoch=4)
        before = await place.state()
        await try_it(place)
        after = await place.state()
        assert (after.leader, after.isr, after.leader_epoch) == (before.leader, before.isr, 10)
        assert place.view.partitions[P0].value == after, "the view hears of it at once"

    run(scenario)


def test_an_old_value_changes_nothing_and_the_view_learns_the_new_one() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(epoch=4)

        async def elect_another() -> None:
            value = Partition("t", (0, 1, 2), place.ref(1), 5, place.refs(0, 1, 2))
            await place.etcd.commit(puts=[Put(partition_key(*P0), value.encode())])

        place.metadata.before_commit = elect_another
        await try_it(place)
        after = await place.state()
        assert (after.leader, after.leader_epoch) == (place.ref(1), 5)
        assert place.view.partitions[P0].value == after

    run(scenario)


@pytest.mark.parametrize("change", ["another incarnation", "restored"])
def test_who_is_registered_anew_or_whose_etcd_was_restored_raises_nothing(change: str) -> None:
    async def scenario(place: Place) -> None:
        await place.lead(epoch=4)

        async def happen() -> None:
            if change == "restored":
                await place.put(RESTORED_KEY, b"1")
            else:
                await place.register(0)

        me, entry = place.me(), place.view.partitions[P0]
        place.metadata.before_commit = happen
        await raise_epoch(place.metadata, place.view, me, P0, entry, 9)
        assert (await place.state()).leader_epoch == 4

    run(scenario)


def test_without_an_answer_it_is_tried_again_by_whoever_asked() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(epoch=4)
        place.metadata.fail = [MetadataUnavailableError()]
        await try_it(place)
        assert (await place.state()).leader_epoch == 4
        await try_it(place)
        assert (await place.state()).leader_epoch == 10

    run(scenario)


def test_to_raise_the_epoch_of_another_leader_is_a_broken_invariant() -> None:
    async def scenario(place: Place) -> None:
        await place.lead(leader=1)
        with pytest.raises(AssertionError):
            await raise_epoch(place.metadata, place.view, BrokerRef(0, 1), P0, place.view.partitions[P0], 9)

    run(scenario)
