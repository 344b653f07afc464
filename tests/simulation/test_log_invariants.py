"""The little model of a log's transactions, by which leaders are judged; and what is derived from a log, or counted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.core.batch.header import read_header
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.core.replication.replica_set import Ends, Registered, ReplicaSet
from oncelog_partition_leader.core.replication.replica_state import Seal
from oncelog_partition_leader.replication.sealing import remove_seal, write_seal
from oncelog_runtime.sim.world import SimWorld
from tests.simulation.invariants import Sight
from tests.simulation.log_invariants import (
    CountsInItsSession,
    DerivedEndsWithTheLog,
    NothingIsCommittedUnderSeal,
    StableIsWhatTheLogSays,
    TransactionModel,
)
from tests.unit.partition_leader.log_helpers import batch, marker


def append(model: TransactionModel, data: bytes) -> int:
    """Appends at the end of the model's log; the offset."""
    offset = model.end
    model.append(read_header(data)._replace(base_offset=offset), memoryview(data))
    return offset


def test_a_transaction_is_unstable_until_its_marker_is_committed() -> None:
    model = TransactionModel()
    first, second = append(model, batch(1, 0, 2, txn=(1, 1))), append(model, batch(2, 0, 3, txn=(2, 1)))
    at = append(model, marker((1, 1)))
    assert model.first_unstable(at) == first
    assert model.first_unstable(at + 1) == second
    end = append(model, marker((2, 1), commit=False))
    assert model.first_unstable(end) == second
    assert model.first_unstable(end + 1) is None


def test_what_is_cut_off_opens_again_what_it_had_ended() -> None:
    model = TransactionModel()
    first = append(model, batch(1, 0, 2, txn=(1, 1)))
    at = append(model, marker((1, 1)))
    later = append(model, batch(2, 0, 1, txn=(2, 1)))
    model.cut(later)
    assert model.first_unstable(later) is None
    model.cut(at)
    assert model.first_unstable(later) == first
    model.cut(first)
    assert (model.first_unstable(later), model.end) == (None, 0)


def test_the_marker_of_an_older_coordinator_is_a_violation_until_the_newer_one_is_cut_off() -> None:
    model = TransactionModel()
    append(model, marker((1, 1), coordinator_epoch=3))
    newest = append(model, marker((1, 2), coordinator_epoch=4))
    with pytest.raises(AssertionError, match="coordinator epoch 3"):
        append(model, marker((1, 3), coordinator_epoch=3))
    append(model, marker((9, 1), coordinator_epoch=1, shard=2))
    model.cut(newest)
    append(model, marker((1, 3), coordinator_epoch=3))


def test_a_session_that_a_marker_fenced_writes_no_more() -> None:
    model = TransactionModel()
    append(model, batch(1, 0, 2, epoch=0, txn=(1, 1)))
    fence = append(model, marker((1, 1), commit=False, session_epoch=1))
    with pytest.raises(AssertionError, match="session 0"):
        append(model, batch(1, 0, 1, epoch=0, txn=(1, 2)))
    model.cut(fence)
    append(model, batch(1, 2, 1, epoch=0, txn=(1, 1)))


def test_a_transaction_has_one_marker_and_no_data_behind_it() -> None:
    model = TransactionModel()
    append(model, batch(1, 0, 2, txn=(1, 1)))
    at = append(model, marker((1, 1)))
    with pytest.raises(AssertionError, match="one more"):
        append(model, marker((1, 1)))
    with pytest.raises(AssertionError, match="and ended at"):
        append(model, batch(1, 2, 1, txn=(1, 1)))
    model.cut(at)
    append(model, marker((1, 1)))


def test_a_watermark_that_moves_under_a_seal_is_seen() -> None:
    with SimWorld("seal") as world:
        disk = world.node("broker-0").disk

        async def write(epoch: int) -> None:
            disk.make_dirs("logs/t")
            await write_seal(disk, "logs/t", Seal(7, epoch, 10))
            await disk.sync_dir("logs")

        def move(to: int) -> None:
            before, now = (Sight(BrokerRef(0, 7), partition, leadership, at, 20, (0, 0, 0)) for at in (to - 1, to))
            NothingIsCommittedUnderSeal().see(before, now)

        partition: Any = SimpleNamespace(id=PartitionId("id", 0), topic="t")
        partition.log = SimpleNamespace(_disk=disk, directory="logs/t")
        leadership: Any = SimpleNamespace(epoch=3)
        world.run(write(2))
        move(11)
        world.run(write(3))
        with pytest.raises(AssertionError, match="the watermark moved under"):
            move(12)
        world.run(remove_seal(disk, "logs/t"))
        move(13)


