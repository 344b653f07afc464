"""Replicas that are being moved are sent data at a bounded rate, and no other replica waits for that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.replication.moved_replicas import Allowance, MovedReplicas
from oncelog_runtime.metadata.cluster_keys import Reassignment

PLACE, OTHER = PartitionId("0" * 32, 0), PartitionId("0" * 32, 1)
OLD, NEW = 1, 4
PER_S = 10_000


class Clock:
    """Stands still unless a test moves it."""

    def __init__(self) -> None:
        self.ms = 5_000

    def monotonic_ms(self) -> int:
        return self.ms


def leadership(partition: PartitionId = PLACE, *isr: int) -> Any:
    refs = tuple(BrokerRef(broker_id, 7) for broker_id in (OLD, *isr))
    return SimpleNamespace(partition=partition, replicas=SimpleNamespace(committed=refs))


def bounded(clock: Clock, bytes_per_s: int = PER_S) -> MovedReplicas:
    moves = {PLACE: SimpleNamespace(value=Reassignment((OLD, 2), (NEW, 2)))}
    return MovedReplicas(bytes_per_s, cast(Any, clock), cast(Any, SimpleNamespace(reassignments=moves)))


def test_a_moved_replica_gets_a_tenth_of_a_second_at_a_time_and_then_waits_for_what_it_got() -> None:
    clock = Clock()
    moved = bounded(clock)
    sent = 0
    for _ in range(100):
        allowed = moved.allowance(leadership(), NEW, 1 << 20)
        assert allowed.is_bounded
        if allowed.wait_ms:
            clock.ms += allowed.wait_ms
            continue
        assert allowed.room == PER_S // 10
        moved.sent(allowed.room)
        sent += allowed.room
    assert sent <= PER_S * (clock.ms - 5_000) / 1_000 + PER_S + PER_S // 10, "the rate, and a second's worth at first"
    assert sent >= PER_S * (clock.ms - 5_000) / 1_000, "and no less"


@pytest.mark.parametrize(
    ("partition", "isr", "broker_id"),
    [(OTHER, (), NEW), (PLACE, (), 2), (PLACE, (NEW,), NEW)],
    ids=["of a partition without a move", "that was there before", "that is in the ISR"],
)
def test_no_other_replica_waits(partition: PartitionId, isr: tuple[int, ...], broker_id: int) -> None:
    moved = bounded(Clock())
    moved.sent(100 * PER_S)
    assert moved.allowance(leadership(partition, *isr), broker_id, 1 << 20) == Allowance(1 << 20)


def test_one_bound_holds_for_all_moves_of_this_broker() -> None:
    moved = bounded(Clock())
    moved.sent(3 * PER_S)
    assert moved.allowance(leadership(), NEW, 1 << 20).wait_ms == 2_000


def test_without_a_bound_nothing_waits() -> None:
    assert bounded(Clock(), 0).allowance(leadership(), NEW, 1 << 20) == Allowance(1 << 20)


def test_a_request_with_less_room_is_not_given_more() -> None:
    assert bounded(Clock()).allowance(leadership(), NEW, 7).room == 7
    assert bounded(Clock(), 1).allowance(leadership(), NEW, 1 << 20).room == 1, "a message has one batch at least"
