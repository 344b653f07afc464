"""The budget of losses: what may be taken from a partition without breaking the promise, and when it is filled again."""

from __future__ import annotations

import pytest

from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata.cluster_keys import Partition, Topic, partition_key, topic_key
from oncelog_runtime.ports import Put
from oncelog_runtime.sim.metadata import SimMetadata
from oncelog_runtime.sim.world import SimWorld
from tests.simulation.losses import LossBudget

WHERE = PartitionId("id", 0)


def store_with(flush_mode: str = "replicated", min_insync: int = 2, replicas: int = 3) -> SimMetadata:
    store = SimWorld("losses").metadata
    config = {"flush_mode": flush_mode, "min_insync_replicas": str(min_insync)}
    store.commit([], [Put(topic_key("t"), Topic("t", "id", 1, replicas, config).encode())], [])
    put_isr(store, *((broker_id, 1) for broker_id in range(replicas)), replicas=replicas)
    return store


def put_isr(store: SimMetadata, *isr: tuple[int, int], replicas: int = 3) -> None:
    refs = tuple(BrokerRef(*ref) for ref in isr)
    state = Partition("t", tuple(range(replicas)), refs[0], 1, refs)
    store.commit([], [Put(partition_key(*WHERE), state.encode())], [])


def budget_of(store: SimMetadata, is_judged: bool = True) -> LossBudget:
    return LossBudget(store, lambda topic: is_judged)


def test_a_second_power_cut_waits_until_the_first_replica_is_back_in_the_isr() -> None:
    store = store_with()
    budget = budget_of(store)
    assert budget.may_cut_power(0)
    budget.power_was_cut(0)
    assert not budget.may_cut_power(1)
    put_isr(store, (1, 1), (2, 1))
    assert not budget.may_cut_power(1), "it is out of the ISR, and not back yet"
    put_isr(store, (1, 1), (2, 1), (0, store.revision + 1))
    assert budget.may_cut_power(1)


def test_whoever_holds_nothing_committed_may_lose_it() -> None:
    store = store_with()
    budget = budget_of(store)
    put_isr(store, (1, 1), (2, 1))
    budget.power_was_cut(0)
    assert budget.may_cut_power(1)


def test_in_fsync_mode_power_cuts_are_free_and_volumes_are_not() -> None:
    budget = budget_of(store_with("fsync"))
    for broker_id in (0, 1, 2):
        assert budget.may_cut_power(broker_id)
        budget.power_was_cut(broker_id)
    assert budget.may_lose_volume(0)
    budget.volume_was_lost(0)
    assert not budget.may_lose_volume(1)


def test_with_one_replica_needed_nothing_may_be_lost() -> None:
    assert not budget_of(store_with(min_insync=1)).may_cut_power(0)
    assert not budget_of(store_with(min_insync=2, replicas=1)).may_cut_power(0)


def test_the_only_holder_loses_nothing() -> None:
    store = store_with()
    budget = budget_of(store)
    put_isr(store, (1, 1))
    assert not budget.may_lose_volume(1)
    put_isr(store, (1, 1), (2, 1))
    assert budget.may_lose_volume(1)


def test_a_topic_that_is_not_judged_is_written_off() -> None:
    budget = budget_of(store_with(min_insync=1), is_judged=False)
    assert budget.may_cut_power(0)
    assert not budget.may_lose_volume(0), "it would never have a leader again"
    budget.power_was_cut(0)
    assert WHERE in budget.written_off


def test_rot_counts_until_the_replica_was_filled_again() -> None:
    store = store_with("fsync")
    budget = budget_of(store)
    assert budget.may_rot(WHERE)
    budget.rotted(0, WHERE)
    assert not budget.may_rot(WHERE)
    assert not budget.may_lose_volume(1)
    assert budget.holders(WHERE, Partition.decode(store.get(partition_key(*WHERE)).value)) == [1, 2]


def test_rot_of_a_replica_outside_of_the_isr_counts_too() -> None:
    store = store_with("fsync")
    budget = budget_of(store)
    put_isr(store, (1, 1), (2, 1))
    budget.rotted(0, WHERE)
    put_isr(store, (0, 1), (2, 1))
    assert not budget.may_rot(WHERE), "it joined with the rot in its log"


def test_rot_that_a_restart_did_not_read_counts_on() -> None:
    store = store_with("fsync")
    budget = budget_of(store)
    rot = [True]
    budget.rotted(0, WHERE, lambda: bool(rot))
    put_isr(store, (0, store.revision + 1), (1, 1), (2, 1))
    assert not budget.may_rot(WHERE), "its replica is in the ISR with the rot in it"
    rot.clear()
    assert budget.may_rot(WHERE)


@pytest.mark.parametrize("bump", [0, 1_000_000])
def test_after_a_restore_of_etcd_those_hold_everything_who_did_right_before_it(bump: int) -> None:
    store = store_with("fsync")
    budget = budget_of(store)
    put_isr(store, (0, 1), (2, 1))
    backup = store.snapshot()
    put_isr(store, (1, 1), (0, 1))
    store.restore(backup, bump)
    assert budget.may_lose_volume(2), "only the backup names it"
    budget.volume_was_lost(0)
    assert not budget.may_lose_volume(1), "nobody else holds everything, whatever the backup says"


@pytest.mark.parametrize("bump", [0, 1_000_000])
def test_what_is_written_after_a_restore_is_believed_again(bump: int) -> None:
    store = store_with("fsync")
    budget = budget_of(store)
    put_isr(store, (0, 1), (2, 1))
    backup = store.snapshot()
    put_isr(store, (1, 1), (0, 1))
    store.restore(backup, bump)
    put_isr(store, (1, store.revision))
    assert not budget.may_lose_volume(1)
    assert budget.may_lose_volume(0)
    put_isr(store, (1, store.revision), (2, store.revision))
    assert budget.may_lose_volume(1)


def test_a_second_restore_does_not_bring_the_first_backup_back() -> None:
    store = store_with("fsync")
    budget = budget_of(store)
    put_isr(store, (0, 1), (2, 1))
    backup = store.snapshot()
    put_isr(store, (1, 1), (0, 1))
    store.restore(backup, 1_000_000)
    store.restore(store.snapshot())
    budget.volume_was_lost(0)
    assert not budget.may_lose_volume(1)


def test_a_loss_right_after_a_restore_is_newer_than_all_incarnations_before_it() -> None:
    store = store_with("fsync")
    budget, backup = budget_of(store), store.snapshot()
    put_isr(store, (0, 1), (1, 1))
    put_isr(store, (0, store.revision), (1, store.revision))
    store.restore(backup)
    budget.volume_was_lost(0)
    assert not budget.may_lose_volume(1), "etcd's revision is below the incarnation that lost its volume"