def sight(log_end: int, leadership: Any = None, **log: Any) -> Sight:
    """A partition with just these parts."""
    derived = {"log_start_offset": 0, "epochs": LeaderEpochs(), "aborted_between": lambda start, end: []}
    partition: Any = SimpleNamespace(id=PartitionId("t", 0), topic="orders", log=SimpleNamespace(**derived | log))
    return Sight(BrokerRef(1, 7), partition, leadership, 0, log_end, (0, 0, 0))


def test_a_leader_with_an_old_watermark_may_know_that_a_marker_was_committed_before_and_no_more() -> None:
    judge = StableIsWhatTheLogSays(lambda _: 9)
    model = TransactionModel(epoch=2)
    first = append(model, batch(1, 0, 5, txn=(1, 1)))
    marked = append(model, marker((1, 1)))
    other = append(model, batch(2, 0, 5, txn=(2, 1)))
    assert (first, marked, other, model.end) == (0, 5, 6, 11)

    def see(stable: int, high_watermark: int) -> None:
        now = sight(11, SimpleNamespace(epoch=2), last_stable_offset=lambda _: stable)
        judge._models[now.partition.id] = model
        judge.see(None, replace(now, high_watermark=high_watermark))

    for known in (0, 4):
        see(known, 4)  # 9 was reached: the marker at 5 is committed, whether this leader knows or not
    see(6, 9)
    for stable, high_watermark in ((7, 9), (0, 9), (5, 4)):
        with pytest.raises(AssertionError, match="the last stable offset is"):
            see(stable, high_watermark)


def test_an_epoch_or_an_aborted_transaction_above_the_end_of_the_log_is_a_violation() -> None:
    epochs = LeaderEpochs()
    epochs.assign(1, 0, 5)
    epochs.assign(2, 5, 8)
    DerivedEndsWithTheLog().see(None, sight(8, epochs=epochs))
    with pytest.raises(AssertionError, match="epoch 2 begins at 5"):
        DerivedEndsWithTheLog().see(sight(8), sight(5, epochs=epochs))
    with pytest.raises(AssertionError, match="aborted index"):
        DerivedEndsWithTheLog().see(sight(8), sight(5, aborted_between=lambda start, end: [start]))


def test_an_acknowledgement_counts_only_in_a_session_that_the_follower_has_begun() -> None:
    other, me = BrokerRef(2, 9), BrokerRef(1, 7)
    replicas = ReplicaSet(
        me,
        Registered((1, 2), (me, other), mod_revision=1),
        Ends(high_watermark=0, log=0, own=0),
        min_insync_replicas=2,
        lag_max_ms=1_000,
        now_ms=0,
    )
    replicas.wrote(5, 5, 0)
    follower: Any = SimpleNamespace(_session=(3, 1))
    leadership = SimpleNamespace(epoch=3, replicas=replicas)
    in_etcd = [replicas.mod_revision]
    CountsInItsSession(lambda _: iter([(other, follower)]), lambda _: in_etcd[0]).see(None, sight(5, leadership))
    replicas.start_session(other, 1, 0)
    assert replicas.acknowledge(other, 1, 2, 0)
    replicas.start_session(other, 2, 0)
    assert not replicas.acknowledge(other, 1, 5, 0)
    with pytest.raises(AssertionError, match="and the follower is in"):
        replicas.acknowledge(other, 2, 5, 0)  # the follower has never heard of this session
    in_etcd[0] += 1
    replicas.acknowledge(other, 2, 5, 0)  # it was forgotten in etcd since, which this leader has not heard of


def test_a_new_leader_may_lack_an_epoch_of_the_model_and_have_an_older_tail_instead() -> None:
    model = TransactionModel(end=30, leader_epochs=[(0, 0), (1, 20)])
    assert model.agreed_with([(0, 0), (1, 20)], 0, 25) == 25
    assert model.agreed_with([(0, 0), (1, 20), (2, 30)], 0, 30) == 30
    assert model.agreed_with([(0, 0)], 0, 40) == 20
    assert model.agreed_with([(0, 0), (3, 10)], 0, 40) == 10
    assert model.agreed_with([(0, 12), (1, 20)], 12, 28) == 28, "retention took what was below"
    model.cut(20)
    assert model.leader_epochs == [(0, 0)]
